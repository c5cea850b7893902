"""Checks of memory limits by control groups of version 2 that are made by hand, before any systemd runs.

Each begins with the groups that it makes itself, as an administrator or another system would make them.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headway_agent.node import granted
from tests.guest import agents
from tests.guest.agents import MB, MOUNT, USER, GuestNode, is_limited_below, is_watched
from tests.waiting import wait_until

# --- where an agent may find itself ---------------------------------------------------------------------------------


def a_group(name: str, grants_memory: bool = False, owner: int = 0) -> Path:
    """A control group, as whoever starts agents would make it."""
    group = MOUNT / name
    group.mkdir(exist_ok=True)
    if owner:  # Exactly what the kernel's manual says of delegation to a user.
        for path in (group, *(group / f"cgroup.{file}" for file in ("procs", "threads", "subtree_control"))):
            os.chown(path, owner, owner)
    if grants_memory:
        grant(group)
    return group


def grant(group: Path, sign: str = "+") -> None:
    (group / "cgroup.subtree_control").write_text(f"{sign}memory")


@contextmanager
def being_in(group: Path) -> Iterator[None]:
    """What we start now begins in it."""
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        (MOUNT / "cgroup.procs").write_text(str(os.getpid()))


@contextmanager
def an_agent(group: Path, user: int = 0) -> Iterator[GuestNode]:
    def start(words: list[str]) -> subprocess.Popen[bytes]:
        with being_in(group):
            env = {**os.environ, "PATH": "/bin"}
            return subprocess.Popen(words, env=env, user=user, group=user, extra_groups=[])

    try:
        with agents.an_agent(group, user, start) as node:
            yield node
    finally:
        remove_all()


def remove_all() -> None:
    """The next check makes its own groups, whatever this one has left in them."""
    for path in MOUNT.glob("*/cgroup.kill"):
        path.write_text("1")
    for path in sorted((path for path in MOUNT.rglob("*") if path.is_dir()), reverse=True):
        wait_until(lambda path=path: _removed(path), what=f"the removal of {path}")  # type: ignore[misc]
    grant(MOUNT, "-")


def _removed(path: Path) -> bool:
    try:
        path.rmdir()
    except OSError:
        return False
    return True


# --- the checks -----------------------------------------------------------------------------------------------------


def check_a_node_has_the_least_that_its_own_group_and_those_above_it_allow() -> None:
    free = granted.cpus_granted(), granted.memory_granted()
    for group in (MOUNT, a_group("batch.slice")):
        (group / "cgroup.subtree_control").write_text("+memory +cpu")
    own = a_group("batch.slice/agent")
    try:
        with being_in(own):
            assert (granted.cpus_granted(), granted.memory_granted()) == free
            (MOUNT / "batch.slice/memory.max").write_text(str(256 * MB))
            (own / "memory.max").write_text(str(512 * MB))
            (own / "cpu.max").write_text("50000 100000")
            assert (granted.cpus_granted(), granted.memory_granted()) == (0.5, 256 * MB)
            (own / "memory.max").write_text(str(128 * MB))
            (MOUNT / "batch.slice/cpu.max").write_text("25000 100000")
            assert (granted.cpus_granted(), granted.memory_granted()) == (0.25, 128 * MB)
    finally:
        remove_all()
        (MOUNT / "cgroup.subtree_control").write_text("-cpu")


def check_root_without_systemd_switches_memory_on_at_the_root() -> None:
    assert "memory" not in (MOUNT / "cgroup.subtree_control").read_text()
    with an_agent(MOUNT) as node:
        is_limited_below(node, MOUNT)


def check_root_in_the_root_group_makes_groups_there_and_removes_what_a_killed_keeper_left() -> None:
    grant(MOUNT)
    with an_agent(MOUNT) as node:
        is_limited_below(node, MOUNT)
        task = node.gives("sleep", "600")
        wait_until(node.groups)
        wait_until(lambda: node.server.phase(task) == "running")
        (group,) = node.groups()
        wait_until(lambda: (group / "cgroup.procs").read_text().split(), what="the task in its group")
        os.kill(node.pid("keeper.pid"), signal.SIGKILL)
        assert node.server.outcome(task)["cause"] == "outcome_lost"
        wait_until(lambda: not node.groups())


def check_root_without_systemd_stays_as_near_as_it_can() -> None:
    grant(MOUNT)
    near = a_group("near", grants_memory=True)
    with an_agent(a_group("near/own")) as node:
        is_limited_below(node, near)


def check_a_user_in_a_part_of_a_delegated_service_makes_groups_beside_it() -> None:
    """As DelegateSubgroup= of systemd has it, from version 254 on."""
    grant(MOUNT)
    a_group("system.slice", grants_memory=True)
    service = a_group("system.slice/headway-server.service", owner=USER)
    other = subprocess.Popen(["sleep", "600"])
    part = a_group("system.slice/headway-server.service/server", owner=USER)
    (part / "cgroup.procs").write_text(str(other.pid))
    with an_agent(part, USER) as node:
        is_limited_below(node, service)
        is_limited_below(node, service)


def check_a_user_who_may_make_groups_but_move_nothing_into_them_is_watched() -> None:
    grant(MOUNT)
    os.chown(a_group("user.slice", grants_memory=True), USER, USER)
    with an_agent(a_group("user.slice/session-1.scope"), USER) as node:
        is_watched(node)


def check_a_user_is_watched_where_memory_is_not_switched_on() -> None:
    with an_agent(a_group("session-1.scope"), USER) as node:
        is_watched(node)
