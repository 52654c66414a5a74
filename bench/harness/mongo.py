"""A replica set of one node, and as much of MongoDB's protocol as starting and counting need."""

import json
import socket
import struct
import subprocess
import time

from .places import BENCH
from .servers import Process

OP_MSG = 2013
SET = "bench"
STARTED_S_MAX = 60


def mongod():
    """Where the server is; the tests' script fetches it where it is missing."""
    found = subprocess.run([BENCH.parent / "stores/mongo/tests/mongod"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def _encode(document):
    parts = b""
    for name, value in document.items():
        key = name.encode() + b"\0"
        if isinstance(value, bool):
            parts += b"\x08" + key + bytes([value])
        elif isinstance(value, int):
            parts += b"\x10" + key + struct.pack("<i", value)
        elif isinstance(value, str):
            text = value.encode() + b"\0"
            parts += b"\x02" + key + struct.pack("<i", len(text)) + text
        elif isinstance(value, list):
            parts += b"\x04" + key + _encode({str(at): one for at, one in enumerate(value)})
        else:
            parts += b"\x03" + key + _encode(value)
    return struct.pack("<i", len(parts) + 5) + parts + b"\0"


def _number(answer, name):
    """The number of a field at the top of an answer; nothing where there is none."""
    for kind, form in ((b"\x10", "<i"), (b"\x12", "<q"), (b"\x01", "<d")):
        at = answer.find(kind + name.encode() + b"\0")
        if at >= 0:
            start = at + len(name) + 2
            return struct.unpack(form, answer[start:start + struct.calcsize(form)])[0]
    return None


class Mongo(Process):
    """`count` takes a line such as `jobs {"lastFinishedAt": {"$gt": 0}}`."""

    name = "mongo"

    def __init__(self, folder, port):
        super().__init__(folder)
        self.port = port
        binary = mongod()
        self.start(binary, "--dbpath", str(self.folder), "--port", str(port), "--bind_ip", "127.0.0.1", "--replSet", SET,
                   "--oplogSize", "4000", "--quiet", "--logpath", str(self.folder / "log"))
        said = subprocess.run([binary, "--version"], capture_output=True, text=True).stdout
        self.version = said.split()[2].lstrip("v")
        member = {"_id": 0, "host": f"127.0.0.1:{port}"}
        self._until(lambda: self._ask("admin", {"replSetInitiate": {"_id": SET, "members": [member]}}))
        self._until(lambda: b"\x08isWritablePrimary\0\x01" in self._ask("admin", {"hello": 1}))
        self.database, self._made = None, 0

    def _until(self, asked):
        """Asks until the answer is yes; a server that has just started may not answer yet."""
        deadline = time.monotonic() + STARTED_S_MAX
        while True:
            why = None
            try:
                if asked():
                    return
            except OSError as error:
                why = error
            if time.monotonic() > deadline:
                raise TimeoutError(f"mongod is not ready after {STARTED_S_MAX} s; see {self.folder / 'log'}") from why
            time.sleep(0.1)

    def _ask(self, database, command):
        body = struct.pack("<I", 0) + b"\0" + _encode({**command, "$db": database})
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as wire:
            wire.sendall(struct.pack("<iiii", len(body) + 16, 1, 0, OP_MSG) + body)
            answer = b""
            while len(answer) < 4 or len(answer) < struct.unpack("<i", answer[:4])[0]:
                piece = wire.recv(65536)
                if not piece:
                    raise OSError("closed")
                answer += piece
        return answer[21:]

    def fresh(self):
        if self.database:
            self._ask(self.database, {"dropDatabase": 1})
        self._made += 1
        self.database = f"bench_{self._made}"
        return f"mongodb://127.0.0.1:{self.port}/{self.database}?replicaSet={SET}"

    def count(self, line):
        collection, query = line.split(" ", 1)
        answer = self._ask(self.database, {"count": collection, "query": json.loads(query)})
        return int(_number(answer, "n") or 0)

    def settle(self):
        self._ask("admin", {"fsync": 1})
