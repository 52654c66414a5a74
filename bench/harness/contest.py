"""One run of one contestant: start it, say go, hear what it found, see what it used."""

import json
import os
import shutil
import subprocess
import tempfile
import threading
import time

from . import install, usage

READY_S_MAX = 60
# What a run may last beyond its own limit.
GRACE_S = 60
# How long the settlements that come after the last handler are waited for.
SETTLED_S_MAX = 20


class Failed(Exception):
    """A contestant broke; its last words are in the text."""


class Process:
    """A contestant that runs."""

    def __init__(self, contestant, measure, url, options):
        words = [*install.command(contestant), measure, "--url", url]
        for name, value in {**contestant.options, **options}.items():
            words += [f"--{name}", str(value)]
        self.words = words
        self.errors = tempfile.TemporaryFile(mode="w+")
        if not os.path.exists(words[0]) and not shutil.which(words[0]):
            raise Failed(f"{words[0]} is missing; run without --no-install")
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, env=install.environment())

    def ready(self):
        while (line := self.process.stdout.readline()).strip() != "ready":
            if not line:
                self._fail("ended before it was ready")

    def go(self):
        self.cpu = usage.tree_cpu_seconds(self.process.pid)
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def drained(self):
        """Waits until the last handler has run; when that was."""
        while (line := self.process.stdout.readline()).strip() != "drained":
            if not line:
                self._fail("ended without having drained")

    def result(self):
        while not (line := self.process.stdout.readline()).startswith("{"):
            if not line:
                self._fail("ended without a result")
        found = json.loads(line)
        found["cpu_client_s"] = usage.tree_cpu_seconds(self.process.pid) - self.cpu
        found["rss_mib"] = usage.peak_rss_mib(self.process.pid)
        return found

    def end(self):
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()

    def _fail(self, what):
        self.process.kill()
        self.errors.seek(0)
        words = " ".join(self.errors.read().split())[-300:]
        raise Failed(f"{what}: {words}")


def run(contestant, server, measure, url, options, processes=1, settled=None):
    """Runs a measure in one process or in several at once, and returns one sample.

    `settled` says whether all jobs of a drain are settled; the drain lasts until then."""
    dead_rows = server.dead_rows()
    started = [Process(contestant, measure, url, options) for _ in range(processes)]
    try:
        # Hangs are cut here, not in each contestant.
        deadline = READY_S_MAX + float(options.get("seconds", 600)) + GRACE_S
        with _Killer(started, deadline):
            for process in started:
                process.ready()
            wal_bytes = server.wal_bytes()
            machine, server_cpu, clock = usage.machine_cpu_seconds(), server.cpu_seconds(), time.monotonic()
            for process in started:
                process.go()
            settled_ms = _wait_until(started[0], settled, clock + options["seconds"]) if settled else None
            found = [process.result() for process in started]
            elapsed = time.monotonic() - clock
            server_cpu = server.cpu_seconds() - server_cpu
            machine = usage.machine_cpu_seconds() - machine
            counted = {"wal_bytes": _since(wal_bytes, server.wal_bytes())}
    finally:
        for process in started:
            process.end()
    counted["dead_rows"] = _since(dead_rows, server.dead_rows())
    for one in found:
        # A handler that runs twice does not make two jobs.
        one["jobs"] = min(one["jobs"], options.get("jobs", one["jobs"]))
    if settled_ms:
        found[0]["end_ms"] = max(settled_ms, found[0]["end_ms"])
    ours = sum(one["cpu_client_s"] for one in found) + server_cpu
    return _sample(found, server_cpu, max(0.0, machine - ours) / elapsed, counted)


def _wait_until(process, settled, cut):
    """When all was settled, or the run was cut short; nothing if all was settled at the first look, or never."""
    process.drained()
    if time.monotonic() >= cut:
        return time.time() * 1e3
    deadline = time.monotonic() + SETTLED_S_MAX
    first = True
    while not settled():
        first = False
        if time.monotonic() > deadline:
            return None
        time.sleep(0.01)
    return None if first else time.time() * 1e3


def _since(before, now):
    return None if before is None else now - before


def _sample(found, server_cpu, others, counted):
    jobs = sum(one["jobs"] for one in found)
    begin = min(one["start_ms"] for one in found)
    end = max([one["end_ms"] for one in found if one["jobs"]] or [begin])
    seconds = max((end - begin) / 1e3, 1e-9)
    sample = {
        "jobs": jobs,
        "runs": sum(one.get("runs", 0) for one in found),
        "seconds": round(seconds, 4),
        "per_second": round(jobs / seconds, 1),
        "cpu_client_us": round(sum(one["cpu_client_s"] for one in found) / max(jobs, 1) * 1e6, 2),
        "cpu_server_us": round(server_cpu / max(jobs, 1) * 1e6, 2),
        "rss_mib": round(sum(one["rss_mib"] for one in found), 1),
        # Cores that others used meanwhile.
        "others": round(others, 3),
    }
    for name, value in counted.items():
        if value is not None:
            sample[f"{name}_per_job"] = round(value / max(jobs, 1), 3)
    pickups = sorted(ms for one in found for ms in one.get("pickups_ms", []))
    if pickups:
        sample["p50_ms"] = pickups[(len(pickups) - 1) // 2]
        sample["p99_ms"] = pickups[int((len(pickups) - 1) * 0.99)]
    return sample


class _Killer:
    """Kills contestants that hang."""

    def __init__(self, processes, seconds):
        self.timer = threading.Timer(seconds, lambda: [one.process.kill() for one in processes])
        self.timer.daemon = True

    def __enter__(self):
        self.timer.start()

    def __exit__(self, *_):
        self.timer.cancel()
