"""The table on the screen, and RESULTS.md."""

import os
import platform
import subprocess
from datetime import date
from pathlib import Path

from . import install, usage
from .contestants import CONTESTANTS
from .figures import Figures
from .places import BENCH
from .servers import POSTGRES_SETTINGS
from .targets import targets

# What people have to say about the figures; the report takes it in as it is.
NOTES = BENCH / "NOTES.md"
RATES = ["enqueue one", "enqueue batch", "drain", "drain by two"]


def table(samples):
    figures = Figures(samples)
    parts = [_rates(figures, RATES)]
    others = [name for name in figures.measures() if name not in RATES and "pickup" not in name and "steady" not in name]
    if others:
        parts.append(_rates(figures, others))
    parts += [_pickups(figures), _costs(figures)]
    return "\n\n".join(part for part in parts if part)


def _names(figures):
    return [one.name for one in CONTESTANTS if any(sample["contestant"] == one.name for sample in figures.kept)]


def _grid(head, rows):
    rows = [row for row in rows if any(row[1:])]
    if not rows:
        return ""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(cell or "–" for cell in row) + " |" for row in rows])


def _spread(found, digits=0):
    if found is None:
        return ""
    middle, least, most, count = found
    return f"**{middle:,.{digits}f}** ({least:,.{digits}f}–{most:,.{digits}f}, {count})"


def _cell(figures, name, measure, field="per_second", digits=0):
    """A figure with its spread; a tilde says that every run of it was disturbed."""
    text = _spread(figures.of(name, measure, field), digits)
    return f"~ {text}" if text and figures.shaky(name, measure) else text


def _rates(figures, measures):
    head = ["jobs per second: median (least–most, runs)", *measures]
    return _grid(head, [[name, *(_cell(figures, name, one) for one in measures)] for name in _names(figures)])


def _pickups(figures):
    measures = [name for name in figures.measures() if "pickup" in name or "steady" in name]
    head = ["pickup, ms", *(f"{name} {word}" for name in measures for word in ("p50", "p99"))]
    rows = [[name, *(_cell(figures, name, one, field, 2) for one in measures for field in ("p50_ms", "p99_ms"))]
            for name in _names(figures)]
    return _grid(head, rows) if measures else ""


def _costs(figures):
    head = ["draining, per job", "client CPU µs", "server CPU µs", "WAL bytes", "rows left dead", "peak memory MiB",
            "surplus handler runs", "finished and kept"]
    rows = []
    for name in _names(figures):
        drains = [one for one in figures.kept if one["contestant"] == name and one["measure"] == "drain"]
        if not drains:
            continue
        row = [name]
        for field, digits in (("cpu_client_us", 1), ("cpu_server_us", 1), ("wal_bytes_per_job", 0),
                              ("dead_rows_per_job", 2), ("rss_mib", 0)):
            value = figures.median(name, "drain", field)
            row.append("" if value is None else f"{value:,.{digits}f}")
        row.append(str(max(0, *(one["runs"] - one["backlog"] for one in drains))))
        # Of those that were run; the last ones of a run that was cut are still on their way.
        row.append(f"{min(one.get('kept', 0) / max(one['runs'], 1) for one in drains):.1%}")
        rows.append(row)
    return _grid(head, rows)


def write(target, size, samples, commands, missing, quick):
    figures = Figures(samples)
    parts = ["# Results", _where(samples, size, quick)]
    if NOTES.exists():
        parts.append(NOTES.read_text().strip())
    parts += ["## Targets", _targets(figures), "## Figures", table(samples), "## Contestants", _settings(samples),
              "## Left out", _left_out(figures, missing), "## Settings and commands", _commands(commands)]
    Path(target).write_text("\n\n".join(part for part in parts if part) + "\n")


def _where(samples, size, quick):
    figures = Figures(samples)
    loads = sorted(one["load"] for one in samples if "load" in one) or [0]
    words = [f"Measured on {date.today().isoformat()}: {os.cpu_count()} cores ({_cpu()}), "
             f"Linux {platform.release()}, {_memory()} GiB of memory."]
    if quick:
        words.append("**A run with --quick: the figures show that everything works, and nothing else.**")
    words.append(f"Load average while measuring {loads[0]}–{loads[-1]}. A run is disturbed when others used more than a "
                 f"quarter of a core meanwhile. {figures.repeated} disturbed runs do not count, since there are others; "
                 f"{figures.disturbed} of the {len(figures.kept)} that count were disturbed, and have a tilde: they "
                 "show an order of magnitude.")
    words.append(f"Payload of 100 bytes, handler that does nothing, {size.jobs:,} jobs a drain (a slow contestant is "
                 f"cut after {size.seconds} s), batches of 1,000, 16 producers, every answer durable.")
    return "\n".join(words)


def _cpu():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _memory():
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _targets(figures):
    words = {True: "met", False: "**missed**", None: "–"}
    return _grid(["what", "target", "measured", "outcome"], [[what, target, measured, words[met]]
                                                             for what, target, measured, met in targets(figures)])


def _settings(samples):
    took_part = {one["contestant"] for one in samples}
    chosen = [one for one in CONTESTANTS if one.name in took_part]
    versions = install.versions(chosen)
    own = _commit()
    servers = {one["contestant"]: one["version"] for one in samples if "version" in one}
    return _grid(["contestant", "version", "store", "settings"],
                 [[one.name, versions[one.name] or own, f"{one.server} {servers[one.name]}", one.settings]
                  for one in chosen])


def _commit():
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=BENCH, capture_output=True, text=True)
    return "this repository, " + (done.stdout.strip() or "unknown commit")


def _left_out(figures, missing):
    lines = [f"- {name}: could not be installed: {why}" for name, why in missing.items()]
    seen = set()
    for one in figures.failed:
        if (one["contestant"], one["measure"]) not in seen:
            seen.add((one["contestant"], one["measure"]))
            lines.append(f"- {one['contestant']}, {one['measure']}: {one['failed']}")
    return "\n".join(lines) or "Nobody."


def _commands(commands):
    settings = ", ".join(f"{name}={value}" for name, value in POSTGRES_SETTINGS.items())
    return (f"Postgres: {settings}. Redis: appendonly yes, appendfsync always. SQLite: WAL, synchronous=FULL.\n\n"
            "```\n" + "\n".join(commands) + "\n```\n\n"
            "Each run has a fresh database; after it is filled, VACUUM ANALYZE and CHECKPOINT before it is drained. A "
            "drain lasts from the start of the worker until the last job is settled; one that is cut short is rated by "
            "the handlers that ran.")
