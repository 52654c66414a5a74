"""Workers and servers that are killed, frozen and cut off: nothing is lost, nothing is settled twice."""

import os
import shutil
import signal
import threading
import time
import unittest
from collections import Counter
from typing import List

import house
import windlass


class TestKills(house.House):
    JOBS = 200

    def load(self) -> List[str]:
        # A short lease, so that a crash is seen soon; so many crashes that chance quarantines none.
        self.queue(lease_ms=1000, crashes_max=1000)
        return [made.id for made in self.client.enqueue_many(self.client.job("count", {"n": n}) for n in range(self.JOBS))]

    def check(self, ids: List[str]) -> None:
        """Each is completed with what its own payload says, once, by its newest attempt."""
        house.eventually("all jobs are over", lambda: not self.depths().get("default"), 40)
        for n, id in enumerate(ids):
            job = self.job(id)
            self.assertEqual((job.state, job.result), ("completed", (n + 1) * 2), job)
            self.assertEqual([step["name"] for step in job.steps], ["first", "second"])
            ends = [entry for entry in job.timeline if entry["what"] == "completed"]
            self.assertEqual(len(ends), 1, job.timeline)
            self.assertEqual(job.attempts[-1]["outcome"], "completed")
            self.assertEqual(job.attempts[-1]["fence"], job.fence)

    def test_workers_are_killed_under_load(self) -> None:
        ids = self.load()
        for round in range(3):
            workers = [self.start_worker(SLOTS="8") for _ in range(2)]
            # When some of its work is done, and more is in hand.
            house.eventually("they work", lambda: len(self.lines("runs")) >= (round + 1) * 35)
            for worker in workers:
                worker.kill()
                worker.wait()
        self.start_worker(SLOTS="16")
        self.check(ids)
        again = sum(times - 1 for times in Counter(self.lines("runs")).values())
        self.assertGreater(again, 0, "the kills hit work in hand")

    def test_the_server_is_killed_under_load(self) -> None:
        ids = self.load()
        worker = self.start_worker()
        for round in range(3):
            house.eventually("it works", lambda: len(self.lines("runs")) >= (round + 1) * 30)
            self.kill_server()
            self.start_server()
        self.check(ids)
        self.assertIsNone(worker.poll(), "the worker has lived through it")

    def test_answers_are_lost(self) -> None:
        """A claim whose answer was lost is asked again and gives the same jobs; so no job ever runs twice."""
        proxy = house.ForgetfulProxy(self.port)
        self.addCleanup(proxy.close)
        away = windlass.Client(proxy.url, house.TOKEN)
        ids = [away.enqueue("count", {"n": n}) for n in range(20)]
        self.assertFalse(any(made.deduplicated for made in ids))
        ids += away.enqueue_many(away.job("count", {"n": n}) for n in range(20, 60))
        self.assertEqual(self.depths()["default"], 60)
        self.start_worker(proxy.url)
        self.check([made.id for made in ids])
        self.assertEqual(set(Counter(self.lines("runs")).values()), {1})
        self.assertGreater(proxy.swallowed, 50)

    def test_a_claim_that_is_carried_out_late_is_heard_of(self) -> None:
        """The one that is asked again is given nothing, and then the first one takes the job: it is not booked as crashed."""
        proxy = house.LateProxy(self.port)
        self.addCleanup(proxy.close)
        worker = windlass.Worker(proxy.url, house.TOKEN)
        worker.handler("one")(lambda ctx: "done")
        self.begin(worker)
        house.eventually("the one that is asked again is answered", lambda: proxy.claims >= 2)
        proxy.open.clear()
        house.eventually("no claim is under way", lambda: proxy.under_way == 0)
        id = self.client.enqueue("one").id
        self.assertIn(id.encode(), proxy.carry_out())
        proxy.open.set()
        job = self.until_state(id, "completed", 10.0)
        self.assertEqual((job.attempt, job.fence), (1, 1))

    def test_who_stood_still_waits_out_the_pause_of_an_epoch(self) -> None:
        """A file that is put back is a new epoch: until the lease is over that a lost commit may have given, nobody goes on."""
        self.queue(lease_ms=3000)
        id = self.client.enqueue("tick").id
        ticks: List[float] = []
        done = threading.Event()
        worker = windlass.Worker(self.url, house.TOKEN)

        @worker.handler("tick")
        def tick(ctx: windlass.Context) -> int:
            while not done.is_set():
                ctx.go_on()
                ticks.append(time.monotonic())
                done.wait(0.02)
            return len(ticks)

        self.begin(worker)
        house.eventually("it works", lambda: len(ticks) > 3)
        self.kill_server()
        house.eventually("it stands still", lambda: time.monotonic() - ticks[-1] > 3.5)
        before = len(ticks)
        put_back = self.folder / "put_back"
        shutil.copyfile(self.folder / "jobs.db", put_back)
        os.replace(put_back, self.folder / "jobs.db")
        began = time.monotonic()
        self.start_server()
        house.eventually("it goes on", lambda: len(ticks) > before)
        self.assertGreaterEqual(ticks[before] - began, 3.0, "not before the pause is over")
        done.set()
        self.assertEqual(len(self.until_state(id, "completed").attempts), 1, "it is still the first attempt")

    def test_a_frozen_worker_writes_nothing(self) -> None:
        self.queue(lease_ms=2000)
        id = self.client.enqueue("hold").id
        # With one slot it has no claim under way when it freezes, to which the server would give the job again.
        frozen = self.start_worker(SLOTS="1")
        house.eventually("it holds the job", lambda: self.lines("holding"))
        os.kill(frozen.pid, signal.SIGSTOP)
        other = self.start_worker()
        house.eventually("another has it", lambda: len(self.lines("holding")) == 2)
        before = self.job(id)
        self.assertEqual((before.state, before.fence, before.crashes), ("running", 2, 1))
        (self.folder / f"go-{frozen.pid}").touch()
        os.kill(frozen.pid, signal.SIGCONT)
        house.eventually("the frozen one goes on", lambda: str(frozen.pid) in self.lines("stepped"))
        frozen.send_signal(signal.SIGTERM)
        self.assertEqual(frozen.wait(20), 0)
        after = self.job(id)
        self.assertEqual((after.state, after.fence, list(after.steps)), ("running", 2, []))
        (self.folder / f"go-{other.pid}").touch()
        done = self.until_state(id, "completed")
        self.assertEqual((done.result, done.steps[0]["output"]), (f"done by {other.pid}", other.pid))
        self.assertEqual(self.lines("summaries"), ["1/0/1"])

    def test_sigterm_gives_back_and_ends(self) -> None:
        ids = [self.client.enqueue("listen").id for _ in range(3)]
        worker = self.start_worker()
        house.eventually("they run", lambda: len(self.lines("listening")) == 3)
        began = time.monotonic()
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(20), 0)
        self.assertLess(time.monotonic() - began, 8)
        for id in ids:
            self.assertEqual((self.job(id).state, self.job(id).attempt, self.job(id).crashes), ("queued", 0, 0))


if __name__ == "__main__":
    unittest.main()
