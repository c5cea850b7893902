"""The checks of memory limits by control groups of version 2, in a guest: a real kernel, agent, keeper and tasks.

Each begins with the groups that it makes itself, as systemd or an administrator would make them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.agent.home import Node, Server, alive
from tests.waiting import wait_until

MOUNT = Path("/sys/fs/cgroup")
SYSTEMD = Path("/run/systemd/system")
PROGRAM = Path("/agent.pyz")
USER = 1000
MB = 1 << 20
LIMIT = {"limits": {"memory_bytes": 64 * MB}}
OVER = "the kernel ended it: it used more than its memory limit of 64 MiB"
# With a second process, which wants nothing: it has to go too.
EATER = (
    "import os, subprocess\nbeside = subprocess.Popen(['sleep', '600'])\nprint(beside.pid, flush=True)\nkept = []\n"
    "for _ in range(300):\n    kept.append(b'x' * (1 << 20))\nprint('ate all', flush=True)\n"
)
HOLDER = "import time\nkept = b'x' * (100 << 20)\ntime.sleep(600)\n"
WAITER = 'cat /proc/self/cgroup; while [ ! -e "$0" ]; do sleep 0.1; done'

CHECKS: dict[str, Callable[[], None]] = {}


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS[function.__name__] = function
    return function


# --- where an agent may find itself ---------------------------------------------------------------------------------


def with_systemd() -> None:
    """systemd arranges the groups of this machine: that is how programs know."""
    SYSTEMD.mkdir(parents=True)
    grant(MOUNT)
    a_group("system.slice", grants_memory=True)
    a_group("user.slice", grants_memory=True)


def a_group(name: str, grants_memory: bool = False, owner: int = 0, delegated: bool = False) -> Path:
    """A control group, as whoever starts agents would make it."""
    group = MOUNT / name
    group.mkdir(exist_ok=True)
    if owner:  # Exactly what the kernel's manual says of delegation to a user.
        for path in (group, *(group / f"cgroup.{file}" for file in ("procs", "threads", "subtree_control"))):
            os.chown(path, owner, owner)
    if delegated:
        os.setxattr(group, "trusted.delegate", b"1")  # As systemd marks what it delegates.
    if grants_memory:
        grant(group)
    return group


def grant(group: Path, sign: str = "+") -> None:
    (group / "cgroup.subtree_control").write_text(f"{sign}memory")


def own(group: Path) -> str:
    """How a process in it reads its name in /proc/self/cgroup."""
    return f"/{group.relative_to(MOUNT)}" if group != MOUNT else "/"


class GuestNode(Node):
    """A node whose agent is started in a control group, as some user."""

    group, user = MOUNT, 0
    before: tuple[str, ...] = ()

    def command(self, *more: str) -> list[str]:
        return [*self.before, *super().command(*more)]

    def start(self, *more: str) -> None:
        (self.group / "cgroup.procs").write_text(str(os.getpid()))  # What we start now begins in it.
        try:
            env = {**os.environ, "PATH": "/bin"}
            words = self.command(*more)
            self.agent = subprocess.Popen(words, env=env, user=self.user, group=self.user, extra_groups=[])
        finally:
            (MOUNT / "cgroup.procs").write_text(str(os.getpid()))

    def gives(self, *argv: str) -> str:
        """A task with the limit, named by its number."""
        return self.server.give(f"job{len(self.server.seen)}-{len(self.server.duties)}/1/0", *argv, **LIMIT)

    def groups(self) -> list[Path]:
        return sorted(path for path in MOUNT.rglob("headway-*-job*") if path.is_dir())


@contextmanager
def an_agent(group: Path, user: int = 0, before: tuple[str, ...] = ()) -> Iterator[GuestNode]:
    home = Path(tempfile.mkdtemp(prefix="check-"))
    server = Server(home / "storage")
    node = GuestNode(home / "node", server, PROGRAM, home / "storage")
    node.group, node.user, node.before = group, user, before
    (home / "storage").mkdir()
    for path in (home, home / "storage", home / "node", home / "node/token"):
        os.chown(path, user, user)
    node.start()
    try:
        yield node
    finally:
        node.release()
        server.http.shutdown()
        server.http.server_close()
        shutil.rmtree(home)
        remove_all()


def remove_all() -> None:
    """The next check makes its own groups."""
    shutil.rmtree(SYSTEMD, ignore_errors=True)
    for path in sorted((path for path in MOUNT.rglob("*") if path.is_dir()), reverse=True):
        wait_until(lambda path=path: _removed(path), what=f"the removal of {path}")  # type: ignore[misc]
    grant(MOUNT, "-")


def _removed(path: Path) -> bool:
    try:
        path.rmdir()
    except OSError:
        return False
    return True


# --- what is expected of it -----------------------------------------------------------------------------------------


def is_limited_below(node: GuestNode, parent: Path) -> None:
    """Its tasks have groups of their own there: one over its limit goes with all its processes, another runs on."""
    gate = Path(tempfile.mktemp(prefix="gate-"))
    modest = node.gives("sh", "-c", WAITER, str(gate))
    node.server.follow = [modest]
    wait_until(lambda: node.server.output(modest), what="the modest task", story=lambda: str(node.server.reports))
    group = MOUNT / node.server.output(modest).decode().strip().removeprefix("0::/")
    assert group.parent == parent, f"{group} is not in {parent}"
    read = {name: (group / name).read_text().strip() for name in ("memory.max", "memory.swap.max", "memory.oom.group")}
    assert read == {"memory.max": str(64 * MB), "memory.swap.max": "0", "memory.oom.group": "1"}
    eater = node.gives(sys.executable, "-S", "-c", EATER)
    outcome = node.server.outcome(eater)
    assert (outcome["cause"], outcome["detail"]) == ("out_of_memory", OVER), outcome
    beside, *more = node.server.output(eater).split()
    assert (more, alive(int(beside))) == ([], False)
    kernels = subprocess.run(["dmesg"], capture_output=True, text=True).stdout
    named = eater.replace("/", "-")
    assert f"-{named} are going to be killed due to memory.oom.group set" in kernels, kernels[-2000:]
    gate.touch()
    assert node.server.outcome(modest)["cause"] is None
    wait_until(lambda: not node.groups(), what="the removal of the groups", story=lambda: str(node.groups()))


def is_watched(node: GuestNode) -> None:
    """Its tasks stay where the agent is, and the agent itself ends one that is over its limit."""
    modest = node.gives("cat", "/proc/self/cgroup")
    assert node.server.outcome(modest)["cause"] is None
    assert node.server.output(modest).decode().strip() == f"0::{own(node.group)}"
    outcome = node.server.outcome(node.gives(sys.executable, "-S", "-c", HOLDER))
    assert outcome["cause"] == "out_of_memory", outcome
    assert "its limit is 64 MiB" in outcome["detail"], outcome
    assert not node.groups()


# --- the checks -----------------------------------------------------------------------------------------------------


@check
def root_without_systemd_switches_memory_on_at_the_root() -> None:
    assert "memory" not in (MOUNT / "cgroup.subtree_control").read_text()
    with an_agent(MOUNT) as node:
        is_limited_below(node, MOUNT)


@check
def root_in_the_root_group_makes_groups_there() -> None:
    grant(MOUNT)
    with an_agent(MOUNT) as node:
        is_limited_below(node, MOUNT)


@check
def root_without_systemd_stays_as_near_as_it_can() -> None:
    grant(MOUNT)
    near = a_group("near", grants_memory=True)
    with an_agent(a_group("near/own")) as node:
        is_limited_below(node, near)


@check
def groups_that_a_killed_keeper_leaves_are_removed_by_the_next() -> None:
    grant(MOUNT)
    with an_agent(MOUNT) as node:
        task = node.gives("sleep", "600")
        wait_until(node.groups)
        wait_until(lambda: node.server.phase(task) == "running")
        (group,) = node.groups()
        wait_until(lambda: (group / "cgroup.procs").read_text().split(), what="the task in its group")
        os.kill(node.pid("keeper.pid"), signal.SIGKILL)
        assert node.server.outcome(task)["cause"] == "outcome_lost"
        wait_until(lambda: not node.groups())


@check
def root_in_a_service_that_is_not_delegated_makes_groups_beside_it() -> None:
    with_systemd()
    with an_agent(a_group("system.slice/agent.service")) as node:
        is_limited_below(node, MOUNT / "system.slice")


@check
def root_in_a_service_that_is_limited_itself_stays_in_it() -> None:
    with_systemd()
    service = a_group("system.slice/agent.service")
    (service / "memory.max").write_text(str(1024 * MB))
    with an_agent(service) as node:
        is_watched(node)


@check
def root_in_a_delegated_service_makes_groups_in_it() -> None:
    with_systemd()
    service = a_group("system.slice/agent.service", delegated=True)
    with an_agent(service) as node:
        is_limited_below(node, service)
        is_limited_below(node, service)


@check
def a_user_in_a_part_of_its_delegated_service_makes_groups_beside_it() -> None:
    with_systemd()
    service = a_group("system.slice/headway-server.service", owner=USER)
    with an_agent(a_group("system.slice/headway-server.service/server", owner=USER), USER) as node:
        is_limited_below(node, service)


@check
def a_user_alone_in_its_delegated_service_makes_groups_in_it() -> None:
    with_systemd()
    service = a_group("system.slice/agent.service", owner=USER)
    with an_agent(service, USER) as node:
        is_limited_below(node, service)


@check
def a_delegated_service_with_a_process_of_others_is_left_as_it_is() -> None:
    with_systemd()
    service = a_group("system.slice/headway-server.service", owner=USER)
    other = subprocess.Popen(["sleep", "600"])
    (service / "cgroup.procs").write_text(str(other.pid))
    try:
        with an_agent(service, USER) as node:
            is_watched(node)
            assert str(other.pid) in (service / "cgroup.procs").read_text().split()
            assert not (service / "cgroup.subtree_control").read_text().strip()
            other.kill()
            other.wait()
    finally:
        other.kill()


@check
def a_user_without_delegation_is_watched() -> None:
    with_systemd()
    with an_agent(a_group("user.slice/session-1.scope"), USER) as node:
        is_watched(node)


@check
def a_user_who_may_make_groups_but_move_nothing_into_them_is_watched() -> None:
    with_systemd()
    os.chown(MOUNT / "user.slice", USER, USER)
    with an_agent(a_group("user.slice/session-1.scope"), USER) as node:
        is_watched(node)


@check
def a_user_is_watched_where_memory_is_not_switched_on() -> None:
    with an_agent(a_group("session-1.scope"), USER) as node:
        is_watched(node)


@check
def groups_that_are_mounted_for_reading_alone_are_left_alone() -> None:
    with_systemd()
    service = a_group("system.slice/headway-server.service", delegated=True)
    script = 'mount -o remount,ro,bind /sys/fs/cgroup && exec "$0" "$@"'  # What ProtectControlGroups= does.
    with an_agent(service, before=("unshare", "-m", "sh", "-c", script)) as node:
        is_watched(node)
