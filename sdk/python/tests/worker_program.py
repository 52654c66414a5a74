"""A worker in a process of its own, for tests that kill it: worker_program.py FOLDER"""

import logging
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from windlass import Context, Worker  # noqa: E402

logging.basicConfig(level=logging.INFO)
folder = Path(sys.argv[1])
worker = Worker(slots=int(os.environ.get("SLOTS", "8")), grace=float(os.environ.get("GRACE", "10")))


def note(name: str, line: str) -> None:
    with open(folder / name, "a") as file:  # One write of one line: whole, also from several processes.
        file.write(line + "\n")


@worker.handler("count")
def count(ctx: Context) -> int:
    note("runs", ctx.id)
    n = ctx.step("first", lambda: ctx.payload["n"] + 1)
    time.sleep(0.01)
    return ctx.step("second", lambda: n * 2)


@worker.handler("hold")
def hold(ctx: Context) -> str:
    """Goes on when it is let go, listening to nobody meanwhile."""
    note("holding", str(os.getpid()))
    while not (folder / f"go-{os.getpid()}").exists():
        time.sleep(0.02)
    note("stepped", str(os.getpid()))
    ctx.step("late", lambda: os.getpid())
    return "done by " + str(os.getpid())


@worker.handler("listen")
def listen(ctx: Context) -> None:
    note("listening", ctx.id)
    ctx.step("begun", lambda: True)
    ctx.sleep(60)


summary = worker.run()
note("summaries", f"{summary.claimed}/{summary.settled}/{summary.lost}")
