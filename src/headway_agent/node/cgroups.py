"""A control group for each task that has a memory limit: made by the keeper, entered by its ranks, removed at its end.

Version 2 where it has the memory controller, else version 1, else none, and the agent watches instead
(limits/sampler.py). HEADWAY_AGENT_CGROUPS (v2, v1, none) says which to use. What of version 2 we may rearrange is in
cgroup_delegation.py.
"""

from __future__ import annotations

import os
import zlib

from headway_agent.node import cgroup_delegation
from headway_agent.node.cgroup_delegation import write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

MOUNT = "/sys/fs/cgroup"
V1, V2 = "v1", "v2"
LIMITS = ("memory.max", "memory.high", "cpu.max")  # Of version 2; each says "max" where there is none.


class ControlGroup:
    """The control group of one task."""

    def __init__(self, path: str, version: str) -> None:
        self.path, self.version = path, version

    @property
    def procs(self) -> str:
        return f"{self.path}/cgroup.procs"

    def limit(self, memory_bytes: int) -> bool:
        """Set the limit. Swap does not extend it, where the kernel lets us say so."""
        if self.version == V2:
            write(f"{self.path}/memory.swap.max", "0")
            write(f"{self.path}/memory.oom.group", "1")  # Half a task is of no use: all of it goes.
            return write(f"{self.path}/memory.max", str(memory_bytes))
        done = write(f"{self.path}/memory.limit_in_bytes", str(memory_bytes))
        write(f"{self.path}/memory.memsw.limit_in_bytes", str(memory_bytes))
        return done

    def may_be_entered(self) -> bool:
        """Whether ranks can move in: who may make a group may not yet move anything there. So somebody tries."""
        quiet = [(os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)]
        words = ["/bin/sh", "-c", 'echo $$ > "$0"', self.procs]
        pid = os.posix_spawn(words[0], words, {}, file_actions=quiet)
        return os.waitpid(pid, 0)[1] == 0

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


def make(node_path: str, task: str, memory_bytes: int) -> ControlGroup | None:
    """A group with this limit; None where this machine grants none."""
    name = f"{_prefix(node_path)}{task.replace('/', '-')}"
    for parent, version in _granting(node_path):
        group = ControlGroup(f"{parent}/{name}", version)
        try:
            os.mkdir(group.path)
        except FileExistsError:
            pass
        except OSError:
            continue
        if group.limit(memory_bytes) and group.may_be_entered():
            return group
        group.remove()
    return None


def remove_left(node_path: str) -> None:
    """Remove the groups of an earlier keeper, whose ranks have been ended."""
    for parent, version in _parents():
        for name in _names(parent):
            if name.startswith(_prefix(node_path)):
                ControlGroup(f"{parent}/{name}", version).remove()


def _prefix(node_path: str) -> str:
    return f"headway-{zlib.crc32(os.fsencode(node_path)):08x}-"


def own_and_above(controller: str) -> Iterator[str]:
    """Our own group and all above it, of version 2 and of this controller's version 1: what limits them limits us."""
    own = _own_groups(_read("/proc/self/cgroup"))
    for root in (MOUNT, f"{MOUNT}/unified"):
        yield from _upwards(root, own.get("", "/"))
    yield from _upwards(f"{MOUNT}/{controller}", own.get(controller, "/"))


def _parents() -> Iterator[tuple[str, str]]:
    """Where groups may be, the nearest first: in our own group, or in one above it."""
    wish = os.environ.get("HEADWAY_AGENT_CGROUPS", "")
    own = _own_groups(_read("/proc/self/cgroup"))
    if wish in ("", V2):
        for root in (MOUNT, f"{MOUNT}/unified"):
            for path in _upwards(root, own.get("", "/")):
                if "memory" in _read(f"{path}/cgroup.controllers").split():
                    yield path, V2
                if any(_read(f"{path}/{name}")[:3] not in ("", "max") for name in LIMITS):
                    break  # What somebody allows us, our tasks must not leave.
    if wish in ("", V1):
        for path in _upwards(f"{MOUNT}/memory", own.get("memory", "/")):
            if os.path.exists(f"{path}/memory.limit_in_bytes"):
                yield path, V1


def _granting(node_path: str) -> Iterator[tuple[str, str]]:
    """Those that limit what is below them: of what was given to us, even if we must switch it on; then of the rest."""
    found = list(_parents())
    second = [path for path, version in found if version == V2]
    ready = [path for path in second if "memory" in _read(f"{path}/cgroup.subtree_control").split()]
    ours, part = cgroup_delegation.ours(second), f"{_prefix(node_path)}agent"
    yield from ((path, V2) for path in ready if path in ours)
    # The outermost first: likely only parts are in it, and nobody has to move.
    for path in reversed(ours):
        if path not in ready and cgroup_delegation.switch_memory_on(path, part, node_path):
            yield path, V2
    yield from ((path, V2) for path in ready if path not in ours)
    if (
        second
        and not ready
        and cgroup_delegation.unclaimed()
        and cgroup_delegation.switch_memory_on(second[-1], part, node_path)
    ):
        yield second[-1], V2
    yield from ((path, version) for path, version in found if version == V1)


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


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []
