"""Windlass for Python: enqueue durable jobs, and work on them. One file, no dependencies.

    from windlass import Worker

    worker = Worker()                     # WINDLASS_URL, WINDLASS_TOKEN

    @worker.handler("resize")
    def resize(ctx):
        return {"name": ctx.payload["image"].upper()}

    worker.run()                          # until SIGTERM or SIGINT

Every call may be repeated without harm: jobs and claims carry ids that are made here, and what a worker
writes carries its fence. So a call whose answer was lost is simply made again, to the next of the servers.
"""

from __future__ import annotations

import datetime as _datetime
import http.client
import inspect
import json
import logging
import os
import random
import re
import secrets
import signal
import socket
import ssl
import threading
import time
import urllib.parse
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, TypeVar, Union

__all__ = [
    "Canceled", "Client", "Context", "Enqueued", "Job", "JobCanceled", "JobFailed", "LeaseLost", "Park",
    "Permanent", "Refused", "RetryAfter", "ShuttingDown", "Stop", "Summary", "TimedOut", "Unavailable",
    "WindlassError", "Worker",
]
__version__ = "0.1.0"

DEFAULT_URL = "http://127.0.0.1:7717"
_CONNECTION_IDLE_S = 20.0      # a connection that nobody used for so long is not used again
_CONNECTIONS_KEPT_MAX = 16
_ANSWER_BYTES_MAX = 256 * 1024 * 1024
_LOG_BYTES_MAX = 64 * 1024     # of what an attempt said, the end is kept
_LOG_S = 1.0                   # how often that is written
_LOG_CALL_S = 2.0              # for how long a line may wait for its being written
_LOG_PAUSE_S = 10.0            # nothing is written for so long after that went wrong
_CALL_S = 35.0                 # the server ends a call after 30 s by itself
_CLAIM_WAIT_MS = 30_000
_DOUBT_SECONDS = 60.0  # A claim whose answer was lost may be carried out for so long.
_DOUBT_WAIT_MS = 1_000  # What it then gives is asked for this often.
_CLAIM_MAX = 100
_ERROR_CHARS_MAX = 8_000       # the server cuts errors at 8 KiB

_log = logging.getLogger("windlass")
_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])
Seconds = Union[int, float, _datetime.timedelta]


# What can go wrong -------------------------------------------------------------------------------------------


class WindlassError(Exception):
    """Any error of this module that a caller may meet."""


class Refused(WindlassError):
    """The server refused, and nothing was changed. `code` never changes, and is for programs."""

    def __init__(self, status: int, code: str, message: str, details: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(f"{message} ({status} {code})")
        self.status, self.code, self.details = status, code, dict(details or {})


class Unavailable(WindlassError):
    """No server answered in time: whether anything changed is unknown. Asking again with the same ids is harmless."""


class JobFailed(WindlassError):
    """The job that was waited for has failed."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"job {job.id} failed ({job.failure_reason}): {job.error}")
        self.job = job


class JobCanceled(WindlassError):
    """The job that was waited for was canceled."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"job {job.id} was canceled")
        self.job = job


# How a handler says that it did not succeed -------------------------------------------------------------------


class RetryAfter(Exception):
    """Try again after so long, instead of the ladder's delay. Costs an attempt."""

    def __init__(self, after: Seconds, error: str = "") -> None:
        super().__init__(error or f"try again in {_span(after)}")
        self.after = after


class Park(Exception):
    """Go on after so long. Costs no attempt."""

    def __init__(self, after: Seconds, why: str = "") -> None:
        super().__init__(why or f"parked for {_span(after)}")
        self.after = after


class Permanent(Exception):
    """Trying again is of no use: the job is failed."""


# How a handler is told to stop --------------------------------------------------------------------------------


class Stop(BaseException):
    """The attempt is to end. No `Exception`, so that a handler's own `except Exception` does not catch it."""


class Canceled(Stop):
    """Somebody canceled the job."""


class ShuttingDown(Stop):
    """The worker ends: the job is given back, which costs no attempt."""


class TimedOut(Stop):
    """The attempt took longer than the job's `timeout`."""


class LeaseLost(Stop):
    """The job belongs to somebody else now, or to nobody. Nothing of this attempt is written any more."""


# What is known of jobs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A job as the server shows it. Times are RFC 3339 texts, durations texts such as `30s`."""

    id: str
    kind: str
    queue: str
    state: str
    payload: Any = None
    priority: int = 0
    key: Optional[str] = None
    dedupe_key: Optional[str] = None
    budgets: Sequence[str] = ()
    retry: Optional[Mapping[str, Any]] = None
    timeout: Optional[str] = None
    meta: Any = None
    run_at: Optional[str] = None
    created_at: Optional[str] = None
    started_at: Optional[str] = None
    ended_at: Optional[str] = None
    attempt: int = 0
    crashes: int = 0
    retries: int = 0
    fence: int = 0
    failure_reason: Optional[str] = None
    error: Optional[str] = None
    worker: Optional[str] = None
    lease: Optional[Mapping[str, Any]] = None
    progress: Any = None
    result: Any = None
    folded: Sequence[str] = ()
    steps: Sequence[Mapping[str, Any]] = ()
    attempts: Sequence[Mapping[str, Any]] = ()
    timeline: Sequence[Mapping[str, Any]] = ()

    @property
    def is_final(self) -> bool:
        """Whether it is completed, failed or canceled."""
        return self.state in ("completed", "failed", "canceled")

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Job:
        """From an answer; fields of a newer server are left out."""
        return cls(**{name: answer[name] for name in _JOB_FIELDS if name in answer})


_JOB_FIELDS = tuple(field.name for field in fields(Job))


@dataclass(frozen=True)
class Enqueued:
    """A job that was accepted and is durable, or was there before by its id or its dedupe key."""

    id: str
    deduplicated: bool


@dataclass(frozen=True)
class Summary:
    """What a worker did in its life."""

    claimed: int
    settled: int
    lost: int


# Calls --------------------------------------------------------------------------------------------------------


class _Servers:
    """Calls to the first of several servers that answers, over connections that are kept."""

    def __init__(self, urls: Sequence[str], token: Optional[str]) -> None:
        self.bases = [_base(url) for url in urls]
        self.first = 0
        # The server shows with what a worker works, and on which machine.
        host = re.sub(r"[^\w.:-]", "", socket.gethostname(), flags=re.ASCII)
        agent = f"windlass-python/{__version__} ({host})"
        self.headers = {"content-type": "application/json", "user-agent": agent}
        if token:
            self.headers["authorization"] = f"Bearer {token}"
        self.lock = threading.Lock()
        self.idle: List[Tuple[int, float, http.client.HTTPConnection]] = []

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        within: Optional[float] = 30.0,
        timeout: float = _CALL_S,
        hold: Optional[_Held] = None,
        give_up: Optional[Callable[[], bool]] = None,
    ) -> Any:
        """Asks until there is an answer: for `within` seconds (None: for as long as it takes), or until `give_up`."""
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        began, pause = _now(), 0.05
        while True:
            again: Optional[float] = None
            try:
                status, answer, again = self._once(method, path, content, timeout, hold)
                if status < 400:
                    return answer
                refused = _refusal(status, answer)
                if status < 500 and status not in (408, 429):
                    raise refused
                why: Exception = refused
            except (OSError, http.client.HTTPException, ValueError) as error:
                why = error
            if (within is not None and _now() - began + pause > within) or (give_up is not None and give_up()):
                raise Unavailable(f"{method} {path}: {why}; whether anything changed is unknown") from why
            time.sleep(max(pause * random.uniform(0.5, 1.0), again or 0.0))
            pause = min(pause * 2, 2.0)

    def _once(
        self, method: str, path: str, content: Optional[bytes], timeout: float, hold: Optional[_Held]
    ) -> Tuple[int, Any, Optional[float]]:
        place, connection = self._take(timeout)
        try:
            if hold is not None:
                hold.take(connection)
            prefix = self.bases[place].path.rstrip("/")
            connection.request(method, prefix + path, content, self.headers)
            response = connection.getresponse()
            raw = _body(response)
            if response.will_close:
                connection.close()
            answer = json.loads(raw) if raw and response.status < 500 else _lenient(raw)
            again = response.getheader("retry-after")
        except BaseException:
            connection.close()
            with self.lock:  # The next one may be alive.
                self.first = (place + 1) % len(self.bases)
            raise
        finally:
            if hold is not None:
                hold.drop()
        if response.status >= 500 and len(self.bases) > 1:
            with self.lock:
                self.first = (place + 1) % len(self.bases)
        self._keep(place, connection)
        return response.status, answer, float(again) if again and again.isdigit() else None

    def _take(self, timeout: float) -> Tuple[int, http.client.HTTPConnection]:
        with self.lock:
            place, now = self.first, _now()
            while self.idle:
                at, used, connection = self.idle.pop()
                if at == place and now - used < _CONNECTION_IDLE_S and connection.sock is not None:
                    connection.sock.settimeout(timeout)
                    return place, connection
                connection.close()
        base = self.bases[place]
        if base.scheme == "https":
            secure = http.client.HTTPSConnection(
                base.hostname or "", base.port, timeout=timeout, context=ssl.create_default_context()
            )
            return place, secure
        return place, http.client.HTTPConnection(base.hostname or "", base.port, timeout=timeout)

    def _keep(self, place: int, connection: http.client.HTTPConnection) -> None:
        with self.lock:
            if connection.sock is not None and len(self.idle) < _CONNECTIONS_KEPT_MAX:
                self.idle.append((place, _now(), connection))
                return
        connection.close()

    def close(self) -> None:
        with self.lock:
            for _, _, connection in self.idle:
                connection.close()
            self.idle.clear()


class _Held:
    """The connection of a call that another thread may cut: a long poll, when the worker is to end."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: Optional[http.client.HTTPConnection] = None
        self.cut_already = False

    def take(self, connection: http.client.HTTPConnection) -> None:
        with self.lock:
            if self.cut_already:
                raise ConnectionAbortedError("the worker ends")
            self.connection = connection

    def drop(self) -> None:
        with self.lock:
            self.connection = None

    def cut(self) -> None:
        with self.lock:
            self.cut_already = True
            sock = self.connection.sock if self.connection is not None else None
            if sock is not None:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


class Client:
    """Enqueues jobs and looks at them. Safe to share between threads.

    `urls` defaults to WINDLASS_URL (several are parted by commas), `token` to WINDLASS_TOKEN. A call is repeated
    for up to `patience` seconds while no server answers.
    """

    def __init__(
        self,
        urls: Union[str, Iterable[str], None] = None,
        token: Optional[str] = None,
        *,
        patience: Seconds = 30,
    ) -> None:
        self._servers = _Servers(_urls(urls), token if token is not None else os.environ.get("WINDLASS_TOKEN"))
        self._patience = _seconds(patience)

    def enqueue(
        self,
        kind: str,
        payload: Any = None,
        *,
        id: Optional[str] = None,
        queue: Optional[str] = None,
        priority: Optional[int] = None,
        delay: Optional[Seconds] = None,
        run_at: Optional[_datetime.datetime] = None,
        key: Optional[str] = None,
        dedupe_key: Optional[str] = None,
        budgets: Optional[Sequence[str]] = None,
        ladder: Optional[str] = None,
        max_attempts: Optional[int] = None,
        timeout: Optional[Seconds] = None,
        meta: Any = None,
    ) -> Enqueued:
        """Accepts a job. When this returns it is durable."""
        job = self.job(
            kind, payload, id=id, queue=queue, priority=priority, delay=delay, run_at=run_at, key=key,
            dedupe_key=dedupe_key, budgets=budgets, ladder=ladder, max_attempts=max_attempts, timeout=timeout,
            meta=meta,
        )
        job.setdefault("id", new_id())
        return _enqueued(self._call("POST", "/v1/jobs", job), job, chosen=id is not None)

    def enqueue_many(self, jobs: Iterable[Mapping[str, Any]]) -> List[Enqueued]:
        """Accepts up to 10,000 jobs, made by `job(…)`, all or none."""
        wanted = [dict(job) for job in jobs]
        chosen = ["id" in job for job in wanted]
        for job in wanted:
            job.setdefault("id", new_id())
        if not wanted:
            return []
        answers = self._call("POST", "/v1/jobs/batch", {"jobs": wanted})["jobs"]
        return [_enqueued(answer, job, own) for answer, job, own in zip(answers, wanted, chosen)]

    @staticmethod
    def job(
        kind: str,
        payload: Any = None,
        *,
        id: Optional[str] = None,
        queue: Optional[str] = None,
        priority: Optional[int] = None,
        delay: Optional[Seconds] = None,
        run_at: Optional[_datetime.datetime] = None,
        key: Optional[str] = None,
        dedupe_key: Optional[str] = None,
        budgets: Optional[Sequence[str]] = None,
        ladder: Optional[str] = None,
        max_attempts: Optional[int] = None,
        timeout: Optional[Seconds] = None,
        meta: Any = None,
    ) -> Dict[str, Any]:
        """A job for `enqueue_many`, as the API takes it."""
        retry: Optional[Dict[str, Any]] = None
        if ladder is not None:
            retry = {"ladder": ladder, "max_attempts": max_attempts}
        elif max_attempts is not None:
            raise ValueError("max_attempts goes with a ladder: say both")
        said: Dict[str, Any] = {
            "id": None if id is None else str(uuid.UUID(id)), "kind": kind, "payload": payload,
            "queue": queue, "priority": priority, "key": key, "dedupe_key": dedupe_key,
            "delay": None if delay is None else _span(delay), "run_at": None if run_at is None else _moment(run_at),
            "budgets": None if budgets is None else list(budgets), "retry": retry,
            "timeout": None if timeout is None else _span(timeout), "meta": meta,
        }
        return {name: value for name, value in said.items() if value is not None}

    def get(self, id: str) -> Optional[Job]:
        """The job with all that is known of it; None when there is none."""
        try:
            return Job.read(self._call("GET", f"/v1/jobs/{_part(id)}"))
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def wait(self, id: str, timeout: Optional[Seconds] = None) -> Any:
        """What the job gave, as soon as it is over. Raises JobFailed, JobCanceled, or TimeoutError."""
        until = None if timeout is None else _now() + _seconds(timeout)
        while True:
            left = 30.0 if until is None else min(30.0, max(0.0, until - _now()))
            job = Job.read(self._call("GET", f"/v1/jobs/{_part(id)}?wait={int(left * 1000)}ms", timeout=left + _CALL_S))
            if job.state == "completed":
                return job.result
            if job.state == "failed":
                raise JobFailed(job)
            if job.state == "canceled":
                raise JobCanceled(job)
            if until is not None and _now() >= until:
                raise TimeoutError(f"job {id} is {job.state} after {timeout} s")

    def cancel(self, id: str) -> str:
        """Cancels a job: `canceled` at once when it was queued, `cancel_requested` when it runs, `final` when over."""
        try:
            return str(self._call("POST", f"/v1/jobs/{_part(id)}/cancel")["outcome"])
        except Refused as refused:
            if refused.code != "final":
                raise
        # It may have been this very call that canceled it, if the first answer was lost.
        job = self.get(id)
        return "canceled" if job is not None and job.state == "canceled" else "final"

    def retry(self, id: str) -> None:
        """Starts a new life of a final job. Its stored steps stay."""
        self._call("POST", f"/v1/jobs/{_part(id)}/retry")

    def explain(self, id: str) -> Mapping[str, Any]:
        """Why the job is not running."""
        answer: Mapping[str, Any] = self._call("GET", f"/v1/jobs/{_part(id)}/explain")["explanation"]
        return answer

    def close(self) -> None:
        """Closes the connections that are kept."""
        self._servers.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: str, path: str, body: Any = None, timeout: float = _CALL_S) -> Any:
        return self._servers.call(method, path, body, within=self._patience, timeout=timeout)


# One attempt --------------------------------------------------------------------------------------------------


class Context:
    """What a handler gets: the job, and what it may say of it."""

    def __init__(self, worker: Worker, lease: Mapping[str, Any], fresh: bool) -> None:
        self.job = Job.read(lease["job"])
        self.fence = int(lease["fence"])
        # By what a write is taken; the ticket says where the store finds the lease, if the claim gave one.
        self._right = {"fence": self.fence, **({"ticket": lease["ticket"]} if lease.get("ticket") else {})}
        self._worker = worker
        self._ladder_ms: Optional[int] = lease.get("retry_delay_ms")
        self._steps = {str(step["name"]): step["output"] for step in self.job.steps}
        self._lease_s = float((self.job.lease or {}).get("lease_ms", 30_000)) / 1000
        self._timeout_s = _parse_span(self.job.timeout) if self.job.timeout else None
        self._began = _now()
        # When the lease is known to have been held. Of an answer that was asked for twice nobody knows: renew at once.
        self._held_at = self._began if fresh else float("-inf")
        self._still_until = 0.0  # a lost history of the store may have given the job to somebody else until then
        self._state = threading.Condition()
        self._stop: Optional[Stop] = None
        self._deadline = 0.0  # until when a handler that was told to stop is waited for
        self._ended = False   # the outcome is decided, and no other will be
        self._gone = False    # nothing is held any more: settled, or lost
        self._log = bytearray()  # what it said, as far as it is kept
        self._log_dropped = 0
        self._log_new = False
        self._log_due = _now() + _LOG_S  # nobody writes it before

    @property
    def id(self) -> str:
        """The job's id: an idempotency key for what must happen once."""
        return self.job.id

    @property
    def payload(self) -> Any:
        """What was enqueued."""
        return self.job.payload

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1 on."""
        return self.job.attempt

    @property
    def canceled(self) -> bool:
        """Whether somebody has canceled the job."""
        return isinstance(self._stop, Canceled)

    @property
    def stop(self) -> Optional[Stop]:
        """Why the attempt is to end, if it is."""
        return self._stop

    def go_on(self) -> None:
        """Raises when the attempt is to end; to be called now and then in a long loop. While it is not known whether
        the lease is still held, this waits until a server has said so; and after a failover or a restore that may have
        lost commits, for as long as one of these may have given the job to somebody else."""
        with self._state:
            while True:
                if self._stop is not None:
                    raise self._stop
                if self._ended:
                    raise LeaseLost("the attempt is over")
                still = self._still_until - _now()
                held = _now() - self._held_at < self._lease_s * 2 / 3
                if held and still <= 0:
                    return
                if not held:
                    self._worker._nudge.set()
                self._state.wait(min(0.1, max(0.001, still)) if held else 0.1)

    def sleep(self, seconds: Seconds) -> None:
        """Sleeps; raises when the attempt is to end."""
        until = _now() + _seconds(seconds)
        while True:
            self.go_on()
            left = until - _now()
            if left <= 0:
                return
            with self._state:
                if self._stop is None:
                    self._state.wait(min(left, self._lease_s / 3))

    def step(self, name: str, run: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Runs a stage and stores its output, or gives the output that an earlier attempt has stored."""
        if name not in self._steps:
            self.go_on()
            output = run(*args, **kwargs)
            text = _json("the output of the step " + repr(name), output)
            self._write(f"/v1/jobs/{self.id}/steps/{_part(name)}", {**self._right, "output": json.loads(text)})
            self._steps[name] = json.loads(text)
        value: _T = json.loads(json.dumps(self._steps[name]))  # A copy: what is stored does not change.
        return value

    def progress(self, progress: Any) -> None:
        """Says how far it is; any JSON of at most 8 KiB. A server that is away for long does not stop the work."""
        self.go_on()
        body = {**self._right, "progress": json.loads(_json("progress", progress))}
        try:
            self._write(f"/v1/jobs/{self.id}/progress", body, within=5.0)
        except Unavailable as error:
            _log.warning("progress of job %s was not stored: %s", self.id, error)

    def log(self, line: object) -> None:
        """Keeps a line for people who look at the job; the last 64 KiB are kept. Written now and then and at the end of
        the attempt; a server that is away does not stop the work."""
        with self._state:
            self._log += str(line).replace("\0", "\u2400").encode(errors="replace") + b"\n"
            if len(self._log) > 2 * _LOG_BYTES_MAX:
                self._cut_log()
            self._log_new = True
            due = _now() >= self._log_due
            if due:
                self._log_due = float("inf")  # Nobody else, until it is written.
        if due:
            self._write_log()

    def _cut_log(self) -> None:
        """Leaves the end, in whole lines where there are any."""
        surplus = len(self._log) - _LOG_BYTES_MAX
        if surplus > 0:
            line = self._log.find(b"\n", surplus) + 1
            begin = line if 0 < line < len(self._log) else surplus
            del self._log[:begin]
            self._log_dropped += begin

    def _write_log(self) -> None:
        with self._state:
            if not self._log_new:
                return
            self._cut_log()
            body = {"fence": self.fence, "dropped": self._log_dropped, "text": self._log.decode(errors="ignore")}
            self._log_new = False
        pause = _LOG_S
        try:
            path, limit = f"/v1/jobs/{self.id}/log", _LOG_CALL_S
            self._worker._servers.call("PUT", path, body, within=limit, timeout=limit, give_up=self._is_over)
        except WindlassError as error:
            _log.debug("the output of job %s was not kept: %s", self.id, error)
            pause = _LOG_PAUSE_S
            self._log_new = True  # The end of the attempt is another chance.
        self._log_due = _now() + pause

    def cool_down(self, budget: str, until: Union[Seconds, _datetime.datetime]) -> None:
        """Lets nothing of a budget be spent by anybody for so long, or until then: an upstream's Retry-After."""
        wish = {"until": _moment(until)} if isinstance(until, _datetime.datetime) else {"for": _span(until)}
        self._worker._servers.call("POST", f"/v1/budgets/{_part(budget)}/cool-down", wish, give_up=self._is_over)

    def spend(self, budget: str, amount: int = 1) -> None:
        """Spends of a budget, and waits until it may."""
        while True:
            self.go_on()
            path = f"/v1/budgets/{_part(budget)}/spend"
            spent = self._worker._servers.call("POST", path, {"amount": amount}, give_up=self._is_over)
            if spent["status"] == "granted":
                return
            if spent["status"] == "never":
                raise Permanent(f"the budget {budget!r} never allows {amount}")
            self.sleep(max(1, spent.get("in_ms") or 0) / 1000)

    def _write(self, path: str, body: Any, within: Optional[float] = None) -> None:
        """A write of this attempt: repeated for as long as the job is ours."""
        try:
            self._worker._servers.call("PUT", path, body, within=within, give_up=self._is_over)
        except Refused as refused:
            if refused.code == "lease_lost":
                self._tell(LeaseLost("the job is no longer held"), _now() + self._worker._grace)
                raise LeaseLost("the job is no longer held") from refused
            raise Permanent(f"{path.rsplit('/', 1)[0]}: {refused}") from refused
        except Unavailable:
            self.go_on()
            raise

    def _is_over(self) -> bool:
        return self._ended or isinstance(self._stop, LeaseLost)

    def _tell(self, stop: Stop, deadline: float) -> None:
        """Tells the handler to stop, and until when it is waited for. What was told first stays, but for a lost lease."""
        with self._state:
            if self._stop is None or isinstance(stop, LeaseLost):
                self._stop, self._deadline = stop, deadline
            self._state.notify_all()

    def _renewed(self, asked_at: float, still_s: float) -> None:
        with self._state:
            # Only an attempt whose lease was over, or nearly so, may have been given to somebody else.
            if asked_at - self._held_at >= self._lease_s * 11 / 12:
                self._still_until = max(self._still_until, _now() + still_s)
            self._held_at = max(self._held_at, asked_at)
            self._state.notify_all()

    def _decide(self) -> bool:
        """Whether the caller is the one who says how the attempt ended."""
        with self._state:
            first, self._ended = not self._ended, True
            self._state.notify_all()
            return first


# The worker ---------------------------------------------------------------------------------------------------


class Worker:
    """Claims jobs and runs each in a thread of its own, at most `slots` at once.

    Leases are renewed from a thread of their own, every third of a lease and at least every `renew_every` seconds,
    which is also how soon a cancel is heard of. A handler that is told to stop hears it at `ctx.go_on()`, `ctx.step()`,
    `ctx.progress()` and `ctx.sleep()`, as an exception. A thread cannot be stopped from outside: one that does not
    listen is waited for `grace` seconds, then its job is settled without it, and its slot stays out of use until it
    returns.
    """

    def __init__(
        self,
        urls: Union[str, Iterable[str], None] = None,
        token: Optional[str] = None,
        *,
        queues: Union[str, Sequence[str]] = ("default",),
        slots: int = 4,
        name: Optional[str] = None,
        grace: Seconds = 10,
        renew_every: Seconds = 2,
        lease: Optional[Seconds] = None,
    ) -> None:
        self._servers = _Servers(_urls(urls), token if token is not None else os.environ.get("WINDLASS_TOKEN"))
        self.name = name or f"py@{socket.gethostname()}/{os.getpid()}-{secrets.token_hex(3)}"
        self._queues = [queues] if isinstance(queues, str) else list(queues)
        self._slots, self._grace, self._lease = slots, _seconds(grace), lease
        self._renew_every = _seconds(renew_every)
        self._handlers: Dict[str, Callable[[Context], Any]] = {}
        self._lock = threading.Condition()
        self._held: Set[Context] = set()      # what is renewed
        self._threads = 0                     # handlers that run, or cannot be stopped
        self._stopping = threading.Event()
        self._over = threading.Event()
        self._nudge = threading.Event()       # renew now
        self._poll: Optional[_Held] = None
        self._answered = False                # a claim was, once
        self._doubt, self._doubt_until = "", 0.0  # The claim that may still be carried out
        self._troubled = False                # the last renewal was not answered
        self._failure: Optional[Refused] = None
        self._claimed = self._settled = self._lost = 0

    def handler(self, kind: str) -> Callable[[_F], _F]:
        """Says what runs jobs of a kind: a function of one argument, the Context, that returns the result."""

        def register(function: _F) -> _F:
            if inspect.iscoroutinefunction(function):
                raise TypeError(f"the handler of {kind!r} is async; write a plain function, which has a thread of its own")
            if kind in self._handlers:
                raise ValueError(f"{kind!r} has a handler already")
            self._handlers[kind] = function
            return function

        return register

    def run(self, *, until_idle: bool = False) -> Summary:
        """Works until SIGTERM or SIGINT (a second one ends the process at once), or `stop()`; with `until_idle` also
        until there is nothing to do. Gives back what cannot be finished within the grace."""
        if not self._handlers:
            raise ValueError("there is no handler; write one under @worker.handler(KIND)")
        restore = self._hear_signals()
        keeper = threading.Thread(target=self._keep, name="windlass-keeper", daemon=True)
        claimer = threading.Thread(target=self._claim_always, args=(until_idle,), name="windlass-claimer", daemon=True)
        keeper.start()
        claimer.start()
        try:
            while claimer.is_alive():  # With a time limit, so that a signal is heard on every system.
                claimer.join(0.2)
            self._wind_up()
        finally:
            self._over.set()
            self._nudge.set()
            keeper.join(5)
            self._leave()
            self._servers.close()
            for number, handler in restore:
                signal.signal(number, handler)
        if self._failure is not None:
            raise self._failure
        return Summary(self._claimed, self._settled, self._lost)

    def _leave(self) -> None:
        """Says that nobody should count on this worker any more. A server that does not hear it finds out by itself."""
        try:
            self._servers.call("DELETE", f"/v1/workers/{_part(self.name)}", within=0.0, timeout=2.0)
        except WindlassError:
            pass

    def stop(self) -> None:
        """Ends `run` gracefully; from any thread, and as often as one likes."""
        self._stopping.set()
        poll = self._poll
        if poll is not None:
            poll.cut()
        with self._lock:
            self._lock.notify_all()

    # Claiming

    def _claim_always(self, until_idle: bool) -> None:
        while True:
            with self._lock:
                while self._threads >= self._slots and not self._stopping.is_set():
                    self._lock.wait(1.0)
                free, busy = self._slots - self._threads, self._threads
            if self._stopping.is_set():
                return
            wait_ms = (50 if busy else 0) if until_idle else _CLAIM_WAIT_MS
            leases, fresh = self._claim(min(free, _CLAIM_MAX), wait_ms)
            for lease in leases:
                self._start(lease, fresh)
            if until_idle and not leases and not busy:
                return

    def _claim(self, limit: int, wait_ms: int) -> Tuple[List[Mapping[str, Any]], bool]:
        """One claim, asked again with the same request id until it is answered. Answers what it gave, and whether
        that was the first time it was asked.

        A server that was away may give nothing to the one that is asked again, and carry out the first a moment later: the
        id of a claim whose answer was lost is asked with until it gives something, for a minute."""
        doubted = _now() < self._doubt_until
        request_id = self._doubt if doubted else str(uuid.uuid4())
        wish: Dict[str, Any] = {
            "worker": self.name, "queues": self._queues, "kinds": sorted(self._handlers), "limit": limit,
            "request_id": request_id,
        }
        if self._lease is not None:
            wish["lease_ms"] = int(_seconds(self._lease) * 1000)
        fresh, pause, give_up_at = not doubted, 0.1, float("inf")
        while True:
            self._poll = poll = _Held()
            # Told to end: what the poll that was cut may have given is asked for once more, without waiting.
            ending = self._stopping.is_set()
            if ending:
                poll, give_up_at = _Held(), min(give_up_at, _now() + self._grace)
            wish["wait_ms"] = 0 if ending else wait_ms if fresh else min(wait_ms, _DOUBT_WAIT_MS)
            try:
                timeout = wish["wait_ms"] / 1000 + 10
                answer = self._servers.call("POST", "/v1/claim", wish, within=0.0, timeout=timeout, hold=poll)
                self._answered = True
                if answer["leases"]:
                    self._doubt_until = 0.0
                return answer["leases"], fresh
            except Refused as refused:
                if refused.code == "request_conflict":
                    wish["request_id"], self._doubt_until = str(uuid.uuid4()), 0.0
                elif not self._answered or ending:
                    # A wrong token, or a server that is none: whoever starts the worker is to hear of it.
                    self._failure = refused
                    self._stopping.set()
                    return [], False
                else:
                    _log.error("the server refuses the claim: %s", refused)
            except Unavailable as error:
                self._doubt, self._doubt_until = wish["request_id"], _now() + _DOUBT_SECONDS
                if not self._stopping.is_set():
                    _log.warning("claim: %s", error)
            if _now() >= give_up_at:
                return [], False
            if not self._stopping.wait(pause * random.uniform(0.5, 1.0)) or ending:
                time.sleep(0.05 if ending else 0.0)
            fresh, pause = False, min(pause * 2, 2.0)

    def _start(self, lease: Mapping[str, Any], fresh: bool) -> None:
        ctx = Context(self, lease, fresh)
        with self._lock:
            if any(held.id == ctx.id and held.fence == ctx.fence for held in self._held):
                return  # Given twice: it runs already.
            self._claimed += 1
            self._threads += 1
            self._held.add(ctx)
        if self._stopping.is_set():
            # Claimed while the worker was told to end: nobody has begun it.
            ctx._tell(ShuttingDown("the worker ends"), _now() + self._grace)
        if not fresh:
            self._nudge.set()
        threading.Thread(target=self._attempt, args=(ctx,), name=f"windlass-{ctx.job.kind}", daemon=True).start()

    # Running

    def _attempt(self, ctx: Context) -> None:
        try:
            outcome = self._run_handler(ctx)
            ctx._write_log()
            if ctx._decide():
                self._settle(ctx, outcome)
        finally:
            with self._lock:
                self._threads -= 1
                self._lock.notify_all()

    def _run_handler(self, ctx: Context) -> Optional[Dict[str, Any]]:
        """How the attempt ended, as it is settled; None when nothing may be written."""
        try:
            ctx.go_on()
            result = self._handlers[ctx.job.kind](ctx)
            return {"outcome": "completed", "result": json.loads(_json("the result", result))}
        except Stop as stop:
            return self._stopped(ctx, ctx._stop or stop)
        except Park as park:
            return {"outcome": "parked", "delay": _span(park.after)}
        except Permanent as error:
            return {"outcome": "failed", "error": _text(error)}
        except RetryAfter as error:
            return {"outcome": "retry", "error": _text(error), "delay": _span(error.after)}
        except Exception as error:  # Whatever else it is: by the ladder, up to a fifth later.
            _log.info("job %s (%s) failed", ctx.id, ctx.job.kind, exc_info=True)
            return self._by_ladder(ctx, _text(error))
        except BaseException as error:  # SystemExit and the like end the attempt, not the worker.
            return self._by_ladder(ctx, _text(error))

    def _stopped(self, ctx: Context, stop: Stop) -> Optional[Dict[str, Any]]:
        if isinstance(stop, Canceled):
            return {"outcome": "canceled"}
        if isinstance(stop, TimedOut):
            return self._by_ladder(ctx, f"timed out after {ctx.job.timeout}")
        if isinstance(stop, LeaseLost):
            return None
        return {"outcome": "released"}

    @staticmethod
    def _by_ladder(ctx: Context, error: str) -> Dict[str, Any]:
        outcome: Dict[str, Any] = {"outcome": "retry", "error": error}
        if ctx._ladder_ms is not None:
            outcome["delay"] = _span(ctx._ladder_ms / 1000 * random.uniform(1.0, 1.2))
        return outcome

    def _settle(self, ctx: Context, outcome: Optional[Dict[str, Any]]) -> None:
        """Says how it ended, as often as it takes: saying it again is harmless. The lease is renewed meanwhile."""
        status = "lost"
        while outcome is not None:
            result = {"job_id": ctx.id, **ctx._right, **outcome}
            try:
                answer = self._servers.call(
                    "POST", "/v1/leases/settle", {"results": [result]}, within=None, give_up=lambda: ctx._gone
                )
                status = answer["results"][0]["status"]
                break
            except Refused as refused:
                _log.error("the server refuses the outcome of job %s: %s", ctx.id, refused)
                if outcome["outcome"] == "failed" or refused.status in (401, 403):
                    break
                outcome = {"outcome": "failed", "error": f"the outcome was refused: {refused}"}
            except Unavailable:
                break
        self._let_go(ctx)
        with self._lock:
            if status == "ok":
                self._settled += 1
            else:
                self._lost += 1
                _log.warning("the lease of job %s was lost; what this attempt gave is dropped", ctx.id)

    def _let_go(self, ctx: Context) -> None:
        ctx._gone = True
        with self._lock:
            self._held.discard(ctx)
            self._lock.notify_all()

    # Keeping leases

    def _keep(self) -> None:
        """Renews what is due, tells of cancels and timeouts, and settles for handlers that do not stop."""
        while not self._over.is_set():
            with self._lock:
                held = list(self._held)
            now = _now()
            for ctx in held:
                self._look_at(ctx, now)
            due = [ctx for ctx in held if now - ctx._held_at >= min(ctx._lease_s / 3, self._renew_every)]
            if due:
                self._renew(due, now)
            shortest = min((ctx._lease_s for ctx in held), default=30.0)
            self._nudge.wait(min(shortest / 12, self._renew_every / 4, 0.25))
            self._nudge.clear()

    def _look_at(self, ctx: Context, now: float) -> None:
        if ctx._ended:
            return
        if ctx._timeout_s is not None and now - ctx._began >= ctx._timeout_s:
            ctx._tell(TimedOut("timed out"), now + self._grace)
        stop = ctx._stop
        if stop is None or now < ctx._deadline:
            return
        # Told, waited for: settled without it. Should it never come back, it keeps its slot, and can write nothing.
        if ctx._decide():
            _log.warning("the handler of job %s did not stop when told; it is settled without it", ctx.id)
            outcome = self._stopped(ctx, stop)
            threading.Thread(target=self._settle, args=(ctx, outcome), daemon=True).start()

    def _renew(self, due: List[Context], now: float) -> None:
        shortest = min(ctx._lease_s for ctx in due)
        for at in range(0, len(due), 1000):
            part = due[at : at + 1000]
            leases = [{"job_id": ctx.id, **ctx._right} for ctx in part]
            try:
                # A call that hangs must not keep us from asking again in time.
                timeout = max(0.2, min(10.0, shortest / 4))
                answer = self._servers.call("POST", "/v1/leases/renew", {"leases": leases}, within=0.0, timeout=timeout)
            except (Unavailable, Refused) as error:
                _log.log(logging.DEBUG if self._troubled else logging.WARNING, "could not renew leases: %s", error)
                self._troubled = True
                continue
            self._troubled = False
            renewed, canceled = set(answer["renewed"]), set(answer["cancel_requested"])
            still = {each["job_id"]: each["for_ms"] / 1000 for each in answer.get("still", [])}
            for ctx in part:
                if ctx.id in renewed:
                    ctx._renewed(now, still.get(ctx.id, 0.0))
                elif not ctx._ended:
                    ctx._tell(LeaseLost("the job is no longer held"), now + self._grace)
                if ctx.id in canceled:
                    ctx._tell(Canceled("the job was canceled"), now + self._grace)

    # Ending

    def _wind_up(self) -> None:
        """Nothing new is claimed: tells the handlers, waits for them, gives back the rest, and lets go last."""
        deadline: Optional[float] = None
        while True:
            with self._lock:
                held = list(self._held)
            # Three more seconds for those that are settled without their handler.
            if not held or (deadline is not None and _now() > deadline + 3.0):
                return
            if self._stopping.is_set() and deadline is None:
                deadline = _now() + self._grace
                for ctx in held:
                    ctx._tell(ShuttingDown("the worker ends"), deadline)
            with self._lock:
                self._lock.wait(0.05)

    def _hear_signals(self) -> List[Tuple[int, Any]]:
        if threading.current_thread() is not threading.main_thread():
            return []

        def heard(number: int, _: Any) -> None:
            if self._stopping.is_set():
                os._exit(128 + number)
            _log.warning("ending; once more ends it at once")
            # From a thread: what this one was doing may hold the very locks that are needed.
            threading.Thread(target=self.stop, daemon=True).start()
            self._stopping.set()

        return [(number, signal.signal(number, heard)) for number in (signal.SIGTERM, signal.SIGINT)]


# Small things -------------------------------------------------------------------------------------------------


def new_id() -> str:
    """A UUIDv7: ids made later sort later."""
    number = (int(time.time() * 1000) & (1 << 48) - 1) << 80 | 0x7 << 76 | secrets.randbits(12) << 64
    return str(uuid.UUID(int=number | 0b10 << 62 | secrets.randbits(62)))


def _now() -> float:
    """Seconds since this machine was started; through a suspend, where the system counts that."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


def _urls(urls: Union[str, Iterable[str], None]) -> List[str]:
    if urls is None:
        urls = os.environ.get("WINDLASS_URL") or DEFAULT_URL
    listed = urls.split(",") if isinstance(urls, str) else list(urls)
    cleaned = [url.strip() for url in listed if url.strip()]
    if not cleaned:
        raise ValueError("no server is named; set WINDLASS_URL, such as http://127.0.0.1:7717")
    return cleaned


def _base(url: str) -> urllib.parse.SplitResult:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is not the address of a server, such as http://127.0.0.1:7717")
    if parts.username or parts.password:
        raise ValueError("the address has a user in it; the token goes into WINDLASS_TOKEN")
    return parts


def _body(response: http.client.HTTPResponse) -> bytes:
    """All of an answer, in pieces: Python 3.9 sets aside as much as it is asked to read."""
    pieces: List[bytes] = []
    size = 0
    while True:
        piece = response.read(65_536)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        if size > _ANSWER_BYTES_MAX:
            raise ValueError("the answer is too large")


def _refusal(status: int, answer: Any) -> Refused:
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return Refused(status, "unknown", "it answered, and not as a Windlass server does")
    return Refused(status, str(error.get("code")), str(error.get("message")), error.get("details"))


def _lenient(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None  # The page of a proxy.


def _enqueued(answer: Mapping[str, Any], job: Mapping[str, Any], chosen: bool) -> Enqueued:
    # An id that was made here can only have been there before because the first answer was lost.
    ours = not chosen and answer["id"] == job["id"]
    return Enqueued(answer["id"], bool(answer["deduplicated"]) and not ours)


def _json(what: str, value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Permanent(f"{what} cannot be written as JSON: {error}") from error


def _text(error: BaseException) -> str:
    said = str(error)
    plain = said and isinstance(error, (Permanent, RetryAfter))
    text = said if plain else f"{type(error).__name__}: {said}".rstrip(": ")
    return text.replace("\0", "")[:_ERROR_CHARS_MAX]


def _seconds(time_: Seconds) -> float:
    return time_.total_seconds() if isinstance(time_, _datetime.timedelta) else float(time_)


def _span(time_: Seconds) -> str:
    ms = max(0, round(_seconds(time_) * 1000))
    return f"{ms}ms" if ms < 10**9 else f"{-(-ms // 1000)}s"


def _parse_span(text: str) -> float:
    digits = text.rstrip("dhms")
    return int(digits) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[text[len(digits) :]]


def _moment(time_: _datetime.datetime) -> str:
    if time_.tzinfo is None:
        raise ValueError("a moment needs a time zone: datetime.now(timezone.utc)")
    return time_.astimezone(_datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _part(text: str) -> str:
    return urllib.parse.quote(text, safe="")

