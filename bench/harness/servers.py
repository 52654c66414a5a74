"""The servers, under a temporary folder, with the durability that every contestant gets."""

import contextlib
import os
import shutil
import sqlite3
import socket
import subprocess
import time
from pathlib import Path

from . import usage
from .places import postgres_bin

# How long the connections of a contestant that has ended are waited for.
ALONE_S_MAX = 3

POSTGRES_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    # A checkpoint in the middle of somebody's run would be that one's bad luck.
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "max_connections": "300",
}


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def _as_postgres(*command):
    """initdb and pg_ctl refuse to run as root."""
    return ["runuser", "-u", "postgres", "--", *command] if os.getuid() == 0 else list(command)


class Postgres:
    name = "postgres"

    def __init__(self, folder):
        self.folder = Path(folder) / "postgres"
        self.folder.mkdir()
        self.bin = postgres_bin()
        self.port = free_port()
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres")
        data = str(self.folder / "data")
        self._run(f"{self.bin}/initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -k {self.folder} "
        options += " ".join(f"-c {name}={value}" for name, value in POSTGRES_SETTINGS.items())
        self._run(f"{self.bin}/pg_ctl", "-D", data, "-w", "-t", "60", "-l", f"{self.folder}/log", "-o", options, "start")
        self.pid = int((self.folder / "data/postmaster.pid").read_text().split()[0])
        self.version = self.ask("postgres", "SHOW server_version")
        self.database = None
        self._made = 0

    def _run(self, *command):
        subprocess.run(_as_postgres(*command), check=True, stdout=subprocess.DEVNULL, cwd="/")

    def ask(self, database, sql):
        command = [f"{self.bin}/psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(self.port),
                   "-U", "postgres", "-d", database, "-c", sql]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
        return answer.stdout.strip()

    def fresh(self):
        """The URL of a database that nobody has seen."""
        if self.database:
            self.ask("postgres", f"DROP DATABASE IF EXISTS {self.database} WITH (FORCE)")
        self._made += 1
        self.database = f"bench_{self._made}"
        self.ask("postgres", f"CREATE DATABASE {self.database}")
        return f"postgres://postgres@127.0.0.1:{self.port}/{self.database}"

    def settle(self):
        """The same footing for everybody: statistics as autovacuum would have made them, no dirty pages."""
        self.ask(self.database, "VACUUM ANALYZE")
        self.ask(self.database, "CHECKPOINT")

    def count(self, sql):
        return int(self.ask(self.database, sql))

    def execute(self, sql):
        self.ask(self.database, sql)

    def wal_bytes(self):
        """Bytes of WAL so far."""
        return int(self.ask("postgres", "SELECT pg_current_wal_insert_lsn() - '0/0'"))

    def dead_rows(self):
        """Rows that were left dead in this database so far."""
        self._wait_until_alone()
        return self.count("SELECT coalesce(sum(n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables")

    def _wait_until_alone(self):
        """What a connection has counted is public when the connection is gone."""
        others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        deadline = time.monotonic() + ALONE_S_MAX
        while self.count(others) and time.monotonic() < deadline:
            time.sleep(0.05)

    def cpu_seconds(self):
        return usage.tree_cpu_seconds(self.pid)

    def stop(self):
        self._run(f"{self.bin}/pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "stop")


class Process:
    """A server that is one process of ours, in a folder of its own. It counts neither a log nor dead rows."""

    def __init__(self, folder):
        self.folder = Path(folder) / self.name
        self.folder.mkdir()

    def start(self, *words):
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)

    def wal_bytes(self):
        return None

    def dead_rows(self):
        return None

    def cpu_seconds(self):
        return usage.tree_cpu_seconds(self.process.pid)

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Redis(Process):
    name = "redis"

    def __init__(self, folder):
        super().__init__(folder)
        self.port = free_port()
        self.start("redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder),
                   "--appendonly", "yes", "--appendfsync", "always", "--save", "")
        self.version = subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout.split()[2]
        usage.wait_for_port(self.port)

    def _ask(self, command):
        with socket.create_connection(("127.0.0.1", self.port)) as wire:
            wire.sendall(command.encode() + b"\r\n")
            return wire.recv(100).decode().strip()

    def fresh(self):
        self._ask("FLUSHALL")
        return f"redis://127.0.0.1:{self.port}"

    def count(self, command):
        return int(self._ask(command).lstrip(":"))

    def settle(self):
        pass


class Sqlite:
    """No server: a folder for each file."""

    name = "sqlite"
    version = sqlite3.sqlite_version

    def __init__(self, folder):
        self.folder = Path(folder) / "sqlite"
        self._made = 0

    def fresh(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.file = self.folder / "bench.db"
        return f"sqlite:{self.file}"

    def settle(self):
        os.sync()

    def count(self, sql):
        # A connection that is only forgotten keeps the file open for a while.
        with contextlib.closing(sqlite3.connect(self.file)) as connection:
            return connection.execute(sql).fetchone()[0]

    def execute(self, sql):
        """Changes the file while nobody has it open. Not durable until `settle`: millions of rows want no log."""
        with contextlib.closing(sqlite3.connect(self.file)) as connection:
            connection.executescript(
                "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -262144;"
                f"BEGIN; {sql}; COMMIT; PRAGMA journal_mode = WAL")

    def wal_bytes(self):
        return None

    def dead_rows(self):
        return None

    def cpu_seconds(self):
        return 0.0

    def stop(self):
        pass
