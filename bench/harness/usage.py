"""What processes and the machine have used, read from /proc."""

import os
import socket
import time

TICKS = os.sysconf("SC_CLK_TCK")
PORT_WAIT_S = 10


def _stat(pid):
    with open(f"/proc/{pid}/stat") as file:
        # The name may hold spaces; what follows its closing bracket does not.
        return file.read().rpartition(")")[2].split()


def _parents():
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found[int(entry)] = int(_stat(entry)[1])
            except (FileNotFoundError, ProcessLookupError):
                pass
    return found


def tree(root):
    """A process and all that it has started."""
    parents = _parents()
    found = {root}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found


def tree_cpu_seconds(root):
    """CPU time of a process and its children, those that have ended included."""
    ticks = 0
    for pid in tree(root):
        try:
            utime, stime, cutime, cstime = map(int, _stat(pid)[11:15])
            ticks += utime + stime + cutime + cstime
        except (FileNotFoundError, ProcessLookupError):
            pass
    return ticks / TICKS


def peak_rss_mib(pid):
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def machine_cpu_seconds():
    """CPU time that anybody has used, and that the host took away."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def load_average():
    return os.getloadavg()[0]


def wait_for_port(port):
    deadline = time.monotonic() + PORT_WAIT_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
