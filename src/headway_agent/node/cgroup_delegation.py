"""Which control groups of version 2 are ours to arrange, and how one is made to limit the groups below it.

The kernel lets a group have either processes or limited groups below it. So where nobody but this node's own processes
is in a group of ours, they move into a part of it; with others in it, it stays as it is. What systemd has not delegated
is never rearranged.
"""

from __future__ import annotations

import os

from headway_agent.node import processes
from headway_agent.node.directory import NodeDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

SYSTEMD = "/run/systemd/system"  # Is there where systemd runs the machine.
MARKS = ("trusted.delegate", "user.delegate")  # systemd's, at what it has delegated.
ROUNDS_MAX = 10


def ours(paths: Sequence[str]) -> list[str]:
    """Of a group and those above it, nearest first: the ones that were given to us, with all that is below them."""
    if os.geteuid():
        return [path for path in paths if os.access(f"{path}/cgroup.subtree_control", os.W_OK)]
    marked = [number for number, path in enumerate(paths) if _marked(path)]
    return list(paths[: marked[-1] + 1]) if marked else []


def unclaimed() -> bool:
    """Whether we are root where nobody else arranges groups."""
    return os.geteuid() == 0 and not os.path.isdir(SYSTEMD)


def _marked(path: str) -> bool:
    for name in MARKS:
        try:
            if os.getxattr(path, name) == b"1":
                return True
        except OSError:
            continue
    return False


def switch_memory_on(path: str, part: str, node_path: str) -> bool:
    """Let groups below this one have limits; where need be, move ourselves into the part of this name."""
    if _enable(path):
        return True
    inside = _pids(path)
    if not inside or not inside <= _family(node_path):
        return False
    try:
        os.mkdir(f"{path}/{part}")
    except FileExistsError:
        pass
    except OSError:
        return False
    for _ in range(ROUNDS_MAX):  # Each may start another while we move.
        for pid in _pids(path):
            write(f"{path}/{part}/cgroup.procs", str(pid))
        if _enable(path):
            return True
    return False


def _enable(path: str) -> bool:
    return write(f"{path}/cgroup.subtree_control", "+memory")


def _family(node_path: str) -> set[int]:
    """This keeper, its agent, and all that descends from them."""
    roots = [os.getpid(), NodeDir(node_path).read_pid("agent.pid")]
    return set(processes.descendants([pid for pid in roots if pid], processes.offspring()))


def _pids(path: str) -> set[int]:
    try:
        with open(f"{path}/cgroup.procs") as file:
            return set(map(int, file.read().split()))
    except OSError:
        return set()


def write(path: str, text: str) -> bool:
    """Whether the kernel took it."""
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError:
        return False
    return True
