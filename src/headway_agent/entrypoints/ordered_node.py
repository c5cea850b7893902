"""One node of an order: starts the agent, keeps it alive, turns the platform's signals into notices, leaves nothing.

The platform (a Slurm step) started this process and ends the node's time with it. What it needs to know lies in the
node's directory, in ordered.json.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time

from headway_agent.entrypoints import release
from headway_agent.node.directory import LEFT, NEXT_TOKEN, ORDERED, NodeDir, remove_tree, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

LOOK_S = 0.2
AGAIN_S_MAX = 30.0
LIMIT_SLACK_S = 90.0  # Platforms count their limits in minutes.
RESERVE_S = 2.0
LIMIT = "the time limit of its Slurm job was reached"
EVICTED = "Slurm made room for another job"
WARNED = "Slurm warned that its job would end: at its time limit, or to make room for another"
ENDED = "Slurm ended its job: it was cancelled, made room for another, or its machine was taken out of service"
HEARD = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


class OrderedNode:
    def __init__(self, node_dir: NodeDir, said: Mapping[str, Any], env: Mapping[str, str]) -> None:
        self.node_dir = node_dir
        self.said = said
        self.argv = agent_argv(node_dir.path, said, env)
        self.env = agent_env(env)
        self.began_s = time.monotonic()
        self.agent = 0
        self.start_at_s = 0.0
        self.again_s = 0.5
        self.leave_by_s: float | None = None
        # Kept here, and put down only for an agent that starts: the ranks run as the same user.
        self.token = _taken(node_dir.file("token"))

    def run(self) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with open(self.node_dir.file("ordered.pid"), "w") as file:
            file.write(str(os.getpid()))
        # The agent hears the platform's SIGTERM by itself.
        self._write_notice(float(self.said.get("grace_s", 30.0)), ENDED)
        while not self._over():
            self.token = _taken(self.node_dir.file(NEXT_TOKEN)) or self.token  # The keys were rotated.
            if not self.agent and time.monotonic() >= self.start_at_s:
                self._start()
            heard = signal.sigtimedwait(HEARD, LOOK_S)
            if heard is not None and self._hear(heard.si_signo):
                break
        if self.agent:
            os.kill(self.agent, signal.SIGKILL)
        release.main(self.node_dir.path)
        remove_tree(self.node_dir.path)
        return 0

    def _start(self) -> None:
        if self.token:
            with os.fdopen(os.open(self.node_dir.file("token"), os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(self.token)
        defaults = [each for each in signal.valid_signals() if each not in (signal.SIGKILL, signal.SIGSTOP)]
        self.agent = os.posix_spawn(self.argv[0], self.argv, self.env, setpgroup=0, setsigmask=[], setsigdef=defaults)

    def _hear(self, number: int) -> bool:
        """Take up a signal; says whether all is over."""
        now = time.monotonic()
        if number == signal.SIGCHLD:
            return self._reap(now)
        if number == signal.SIGUSR1:
            self._notice(*self._left_s(now), now)
        else:
            self._notice(float(self.said.get("grace_s", 30.0)), ENDED, now)
        return False

    def _left_s(self, now: float) -> tuple[float, str]:
        """How long is left after the platform's warning: until its limit, or what it leaves those whom it evicts."""
        life_s, notice_s = self.said.get("life_s"), float(self.said.get("notice_s", 120.0))
        left_s = float(life_s) - (now - self.began_s) if life_s else None
        if left_s is not None and left_s <= notice_s + LIMIT_SLACK_S:
            return max(1.0, left_s), LIMIT
        return (float(self.said.get("grace_s", 30.0)), EVICTED) if life_s else (notice_s, WARNED)

    def _notice(self, left_s: float, why: str, now: float) -> None:
        left_s = max(1.0, left_s - RESERVE_S)
        if self.leave_by_s is not None and self.leave_by_s <= now + left_s:
            return  # Known already.
        self.leave_by_s = now + left_s
        if self.agent and self._tasks():
            self._write_notice(left_s, why)
            os.kill(self.agent, signal.SIGUSR1)

    def _write_notice(self, left_s: float, why: str) -> None:
        write_whole(self.node_dir.file("notice.json"), {"seconds_left": left_s, "why": why})

    def _over(self) -> bool:
        """Whether it is time to go: there was a notice, and nothing is left to save, or no time for it."""
        return self.leave_by_s is not None and (not self._tasks() or time.monotonic() >= self.leave_by_s)

    def _tasks(self) -> list[str]:
        try:
            return [name for name in os.listdir(self.node_dir.file("tasks")) if not name.startswith(".")]
        except OSError:
            return []

    def _reap(self, now: float) -> bool:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return False
            if pid == self.agent:
                self.agent, self.start_at_s = 0, now + self.again_s
                self.again_s = min(AGAIN_S_MAX, self.again_s * 2)
                if os.WIFEXITED(status) and os.WEXITSTATUS(status) == LEFT:
                    return True


def _taken(path: str) -> str:
    try:
        with open(path) as file:
            token = file.read()
        os.unlink(path)
        return token
    except OSError:
        return ""


def agent_argv(path: str, said: Mapping[str, Any], env: Mapping[str, str]) -> list[str]:
    """How the agent is started: with what was granted to this node, not with what the machine has."""
    argv = [sys.executable, "-I", "-S", os.path.join(path, "agent.pyz"), "agent", "--node-dir", path]
    options = {
        "node": said["node"],
        "pool": said["pool"],
        "server-file": os.path.join(path, "server.json"),
        "token-file": os.path.join(path, "token"),
        "address": said.get("address") or own_address(str(said["urls"])),
        "dead-man-s": said.get("dead_man_s"),
        "ship-every-s": said.get("ship_every_s"),
        "ship-follow-every-s": said.get("ship_follow_every_s"),
        **granted(env),
    }
    for name, value in options.items():
        if value is not None:
            argv += [f"--{name}", str(value)]
    return argv


def granted(env: Mapping[str, str]) -> dict[str, Any]:
    """What Slurm says that this node may use; what it does not say is left to the agent's own look."""
    found: dict[str, Any] = {}
    cpus = env.get("SLURM_CPUS_PER_TASK") or env.get("SLURM_CPUS_ON_NODE", "")
    if cpus.isdigit():
        found["cpus"] = int(cpus)
    per_node, per_cpu = env.get("SLURM_MEM_PER_NODE", ""), env.get("SLURM_MEM_PER_CPU", "")
    if per_node.isdigit() and int(per_node):
        found["memory-bytes"] = int(per_node) << 20
    elif per_cpu.isdigit() and cpus.isdigit():
        found["memory-bytes"] = (int(per_cpu) << 20) * int(cpus)
    devices = [each for each in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if each and each != "NoDevFiles"]
    count = env.get("SLURM_GPUS_ON_NODE", "")
    if devices or count.isdigit():
        found["gpus"] = len(devices) if devices else int(count)
    elif "SLURM_JOB_ID" in env:
        found["gpus"] = 0
    return found


def agent_env(env: Mapping[str, str]) -> dict[str, str]:
    """The agent's environment: that of the step, and which of the machine's GPUs are ours."""
    devices = env.get("CUDA_VISIBLE_DEVICES", "")
    return {**env, ORDERED: "1", **({"HEADWAY_AGENT_VISIBLE_GPUS": devices} if devices else {})}


def own_address(urls: str) -> str:
    """The address of this machine on the way to the server: there the other nodes of a gang find it."""
    host = urls.split(",")[0].partition("://")[2].partition("/")[0].rpartition(":")[0].strip("[]")
    try:
        family, _, _, _, there = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(there)  # Sends nothing; it only asks the kernel for a route.
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"


def main(path: str) -> int:
    node_dir = NodeDir(path)
    with open(node_dir.file("ordered.json")) as file:
        said = json.load(file)
    return OrderedNode(node_dir, said, os.environ).run()
