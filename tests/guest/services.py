"""Checks of memory limits in services of a real systemd, which is the guest's first process by now."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.agent.home import TOKEN
from tests.guest import agents
from tests.guest.agents import MOUNT, USER, GuestNode, is_limited_below, is_watched
from tests.waiting import wait_until

SLICE = MOUNT / "system.slice"
SERVICE = SLICE / "agent.service"
UNIT = Path("/run/systemd/system/agent.service")


def systemctl(*words: str) -> str:
    return subprocess.run(["systemctl", *words], check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def a_service(*lines: str, user: int = 0) -> Iterator[GuestNode]:
    """An agent that is a service with these lines in its unit."""

    def start(words: list[str]) -> None:
        head = ["[Unit]", "DefaultDependencies=no", "[Service]", "Type=exec", f"User={user}", "Environment=PATH=/bin"]
        UNIT.write_text("\n".join([*head, *lines, f"ExecStart={shlex.join(words)}", ""]))
        systemctl("daemon-reload")
        systemctl("start", UNIT.name)

    try:
        with agents.an_agent(SERVICE, user, start) as node:
            yield node
    finally:
        systemctl("stop", UNIT.name)
        wait_until(lambda: not SERVICE.exists(), what="the end of the service's group")


def check_root_in_a_service_makes_groups_beside_it_that_systemd_leaves_alone() -> None:
    with a_service() as node:
        is_limited_below(node, SLICE)
        systemctl("daemon-reload")
        is_limited_below(node, SLICE)


def check_root_in_a_service_that_is_limited_itself_stays_in_it() -> None:
    with a_service("MemoryMax=1G", "CPUQuota=150%") as node:
        is_watched(node)
        said = next(body["facts"] for body in node.server.bodies if "facts" in body)
        assert (said["cpus"], said["memory_bytes"]) == (1.5, 1 << 30)


def check_root_in_a_delegated_service_makes_groups_in_it_also_after_a_restart() -> None:
    with a_service("Delegate=yes", "Restart=on-failure") as node:
        is_limited_below(node, SERVICE)
        first = node.pid("agent.pid")
        (node.path / "token").write_text(TOKEN)  # As whoever starts an agent does.
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: node.pid("agent.pid") not in (0, first), what="another agent")
        is_limited_below(node, SERVICE)


def check_a_user_alone_in_its_delegated_service_makes_groups_in_it() -> None:
    with a_service("Delegate=memory", user=USER) as node:
        is_limited_below(node, SERVICE)


def check_a_delegated_service_with_a_process_of_others_is_left_as_it_is() -> None:
    with a_service("Delegate=memory", "ExecStartPre=/bin/sh -c 'sleep 600 &'", user=USER) as node:
        is_watched(node)
        inside = [Path(f"/proc/{pid}/comm").read_text() for pid in (SERVICE / "cgroup.procs").read_text().split()]
        assert "sleep\n" in inside, inside
        assert not (SERVICE / "cgroup.subtree_control").read_text().strip()


def check_a_user_without_delegation_is_watched() -> None:
    with a_service(user=USER) as node:
        is_watched(node)


def check_groups_that_are_protected_are_left_alone() -> None:
    with a_service("Delegate=memory", "ProtectControlGroups=yes") as node:
        is_watched(node)
