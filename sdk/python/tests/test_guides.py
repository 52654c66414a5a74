"""What stands in the documents works: programs and commands are run as they are written."""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path
from typing import List, Optional

import house

ROOT = house.HERE.parents[2]
GUIDES = ROOT / "docs/guide"


def blocks(file: Path, language: str, run: Optional[str] = None) -> List[str]:
    """The blocks of a language; or the one that is marked by a comment before it."""
    mark = rf"<!-- run: {re.escape(run)} -->\n" if run else ""
    found = re.findall(rf"(?ms)^{mark}```{language}\n(.*?)^```$", file.read_text())
    if not found:
        raise AssertionError(f"{file}: no block {language} {run or ''}")
    return found


class TestGuides(house.House):
    def setUp(self) -> None:
        super().setUp()
        self.env = {
            **os.environ, "WINDLASS_URL": self.url, "WINDLASS_TOKEN": house.TOKEN,
            "PYTHONPATH": str(house.HERE.parent / "src"),
            "PATH": f"{Path(house.binary()).parent}:{os.environ['PATH']}",
        }

    def do(self, *command: str, input: Optional[str] = None) -> str:
        done = subprocess.run(
            command, env=self.env, cwd=self.folder, input=input, capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def start_program(self, program: str) -> None:
        file = self.folder / "program.py"
        file.write_text(program)
        self.start([sys.executable, str(file)], "program.log", WINDLASS_URL=self.url, PYTHONPATH=self.env["PYTHONPATH"])

    def test_the_worker_and_the_client_of_the_readme(self) -> None:
        worker, client = blocks(house.HERE.parent / "README.md", "python")
        self.assertLessEqual(len([line for line in worker.splitlines() if line.strip()]), 8)
        self.start_program(worker)
        self.assertEqual(self.do(sys.executable, "-c", client), "{'image': 'cat.png', 'width': 640}\n")

    def test_the_worker_of_the_front_page(self) -> None:
        (worker,) = blocks(ROOT / "README.md", "python")
        self.assertIn("from windlass import Worker", worker)
        self.start_program(worker)
        id = self.client.enqueue("greet", {"name": "Ada"}).id
        self.assertEqual(self.client.wait(id, 20), "Hello, Ada!")

    def test_the_worker_of_the_guide(self) -> None:
        (worker,) = blocks(GUIDES / "remote-workers.md", "python")
        self.start_program(worker)
        id = self.client.enqueue("resize", {"image": "cat.png"}).id
        self.assertEqual(self.client.wait(id, 20), {"size": 7})
        self.assertEqual(self.until_state(self.client.enqueue("resize").id, "failed").error, "there is no image")

    def test_a_token_that_may_only_work(self) -> None:
        (toml,) = blocks(GUIDES / "remote-workers.md", "toml")
        self.kill_server()
        (self.folder / "windlass.toml").write_text(toml)
        os.environ["IMAGES_TOKEN"] = token = "of-the-worker-0123456789abcdef0123"
        self.addCleanup(os.environ.pop, "IMAGES_TOKEN")
        self.start_server()
        worker = house.windlass.Worker(self.url, token, name="images/1", queues="images")
        worker.handler("resize")(lambda ctx: ctx.step("one", lambda: 1))
        id = self.client.enqueue("resize", queue="images").id
        worker.run(until_idle=True)
        self.assertEqual(self.job(id).state, "completed")

    def test_the_commands_of_troubleshooting(self) -> None:
        id = self.client.enqueue("resize", ladder="none").id
        lines = "".join(blocks(GUIDES / "troubleshooting.md", "sh"))
        self.assertGreater(len(lines.splitlines()), 25)
        script = f"set -eu\nID={id}\nfailed() {{ windlass work --kind resize --until-idle --exec false; }}\n"
        for line in lines.splitlines():
            if line.startswith("windlass jobs --state failed"):
                script += "failed\n"  # From here on there is a job that failed.
            # A token is on this server: curl shows it as the guide of the API says.
            script += line.replace("curl -s ", 'curl -sS --fail-with-body -H "authorization: Bearer $WINDLASS_TOKEN" ') + "\n"
        said = self.do("bash", "-c", script)
        self.assertIn("its queue is paused", said)
        self.assertIn("windlass_queue_depth", said)

    def test_a_crontab_is_moved(self) -> None:
        (lines,) = blocks(GUIDES / "migrating.md", "sh", "cron")
        self.assertIn("completed", self.do("bash", "-euc", lines))

    def test_jobs_of_agenda_are_moved_once(self) -> None:
        (program,) = blocks(GUIDES / "migrating.md", "python", "agenda")
        rows = [
            {"_id": {"$oid": "65a000000000000000000001"}, "name": "resize", "data": {"n": 1}, "priority": 10,
             "nextRunAt": {"$date": "2031-01-31T12:00:00.000Z"}, "type": "normal", "lockedAt": None},
            {"_id": {"$oid": "65a000000000000000000002"}, "name": "resize",
             "nextRunAt": {"$date": {"$numberLong": "1700000000000"}}},
            {"_id": {"$oid": "65a000000000000000000003"}, "name": "held", "nextRunAt": {"$date": "2031-01-31T12:00:00Z"},
             "lockedAt": {"$date": "2026-01-31T12:00:00Z"}},
            {"_id": {"$oid": "65a000000000000000000004"}, "name": "over", "nextRunAt": None},
            {"_id": {"$oid": "65a000000000000000000005"}, "name": "again", "repeatInterval": "5 minutes",
             "nextRunAt": {"$date": "2031-01-31T12:00:00Z"}},
        ]
        (self.folder / "agenda.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for _ in range(2):
            self.assertEqual(self.do(sys.executable, "-c", program, "agenda.jsonl"), "2 jobs moved\n")
        self.assertEqual(self.depths(), {"default": 2})
        jobs = self.api("GET", "/v1/jobs?kind=resize")["jobs"]
        self.assertEqual(sorted((job["priority"], job["run_at"]) for job in jobs),
                         [(0, "2023-11-14T22:13:20.000Z"), (10, "2031-01-31T12:00:00.000Z")])

    def test_jobs_of_sidekiq_are_moved(self) -> None:
        """From a real Redis that holds what Sidekiq writes."""
        if shutil.which("redis-server") is None or shutil.which("redis-cli") is None:
            self.fail("redis is missing: apt-get install redis-server")
        port = str(house.free_port())
        self.start(["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder)], "redis.log")
        redis = ["redis-cli", "-p", port]
        house.eventually("Redis answers", lambda: subprocess.run([*redis, "PING"], capture_output=True, check=False).stdout == b"PONG\n")
        bin = self.folder / "bin"
        bin.mkdir()
        (bin / "redis-cli").write_text(f'#!/bin/sh\nexec {shutil.which("redis-cli")} -p {port} "$@"\n')
        (bin / "redis-cli").chmod(0o755)
        self.env["PATH"] = f"{bin}:{self.env['PATH']}"
        for n in (1, 2):  # Sidekiq pushes to the left and takes from the right.
            self.do(*redis, "LPUSH", "queue:default", json.dumps({"class": "ResizeJob", "args": [n], "jid": f"q{n}", "queue": "default"}))
        later = json.dumps({"class": "ResizeJob", "args": ["later"], "jid": "s1", "queue": "images", "retry": 5})
        self.do(*redis, "ZADD", "schedule", "1927540800.5", later)
        (script,) = blocks(GUIDES / "migrating.md", "sh", "sidekiq")
        self.assertIn("3 jobs moved", self.do("bash", "-eu", "-o", "pipefail", "-c", script))
        jobs = self.api("GET", "/v1/jobs?kind=ResizeJob")["jobs"]
        self.assertEqual([(job["payload"], job["queue"]) for job in reversed(jobs)],
                         [([1], "default"), ([2], "default"), (["later"], "images")])
        self.assertEqual(jobs[0]["run_at"], "2031-01-30T12:00:00.500Z")
        self.assertEqual(self.do(*redis, "--raw", "DBSIZE"), "0\n")

    def test_the_lines_that_a_job_of_sidekiq_becomes(self) -> None:
        (program,) = blocks(GUIDES / "migrating.md", "python", "after sidekiq")
        resized: List[str] = []
        worker = house.windlass.Worker(self.url, house.TOKEN, queues="images")
        exec(program, {"worker": worker, "client": self.client, "resize": resized.append})
        (job,) = self.api("GET", "/v1/jobs?kind=ResizeJob")["jobs"]
        self.assertEqual((job["queue"], job["state"], job["payload"]), ("images", "queued", ["cat.png"]))
        self.assertGreater(job["run_at"], job["created_at"])
        self.api("POST", f"/v1/jobs/{job['id']}/run")
        worker.run(until_idle=True)
        self.assertEqual((resized, self.job(job["id"]).state), (["cat.png"], "completed"))


if __name__ == "__main__":
    unittest.main()
