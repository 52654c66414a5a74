"""A real server of its own for each test: the program named by WINDLASS_BIN, on SQLite and a free loopback port."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

import windlass  # noqa: E402

TOKEN = "token-of-the-tests-0123456789abcdef"


def binary() -> str:
    """The program under test. Tests never skip: without it they fail."""
    named = os.environ.get("WINDLASS_BIN")
    if not named or not Path(named).is_file():
        raise RuntimeError("set WINDLASS_BIN to the windlass program: cargo build --release")
    return str(Path(named).resolve())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(what: str, look: Callable[[], Any], seconds: float = 25.0) -> Any:
    """Looks until there is something, and fails when there is nothing for long."""
    until = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"not in {seconds} s: {what}")
        time.sleep(0.02)


class House(unittest.TestCase):
    """A server, a client for it, and workers in processes of their own; all of them end with the test."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="windlass-sdk-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.processes: List[subprocess.Popen] = []
        self.addCleanup(self.end_processes)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start_server()
        self.client = windlass.Client(self.url, TOKEN)
        self.addCleanup(self.client.close)

    def start_server(self) -> None:
        command = [binary(), "serve", "--listen", f"127.0.0.1:{self.port}", "--store", f"sqlite:{self.folder}/jobs.db"]
        self.server = self.start(command, "server.log")
        eventually("the server answers", self.answers)

    def answers(self) -> bool:
        if self.server.poll() is not None:
            raise AssertionError((self.folder / "server.log").read_text())
        try:
            return bool(urllib.request.urlopen(f"{self.url}/readyz", timeout=5).status == 200)
        except OSError:
            return False

    def kill_server(self) -> None:
        self.server.kill()
        self.server.wait()

    def start(self, command: List[str], log: str, **env: str) -> subprocess.Popen:
        with open(self.folder / log, "ab") as out:
            process = subprocess.Popen(
                command, cwd=self.folder, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                env={**os.environ, "WINDLASS_TOKEN": TOKEN, **env},
            )
        self.processes.append(process)
        return process

    def start_worker(self, url: Optional[str] = None, **env: str) -> subprocess.Popen:
        """A worker of `worker_program.py`."""
        program = [sys.executable, str(HERE / "worker_program.py"), str(self.folder)]
        return self.start(program, "worker.log", WINDLASS_URL=url or self.url, **env)

    def end_processes(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()

    def api(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        return json.load(urllib.request.urlopen(request, timeout=30))

    def queue(self, name: str = "default", **policy: Any) -> None:
        self.api("PUT", f"/v1/queues/{name}", policy)

    def job(self, id: str) -> windlass.Job:
        job = self.client.get(id)
        assert job is not None, f"job {id} is lost"
        return job

    def until_state(self, id: str, state: str, seconds: float = 25.0) -> windlass.Job:
        return eventually(f"job {id} is {state}", lambda: (lambda job: job if job.state == state else None)(self.job(id)), seconds)

    def depths(self) -> Dict[str, int]:
        """How many jobs are not over."""
        queues = self.api("GET", "/v1/queues")["queues"]
        return {queue["name"]: queue["depth"] + queue["running"] for queue in queues}

    def lines(self, name: str) -> List[str]:
        file = self.folder / name
        return file.read_text().split() if file.exists() else []

    def begin(self, worker: windlass.Worker) -> threading.Thread:
        """Runs a worker of this process beside the test."""
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        self.addCleanup(thread.join, 20)
        self.addCleanup(worker.stop)
        return thread


class ForgetfulProxy:
    """Passes calls on, and swallows every third answer to what workers and clients write: the connection just ends."""

    def __init__(self, port: int, every: int = 3) -> None:
        self.to, self.every, self.calls, self.swallowed = port, every, 0, 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        try:
            with caller, socket.create_connection(("127.0.0.1", self.to)) as server:
                while True:
                    asked = _message(caller)
                    if not asked:
                        return
                    server.sendall(asked)
                    answer = _message(server)
                    if not answer or self._forgets(asked):
                        return
                    caller.sendall(answer)
        except OSError:
            return

    def _forgets(self, asked: bytes) -> bool:
        with self.lock:
            self.calls += 1
            if self.calls % self.every:
                return False
            self.swallowed += 1
            return True


class LateProxy(ForgetfulProxy):
    """Keeps the first claim to itself, as a server does that was frozen, and passes everything else on."""

    def __init__(self, port: int) -> None:
        super().__init__(port, every=1 << 30)
        self.late, self.claims, self.under_way = b"", 0, 0
        self.open = threading.Event()
        self.open.set()

    def _serve(self, caller: socket.socket) -> None:
        try:
            with caller, socket.create_connection(("127.0.0.1", self.to)) as server:
                while True:
                    asked = _message(caller)
                    if not asked:
                        return
                    claim = asked.startswith(b"POST /v1/claim ")
                    if claim and not self.late:
                        self.late = asked
                        return
                    if claim:
                        self.claims += 1
                        self.open.wait(10)
                        self.under_way += 1
                    server.sendall(asked)
                    answer = _message(server)
                    self.under_way -= claim
                    if not answer:
                        return
                    caller.sendall(answer)
        except OSError:
            return

    def carry_out(self) -> bytes:
        """Carries out the first claim; nobody hears what it gave."""
        with socket.create_connection(("127.0.0.1", self.to)) as server:
            server.sendall(self.late)
            return _message(server)


def _message(sock: socket.socket) -> bytes:
    """One request or answer with its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        more = sock.recv(65536)
        if not more:
            return b""
        body += more
        data += more
    return data
