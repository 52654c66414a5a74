"""What is measured. Each measure takes a contestant and its server, and gives samples."""

from dataclasses import dataclass

from .contest import Failed, run

# (f): so many jobs wait, and so many are finished already.
BACKLOGS = {"drain at 10,000": 10_000, "drain at 1,000,000": 1_000_000}
FINISHED = 5_000_000
# (g): what a limit, keys and a budget cost. Wide enough to hold nobody back: the price of looking.
RULES = {
    "drain with a limit": {"limit": 10_000},
    "drain with keys": {"keys": 1_000},
    "drain with a budget": {"budget": 10_000},
}


@dataclass(frozen=True)
class Size:
    """How large and how long the runs are."""

    jobs: int
    seconds: int
    latency_seconds: int
    steady_seconds: int
    finished: int
    backlog_max: int


FULL = Size(100_000, 20, 5, 60, FINISHED, 1_000_000)
QUICK = Size(2_000, 3, 2, 3, 20_000, 20_000)


def enqueue_one(contestant, server, size):
    url = server.fresh()
    options = {"jobs": size.jobs, "seconds": max(1, size.seconds // 4), "producers": 16}
    yield "enqueue one", run(contestant, server, "enqueue_one", url, options)


def drain(contestant, server, size, name="drain", jobs=None, options=None, processes=1, finished=0):
    """Fills a fresh store, which is a figure of its own, and drains it."""
    jobs, options = jobs or size.jobs, options or {}
    url = server.fresh()
    if finished:
        _fill_with_finished(contestant, server, url, finished)
    seconds = size.seconds * max(1, jobs // size.jobs)
    filled = run(contestant, server, "enqueue_batch", url, {"jobs": jobs, "seconds": seconds, "batch": contestant.batch, **options})
    if name == "drain":
        yield "enqueue batch", filled
    server.settle()
    asked = {"jobs": filled["jobs"], "seconds": seconds, **options}
    settled = _settled(contestant, server, filled["jobs"] + finished) if processes == 1 else None
    sample = run(contestant, server, "drain", url, asked, processes, settled)
    sample["backlog"] = filled["jobs"]
    if contestant.finished:
        sample["kept"] = server.count(contestant.finished) - finished
    yield name, sample


def _settled(contestant, server, jobs):
    if contestant.finished and contestant.watched:
        return lambda: server.count(contestant.finished) >= jobs
    if contestant.left:
        return lambda: server.count(contestant.left) == 0
    return None


def _fill_with_finished(contestant, server, url, finished):
    if not contestant.multiply:
        raise Failed("nobody has said how to fill its store with finished jobs")
    seed = 10_000 if finished >= 100_000 else 1_000
    run(contestant, server, "enqueue_batch", url, {"jobs": seed})
    run(contestant, server, "drain", url, {"jobs": seed, "seconds": 600}, settled=_settled(contestant, server, seed))
    server.execute(contestant.multiply.format(copies=finished // seed - 1))
    server.settle()


def drain_two(contestant, server, size):
    yield from drain(contestant, server, size, "drain by two", processes=2)


def latency(contestant, server, size):
    options = {"seconds": size.latency_seconds, "every_ms": 20}
    yield "pickup when idle", run(contestant, server, "latency", server.fresh(), options)


def steady(contestant, server, size):
    options = {"seconds": size.steady_seconds, "every_ms": 10}
    yield "steady 2,000/s", run(contestant, server, "steady", server.fresh(), options)


def backlogs(contestant, server, size):
    for name, jobs in BACKLOGS.items():
        yield from drain(contestant, server, size, name, jobs=min(jobs, size.backlog_max))


def finished(contestant, server, size):
    name = f"drain with {size.finished:,} finished"
    yield from drain(contestant, server, size, name, finished=size.finished)


def rules(contestant, server, size):
    for name, options in RULES.items():
        yield from drain(contestant, server, size, name, options=options)


@dataclass(frozen=True)
class Measure:
    """A measure, and who takes part in it."""

    run: object
    takes: object


MEASURES = {
    "drain": Measure(drain, lambda one: True),
    "enqueue": Measure(enqueue_one, lambda one: one.name != "limit-copy"),
    "latency": Measure(latency, lambda one: one.role != "limit"),
    "two": Measure(drain_two, lambda one: one.server != "sqlite"),
    "rules": Measure(rules, lambda one: one.role == "windlass"),
    "backlog": Measure(backlogs, lambda one: one.large),
    "steady": Measure(steady, lambda one: one.role != "limit"),
    "finished": Measure(finished, lambda one: one.large and one.multiply),
}
