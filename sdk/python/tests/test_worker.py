"""The worker against a real server: every way to end, steps, progress, cancel, stop."""

import datetime
import signal
import threading
import time
import unittest
from typing import Any, List

import house
import windlass
from windlass import Context


class TestWorker(house.House):
    def setUp(self) -> None:
        super().setUp()
        self.worker = windlass.Worker(self.url, house.TOKEN, grace=0.5, renew_every=0.2)

    def run_one(self, handler: Any, **options: Any) -> windlass.Job:
        """One job of one handler, until there is nothing to do."""
        self.worker.handler("one")(handler)
        id = self.client.enqueue("one", options.pop("payload", None), **options).id
        self.worker.run(until_idle=True)
        return self.job(id)

    def test_completed_with_a_result(self) -> None:
        job = self.run_one(lambda ctx: {"n": ctx.payload["n"], "id": ctx.id, "fence": ctx.fence}, payload={"n": 1})
        self.assertEqual((job.state, job.result), ("completed", {"n": 1, "id": job.id, "fence": 1}))

    def test_what_it_says_is_kept_and_its_leaving_is_known(self) -> None:
        def talk(ctx: Context) -> None:
            for number in range(20_000):
                ctx.log(f"line {number}")

        job = self.run_one(talk)
        [log] = self.api("GET", f"/v1/jobs/{job.id}/log")["logs"]
        said = "".join(f"line {number}\n" for number in range(20_000))
        self.assertEqual(log["dropped"] + len(log["text"]), len(said))
        self.assertLessEqual(len(log["text"]), 64 * 1024)
        self.assertTrue(said.endswith(log["text"]) and log["text"].startswith("line "))
        self.assertEqual(self.api("GET", "/v1/workers")["workers"], [])

    def test_a_server_that_hangs_does_not_stop_who_says_much(self) -> None:
        took = []

        def talk(ctx: Context) -> None:
            self.server.send_signal(signal.SIGSTOP)
            try:
                began = time.monotonic()
                for number in range(40):
                    ctx.log(f"line {number}")
                    time.sleep(0.1)
                took.append(time.monotonic() - began)
            finally:
                self.server.send_signal(signal.SIGCONT)

        job = self.run_one(talk)
        self.assertEqual(job.state, "completed")
        self.assertLess(took[0], 9.0, "4 s of work, and once 2 s for a server that does not answer")
        [log] = self.api("GET", f"/v1/jobs/{job.id}/log")["logs"]
        self.assertEqual(log["text"], "".join(f"line {number}\n" for number in range(40)))

    def test_an_error_climbs_the_ladder(self) -> None:
        def fail(ctx: Context) -> str:
            if ctx.attempt < 3:
                raise KeyError("shop")
            return "third time"

        job = self.run_one(fail, ladder="10ms 20ms")
        job = self.until_state(job.id, "completed") if job.is_final else self.finish(job.id)
        self.assertEqual((job.result, job.attempt), ("third time", 3))
        self.assertIn("KeyError: 'shop'", [attempt["error"] for attempt in job.attempts][0])

    def finish(self, id: str) -> windlass.Job:
        """Works until the job is over."""
        while not self.job(id).is_final:
            self.worker.run(until_idle=True)
        return self.job(id)

    def test_the_last_attempt_is_failed(self) -> None:
        def fail(ctx: Context) -> None:
            raise RuntimeError("always")

        job = self.run_one(fail, ladder="none")
        self.assertEqual((job.state, job.failure_reason, job.error), ("failed", "exhausted", "RuntimeError: always"))

    def test_permanent_is_failed_at_once(self) -> None:
        def fail(ctx: Context) -> None:
            raise windlass.Permanent("no such shop")

        job = self.run_one(fail, ladder="1h")
        self.assertEqual((job.state, job.attempt, job.error), ("failed", 1, "no such shop"))

    def test_retry_after_costs_an_attempt_and_park_does_not(self) -> None:
        said: List[Exception] = [windlass.RetryAfter(0.05, "busy"), windlass.Park(datetime.timedelta(milliseconds=50))]

        def handler(ctx: Context) -> int:
            if said:
                raise said.pop(0)
            return ctx.attempt

        job = self.finish(self.run_one(handler, ladder="1h 1h").id)
        self.assertEqual((job.state, job.result), ("completed", 2))
        self.assertEqual([attempt["outcome"] for attempt in job.attempts], ["retrying", "parked", "completed"])
        self.assertEqual(job.attempts[0]["error"], "busy")

    def test_what_is_no_json_and_what_is_too_large_fail(self) -> None:
        job = self.run_one(lambda ctx: {1, 2}, ladder="1h")
        self.assertEqual(job.state, "failed")
        self.assertIn("cannot be written as JSON", job.error or "")
        worker = windlass.Worker(self.url, house.TOKEN)
        worker.handler("large")(lambda ctx: "x" * 100_000)
        id = self.client.enqueue("large").id
        worker.run(until_idle=True)
        self.assertEqual(self.job(id).state, "failed")
        self.assertIn("refused", self.job(id).error or "")

    def test_a_step_is_not_run_twice(self) -> None:
        ran: List[str] = []

        def handler(ctx: Context) -> Any:
            first = ctx.step("first", lambda: ran.append("first") or {"n": 1})
            first["n"] += 100  # Its own copy.
            ctx.step("zwölf/2 %", lambda: ran.append("second"))
            if ctx.attempt == 1:
                raise RuntimeError("half-way")
            return ctx.step("first", lambda: ran.append("again"))

        job = self.finish(self.run_one(handler, ladder="1ms").id)
        self.assertEqual((job.state, job.result, ran), ("completed", {"n": 1}, ["first", "second"]))
        self.assertEqual([step["name"] for step in job.steps], ["first", "zwölf/2 %"])

    def test_progress_is_seen_while_it_runs(self) -> None:
        go = threading.Event()

        def handler(ctx: Context) -> None:
            ctx.progress({"done": 3, "of": 10})
            go.wait(20)

        self.worker.handler("one")(handler)
        id = self.client.enqueue("one").id
        self.begin(self.worker)
        job = house.eventually("progress", lambda: (lambda job: job if job.progress else None)(self.job(id)))
        self.assertEqual((job.state, job.progress), ("running", {"done": 3, "of": 10}))
        go.set()
        self.until_state(id, "completed")

    def test_a_cancel_is_an_exception(self) -> None:
        heard: List[str] = []

        def handler(ctx: Context) -> None:
            try:
                try:
                    ctx.sleep(60)
                except Exception:
                    heard.append("swallowed")
            except windlass.Canceled:
                heard.append("canceled" if ctx.canceled else "?")
                raise

        self.worker.handler("one")(handler)
        id = self.client.enqueue("one").id
        self.begin(self.worker)
        self.until_state(id, "running")
        self.assertEqual(self.client.cancel(id), "cancel_requested")
        self.assertEqual((self.until_state(id, "canceled").result, heard), (None, ["canceled"]))

    def test_a_handler_that_does_not_listen_is_settled_without(self) -> None:
        go, tried = threading.Event(), []

        def deaf(ctx: Context) -> None:
            go.wait(20)
            try:
                ctx.step("late", lambda: tried.append("ran"))
            except windlass.Stop as stop:
                tried.append(type(stop).__name__)

        self.worker.handler("one")(deaf)
        id = self.client.enqueue("one").id
        self.begin(self.worker)
        self.until_state(id, "running")
        self.client.cancel(id)
        job = self.until_state(id, "canceled")
        go.set()
        house.eventually("it comes back", lambda: tried)
        self.assertEqual((tried, list(self.job(id).steps), self.job(id).fence), (["Canceled"], [], job.fence))

    def test_a_timeout_is_tried_again(self) -> None:
        job = self.run_one(lambda ctx: ctx.sleep(30), timeout=0.3, ladder="none")
        self.assertEqual((job.state, job.error), ("failed", "timed out after 300ms"))

    def test_a_budget_is_spent_and_cools_down(self) -> None:
        self.api("PUT", "/v1/budgets/etsy", {"per_second": 2})
        times: List[float] = []

        def handler(ctx: Context) -> None:
            for _ in range(3):
                ctx.spend("etsy")
                times.append(time.monotonic())
            ctx.cool_down("etsy", 3600)

        job = self.run_one(handler)
        self.assertEqual(job.state, "completed")
        self.assertGreater(times[2] - times[0], 0.5)
        self.assertIsNotNone(self.api("GET", "/v1/budgets/etsy")["cooling_until"])

    def test_leases_are_renewed_while_a_handler_is_busy(self) -> None:
        self.queue(lease_ms=1000)

        def busy(ctx: Context) -> int:
            until, n = time.monotonic() + 3.0, 0
            while time.monotonic() < until:
                n += 1
            return n

        job = self.run_one(busy)
        self.assertEqual((job.state, job.fence, job.crashes), ("completed", 1, 0))

    def test_stop_gives_back_what_runs(self) -> None:
        self.worker.handler("one")(lambda ctx: (ctx.step("begun", lambda: 1), ctx.sleep(60)))
        id = self.client.enqueue("one").id
        thread = self.begin(self.worker)
        house.eventually("its step is stored", lambda: self.job(id).steps)
        began = time.monotonic()
        self.worker.stop()
        thread.join(20)
        self.assertLess(time.monotonic() - began, 10)
        job = self.job(id)
        self.assertEqual((job.state, job.attempt, len(job.steps)), ("queued", 0, 1))

    def test_an_idle_worker_ends_at_once(self) -> None:
        self.worker.handler("one")(lambda ctx: None)
        thread = self.begin(self.worker)
        house.eventually("it has asked", lambda: self.api("GET", "/v1/workers")["workers"])
        began = time.monotonic()
        self.worker.stop()
        thread.join(20)
        self.assertLess(time.monotonic() - began, 5, "a long poll does not hold up the end")

    def test_handlers_are_checked_when_they_are_named(self) -> None:
        async def wrong(ctx: Context) -> None: ...

        with self.assertRaises(TypeError):
            self.worker.handler("one")(wrong)
        with self.assertRaises(ValueError):
            self.worker.run()


if __name__ == "__main__":
    unittest.main()
