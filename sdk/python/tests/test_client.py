"""The client against a real server."""

import datetime
import threading
import unittest

import house
import windlass


class TestClient(house.House):
    def test_a_job_is_enqueued_once_and_found(self) -> None:
        made = self.client.enqueue(
            "resize", {"image": "cat.png"}, queue="images", priority=7, key="shop-7", budgets=["etsy"],
            ladder="1m 5m", max_attempts=9, timeout=90, delay=datetime.timedelta(hours=1), meta={"by": "test"},
        )
        self.assertFalse(made.deduplicated)
        job = self.job(made.id)
        self.assertEqual((job.kind, job.queue, job.state, job.payload), ("resize", "images", "queued", {"image": "cat.png"}))
        self.assertEqual((job.priority, job.key, list(job.budgets)), (7, "shop-7", ["etsy"]))
        self.assertEqual((job.timeout, job.meta, job.is_final), ("90s", {"by": "test"}, False))
        self.assertEqual(job.retry, {"ladder": "1m 5m", "max_attempts": 9})
        self.assertEqual(self.client.explain(made.id)["status"], "held")
        self.assertIsNone(self.client.get(windlass.new_id()))

    def test_the_same_id_or_dedupe_key_is_the_same_job(self) -> None:
        id = windlass.new_id()
        self.assertFalse(self.client.enqueue("a", id=id).deduplicated)
        self.assertEqual(self.client.enqueue("a", id=id), windlass.Enqueued(id, True))
        with self.assertRaises(windlass.Refused) as refused:
            self.client.enqueue("b", id=id)
        self.assertEqual((refused.exception.status, refused.exception.code), (409, "id_conflict"))
        first = self.client.enqueue("a", dedupe_key="k")
        self.assertEqual(self.client.enqueue("a", dedupe_key="k"), windlass.Enqueued(first.id, True))

    def test_many_are_all_or_none(self) -> None:
        jobs = [self.client.job("many", {"n": n}) for n in range(500)]
        made = self.client.enqueue_many(jobs)
        self.assertEqual(len({one.id for one in made}), 500)
        self.assertFalse(any(one.deduplicated for one in made))
        with self.assertRaises(windlass.Refused) as refused:
            self.client.enqueue_many([self.client.job("many"), self.client.job("")])
        self.assertEqual(refused.exception.details["field"], "jobs[1].kind" if "jobs[1]" in str(refused.exception.details) else "kind")
        self.assertEqual(self.depths()["default"], 500)
        self.assertEqual(self.client.enqueue_many([]), [])

    def test_wait_gives_the_result_or_says_why_not(self) -> None:
        worker = windlass.Worker(self.url, house.TOKEN)
        go = threading.Event()

        @worker.handler("ok")
        def ok(ctx: windlass.Context) -> dict:
            go.wait(10)
            return {"n": ctx.payload}

        @worker.handler("bad")
        def bad(ctx: windlass.Context) -> None:
            raise windlass.Permanent("no such shop")

        self.begin(worker)
        made = self.client.enqueue("ok", 5)
        with self.assertRaises(TimeoutError):
            self.client.wait(made.id, timeout=0.1)
        go.set()
        self.assertEqual(self.client.wait(made.id, timeout=20), {"n": 5})
        with self.assertRaises(windlass.JobFailed) as failed:
            self.client.wait(self.client.enqueue("bad").id, timeout=20)
        self.assertEqual(failed.exception.job.error, "no such shop")
        later = self.client.enqueue("ok", delay=3600)
        self.assertEqual(self.client.cancel(later.id), "canceled")
        self.assertEqual(self.client.cancel(later.id), "canceled")
        self.assertEqual(self.client.cancel(made.id), "final")
        with self.assertRaises(windlass.JobCanceled):
            self.client.wait(later.id)
        self.client.retry(later.id)
        self.assertIn(self.job(later.id).state, ("queued", "running", "completed"))

    def test_several_servers_and_none(self) -> None:
        nobody = f"http://127.0.0.1:{house.free_port()}"
        both = windlass.Client([nobody, self.url], house.TOKEN)
        self.assertEqual(self.job(both.enqueue("a").id).kind, "a")
        alone = windlass.Client(nobody, house.TOKEN, patience=0.3)
        with self.assertRaises(windlass.Unavailable):
            alone.enqueue("a")

    def test_a_wrong_token_is_said_at_once(self) -> None:
        with self.assertRaises(windlass.Refused) as refused:
            windlass.Client(self.url, "wrong").enqueue("a")
        self.assertEqual(refused.exception.status, 401)
        worker = windlass.Worker(self.url, "wrong")
        worker.handler("a")(lambda ctx: None)
        with self.assertRaises(windlass.Refused):
            worker.run()

    def test_bad_addresses_are_refused(self) -> None:
        for url in ("127.0.0.1:7717", "ftp://x", "http://user:secret@x", " , "):
            with self.subTest(url), self.assertRaises(ValueError) as error:
                windlass.Client(url)
            self.assertNotIn("secret", str(error.exception))


if __name__ == "__main__":
    unittest.main()
