"""A control group for each task that has a memory limit: made by the keeper, entered by its ranks, removed at its end.

Version 2 where it has the memory controller, else version 1, else none, and the agent watches instead (sampling.py).
HEADWAY_AGENT_CGROUPS (v2, v1, none) says which to use.
"""

from __future__ import annotations

import os
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

MOUNT = "/sys/fs/cgroup"
V1, V2 = "v1", "v2"


class Group:
    """The control group of one task."""

    def __init__(self, path: str, version: str) -> None:
        self.path, self.version = path, version

    @property
    def procs(self) -> str:
        return f"{self.path}/cgroup.procs"

    def limit(self, memory_bytes: int) -> bool:
        """Set the limit. Swap does not extend it, where the kernel lets us say so."""
        if self.version == V2:
            _write(f"{self.path}/memory.swap.max", "0")
            _write(f"{self.path}/memory.oom.group", "1")  # Half a task is of no use: all of it goes.
            return _write(f"{self.path}/memory.max", str(memory_bytes))
        done = _write(f"{self.path}/memory.limit_in_bytes", str(memory_bytes))
        _write(f"{self.path}/memory.memsw.limit_in_bytes", str(memory_bytes))
        return done

    def oom_kills(self) -> int:
        """How many of its processes the kernel has ended for want of memory."""
        name = "memory.events" if self.version == V2 else "memory.oom_control"
        for line in _read(f"{self.path}/{name}").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
        return 0

    def remove(self) -> None:
        try:
            os.rmdir(self.path)
        except OSError:
            pass  # Something of it is still ending; the next keeper removes it.


def make(node_path: str, task: str, memory_bytes: int) -> Group | None:
    """A group with this limit; None where this machine grants none."""
    name = f"{_prefix(node_path)}{task.replace('/', '-')}"
    for parent, version in _parents():
        group = Group(f"{parent}/{name}", version)
        try:
            os.mkdir(group.path)
        except FileExistsError:
            pass
        except OSError:
            continue
        if os.access(group.procs, os.W_OK) and group.limit(memory_bytes):
            return group
        group.remove()
    return None


def remove_left(node_path: str) -> None:
    """Remove the groups of an earlier keeper, whose ranks have been ended."""
    for parent, version in _parents():
        for name in _names(parent):
            if name.startswith(_prefix(node_path)):
                Group(f"{parent}/{name}", version).remove()


def _prefix(node_path: str) -> str:
    return f"headway-{zlib.crc32(os.fsencode(node_path)):08x}-"


def _parents() -> Iterator[tuple[str, str]]:
    """Where a group may be made, the nearest first: our own group, or one above it."""
    wish = os.environ.get("HEADWAY_AGENT_CGROUPS", "")
    own = _own_groups(_read("/proc/self/cgroup"))
    if wish in ("", V2):
        for root in (MOUNT, f"{MOUNT}/unified"):
            for path in _upwards(root, own.get("", "/")):
                if "memory" in _read(f"{path}/cgroup.subtree_control").split():
                    yield path, V2
    if wish in ("", V1):
        for path in _upwards(f"{MOUNT}/memory", own.get("memory", "/")):
            if os.path.exists(f"{path}/memory.limit_in_bytes"):
                yield path, V1


def _own_groups(text: str) -> dict[str, str]:
    """By controller, the group that we are in; the empty name is that of version 2."""
    found = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            found[name] = path
    return found


def _upwards(root: str, path: str) -> Iterator[str]:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for count in range(len(parts), -1, -1):
        yield "/".join([root, *parts[:count]])


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except (OSError, ValueError):
        return ""


def _write(path: str, text: str) -> bool:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError:
        return False
    return True


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []
