"""What every contestant written in Python has in common; ../rust has the same in Rust.

A contestant is a class with the coroutines connect(ask), enqueue(work),
enqueue_many(works) and work(); its handler calls ran(work) first thing.
"""

import asyncio
import json
import os
import sys
import time
from types import SimpleNamespace

IDLE_MS = 2_000
LINGER_S = 0.5
WARM_MS = 500

_seen = SimpleNamespace(runs=0, last=0.0, keep=False, pickups=[])


def now():
    return time.time_ns() / 1e6


def new_work():
    return {"sent_ms": round(now(), 3), "filling": "x" * 58}


def ran(work):
    _seen.runs += 1
    _seen.last = now()
    if _seen.keep:
        _seen.pickups.append((work["sent_ms"], _seen.last - work["sent_ms"]))


def contest(peer):
    asyncio.run(_contest(peer))


async def _contest(peer):
    ask = _read(sys.argv[1:])
    await peer.connect(ask)
    print("ready", flush=True)
    if ask.measure == "setup":
        os._exit(0)
    await asyncio.to_thread(sys.stdin.readline)
    found = await _MEASURES[ask.measure](peer, ask)
    print(json.dumps(found), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    # Workers are not stopped: whoever measures has what it wants.
    os._exit(0)


def _read(args):
    ask = SimpleNamespace(
        measure=args[0], jobs=1000, producers=16, batch=1000, seconds=3600, every_ms=20
    )
    for name, value in zip(args[1::2], args[2::2]):
        setattr(ask, name.removeprefix("--"), int(value) if value.isdigit() else value)
    return ask


async def _enqueue_one(peer, ask):
    start = now()
    deadline = start + ask.seconds * 1e3
    left = iter(range(ask.jobs))
    done = 0

    async def producer():
        nonlocal done
        for _ in left:
            if now() > deadline:
                return
            await peer.enqueue(new_work())
            done += 1

    await asyncio.gather(*(producer() for _ in range(ask.producers)))
    return {"jobs": done, "start_ms": start, "end_ms": now()}


async def _enqueue_batch(peer, ask):
    start = now()
    done = 0
    while done < ask.jobs and now() < start + ask.seconds * 1e3:
        count = min(ask.batch, ask.jobs - done)
        await peer.enqueue_many([new_work() for _ in range(count)])
        done += count
    return {"jobs": done, "start_ms": start, "end_ms": now()}


async def _drain(peer, ask):
    start = now()
    await peer.work()
    while _seen.runs < ask.jobs and now() < start + ask.seconds * 1e3:
        await asyncio.sleep(0.002)
        if _seen.runs and now() - _seen.last > IDLE_MS:
            break
    found = {"jobs": _seen.runs, "start_ms": start, "end_ms": _seen.last}
    # The driver looks when the last of them is settled.
    print("drained", flush=True)
    await asyncio.sleep(LINGER_S)
    return {**found, "runs": _seen.runs}


async def _pickup(peer, ask, at_once):
    _seen.keep = True
    await peer.work()
    start = now()
    sending = set()
    sent = 0
    beat = 0
    while now() < start + ask.seconds * 1e3 + WARM_MS:
        works = [new_work() for _ in range(at_once)]
        one = peer.enqueue(works[0]) if at_once == 1 else peer.enqueue_many(works)
        task = asyncio.ensure_future(one)
        sending.add(task)
        task.add_done_callback(sending.discard)
        sent += at_once
        beat += 1
        await asyncio.sleep(max(0, start + beat * ask.every_ms - now()) / 1e3)
    await asyncio.gather(*sending)
    end = now()
    while _seen.runs < sent and now() - end < IDLE_MS:
        await asyncio.sleep(0.002)
    pickups = [round(took, 3) for at, took in _seen.pickups if at >= start + WARM_MS]
    return {"jobs": sent, "runs": _seen.runs, "start_ms": start, "end_ms": end, "pickups_ms": pickups}


_MEASURES = {
    "enqueue_one": _enqueue_one,
    "enqueue_batch": _enqueue_batch,
    "drain": _drain,
    "latency": lambda peer, ask: _pickup(peer, ask, 1),
    "steady": lambda peer, ask: _pickup(peer, ask, 20),
}
