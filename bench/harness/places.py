"""Where things are."""

import os
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
# Whatever the harness installs or builds; git ignores it.
WORK = BENCH / ".work"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or WORK / "target")
NODE = WORK / "node"


def postgres_bin():
    """The folder with initdb and pg_ctl, of the newest Postgres that is installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    return folders[-1] if folders else None
