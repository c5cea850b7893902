"""A node in the guest: its agent, the tasks that it is given, and what is expected of them where memory is limited."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.agent.home import TOKEN, Node, Server, alive
from tests.waiting import wait_until

MOUNT = Path("/sys/fs/cgroup")
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


Starting = Callable[[list[str]], "subprocess.Popen[bytes] | None"]


class GuestNode(Node):
    """A node whose agent is started in a certain control group: how, `starting` knows."""

    group: Path
    starting: Starting

    def start(self, *more: str) -> None:
        (self.path / "token").write_text(TOKEN)  # Each agent takes it away once it has read it.
        self.agent = self.starting(self.command(*more))

    def gives(self, *argv: str) -> str:
        """A task with the limit, named by its number."""
        return self.server.give(f"job{len(self.server.seen)}-{len(self.server.duties)}/1/0", *argv, **LIMIT)

    def groups(self) -> list[Path]:
        return sorted(path for path in MOUNT.rglob("headway-*-job*") if path.is_dir())


@contextmanager
def an_agent(group: Path, user: int, starting: Starting) -> Iterator[GuestNode]:
    home = Path(tempfile.mkdtemp(prefix="check-"))
    server = Server(home / "storage")
    node = GuestNode(home / "node", server, PROGRAM, home / "storage")
    node.group, node.starting = group, starting
    (home / "storage").mkdir()
    for path in (home, home / "storage", home / "node"):
        os.chown(path, user, user)
    node.start()
    try:
        yield node
    finally:
        node.release()
        server.http.shutdown()
        server.http.server_close()
        shutil.rmtree(home)


def own(group: Path) -> str:
    """How a process in it reads its name in /proc/self/cgroup."""
    return f"/{group.relative_to(MOUNT)}" if group != MOUNT else "/"


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
    assert "/dev/ram0" in Path("/proc/swaps").read_text(), "without swap, it is not seen that swap extends no limit"
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
