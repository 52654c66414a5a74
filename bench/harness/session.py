"""A whole session: install, start servers, go round the contestants, write down what was found."""

import json
import os
import signal
import sys
import tempfile
import time

from . import install, report, usage
from .contest import Failed
from .figures import OTHERS_MAX
from .measures import MEASURES
from .places import BENCH, WORK
from .mongo import Mongo
from .servers import Postgres, Redis, Sqlite, free_port

# So often a disturbed run is repeated at most.
REPEATS_MAX = 2


def hold(args, chosen, wanted, size):
    # Whoever ends us wants the servers ended, too.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(130))
    samples_file = WORK / "samples.jsonl"
    if args.report_only:
        return _finish(args, chosen, size, samples_file, {})
    missing = {} if args.no_install else install.install(chosen)
    for name, why in missing.items():
        print(f"bench: {name} is left out: {why}", file=sys.stderr)
    if args.install_only:
        return 1 if missing else 0
    WORK.mkdir(exist_ok=True)
    present = [one for one in chosen if one.name not in missing]
    rounds = args.rounds or (1 if args.quick else 5)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, samples_file.open("a" if args.append else "w") as out:
        # The servers' own user must be able to enter.
        os.chmod(folder, 0o755)
        repeats = args.repeats if args.repeats is not None else 0 if args.quick else REPEATS_MAX
        session = Session(folder, size, out, deadline=args.minutes * 60, repeats=repeats)
        session.note({"command": " ".join(["bench/run", *sys.argv[1:]])})
        try:
            for number in range(rounds):
                session.round(number, present, wanted)
        finally:
            session.stop()
    return _finish(args, chosen, size, samples_file, missing)


def _finish(args, chosen, size, samples_file, missing):
    lines = [json.loads(line) for line in samples_file.open()]
    samples = [line for line in lines if "contestant" in line]
    commands = [line["command"] for line in lines if "command" in line]
    print(report.table(samples))
    target = args.results or (None if args.quick else str(BENCH / "RESULTS.md"))
    if target:
        report.write(target, size, samples, commands, missing, quick=args.quick)
        print(f"bench: {target} is written", file=sys.stderr)
    return 0


class Session:
    def __init__(self, folder, size, out, deadline, repeats):
        self.folder, self.size, self.out, self.repeats = folder, size, out, repeats
        self.deadline = time.monotonic() + deadline if deadline else float("inf")
        self.servers = {}
        self.broken = {}

    def server(self, name):
        if name not in self.servers:
            made = {"postgres": Postgres, "redis": Redis, "sqlite": Sqlite,
                    "mongo": lambda folder: Mongo(folder, free_port())}
            self.servers[name] = made[name](self.folder)
        return self.servers[name]

    def round(self, number, contestants, wanted):
        """Everybody once in every measure. Each round begins with another one, so that noise hits all alike."""
        turn = number % max(len(contestants), 1)
        for measure in wanted:
            for contestant in contestants[turn:] + contestants[:turn]:
                if MEASURES[measure].takes(contestant) and time.monotonic() < self.deadline:
                    self.measure(number, measure, contestant)

    def measure(self, number, measure, contestant):
        if self.broken.get((contestant.name, measure), 0) > 1:
            return
        server = self.server(contestant.server)
        for repeat in range(self.repeats + 1):
            try:
                samples = list(MEASURES[measure].run(contestant, server, self.size))
            except Failed as why:
                self.broken[contestant.name, measure] = self.broken.get((contestant.name, measure), 0) + 1
                samples = [(measure, {"failed": str(why)})]
            disturbed = any(sample.get("others", 0) > OTHERS_MAX for _, sample in samples)
            last = repeat == self.repeats or not disturbed
            for name, sample in samples:
                self.note({"contestant": contestant.name, "measure": name, "round": number, **sample,
                            "version": server.version, "load": round(usage.load_average(), 2),
                            "disturbed": disturbed, "dropped": not last})
            if last:
                return

    def note(self, line):
        text = json.dumps(line)
        print(text, flush=True)
        self.out.write(text + "\n")
        self.out.flush()

    def stop(self):
        for server in self.servers.values():
            server.stop()
