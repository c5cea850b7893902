"""What /proc says about processes: who is alive, since when, whose child, with which tag.

Reads only. keeper/process.py and keeper/sweep.py decide whom to signal.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Iterator

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
BORN_SLACK_S = 0.5  # The kernel counts births in ticks; ours is taken just after the spawn returned.
PF_EXITING = 0x4
OOM_FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control", "/proc/vmstat")


class SeenProcess:
    """One process: its parent, process group, session, and when it was born (seconds since boot)."""

    __slots__ = ("born_s", "exiting", "group", "parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, stat: bytes) -> None:
        # The name in parentheses may contain anything, so the fields are counted from the last parenthesis.
        fields = stat[stat.rindex(b")") + 2 :].split()
        self.pid = pid
        self.state = fields[0].decode()
        self.parent, self.group, self.session = int(fields[1]), int(fields[2]), int(fields[3])
        self.exiting = bool(int(fields[6]) & PF_EXITING)
        self.start = int(fields[19])
        self.born_s = self.start / TICKS_PER_S


def look(pid: int) -> SeenProcess | None:
    """The process with this pid; None when there is none, or only its unreaped rest."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            seen = SeenProcess(pid, file.read())
    except (OSError, ValueError):
        return None
    return None if seen.state in "ZX" else seen


def scan() -> Iterator[SeenProcess]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            seen = look(int(name))
            if seen is not None:
                yield seen


def offspring() -> dict[int, list[int]]:
    """The children of each process."""
    found: dict[int, list[int]] = {}
    for seen in scan():
        found.setdefault(seen.parent, []).append(seen.pid)
    return found


def descendants(pids: Iterable[int], offspring: dict[int, list[int]]) -> list[int]:
    """These processes, and all that descends from them."""
    found, queue = [], list(pids)
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += offspring.get(pid, ())
    return found


def tags(pid: int) -> dict[str, str]:
    """The HEADWAY_ variables that a process was started with."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            raw = file.read()
    except OSError:
        return {}
    found = {}
    for entry in raw.split(b"\0"):
        if entry.startswith(b"HEADWAY_"):
            name, _, value = entry.partition(b"=")
            found[name.decode("utf-8", "replace")] = os.fsdecode(value)
    return found


def children() -> set[int]:
    """The pids of this process's children, adopted ones included."""
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return {int(word) for word in file.read().split()}
    except OSError:
        return {seen.pid for seen in scan() if seen.parent == pid}


def group_alive(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def same_process(pid: int, start: int) -> bool:
    """Whether the pid still belongs to the process that was born at this tick."""
    seen = look(pid)
    return seen is not None and seen.start == start


def oom_kills() -> int:
    """How many processes the kernel has ended for want of memory, in our cgroup where it says so."""
    for path in OOM_FILES:
        try:
            with open(path, "rb") as file:
                for line in file:
                    if line.startswith(b"oom_kill "):
                        return int(line.split()[1])
        except OSError:
            continue
    return 0
