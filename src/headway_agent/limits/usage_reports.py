"""What tasks and their machine use, told while somebody watches: processors, memory, GPUs.

The server says in a reply for how long it wants to know; a thread looks as long as that, and no longer. Nothing is
kept: a look that is lost is followed by the next.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time

from headway_agent.decide.node_features import NodeFeature
from headway_agent.node.processes import TICKS_PER_S, tags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from headway_agent.decide.state import NodeState

    Born = tuple[int, int]  # pid, and when it was born: a pid may be given again.

EVERY_S = 2.0
FIRST_S = 0.5  # Two looks make a rate: the first pair is close together.
FOR_S_MAX = 120.0
GPU_EVERY_S = 6.0
GPU_S_MAX = 5.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
ASK_GPUS = ("nvidia-smi", "--query-gpu=index,utilization.gpu,memory.used", "--format=csv,noheader,nounits")


class UsageReports(NodeFeature):
    """The newest look of this node, until it is said."""

    word = "usage"

    def __init__(self, node_path: str, gpus: int, wake: Callable[[], None]) -> None:
        self._wake, self._gpus = wake, gpus
        self._usage = TaskUsage(node_path)
        self._lock = threading.Lock()
        self._until_s = 0.0
        self._thread: threading.Thread | None = None
        self._found: dict[str, Any] | None = None

    def due(self, now: float) -> bool:
        return self._found is not None

    def say(self, state: NodeState, now: float) -> Any:
        found, self._found = self._found, None
        return found

    def hear(self, told: Any) -> None:
        for_s = told.get("for_s") if isinstance(told, dict) else None
        if not isinstance(for_s, (int, float)):
            return
        with self._lock:
            self._until_s = time.monotonic() + min(FOR_S_MAX, for_s)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="usage", daemon=True)
                self._thread.start()

    def _look(self) -> None:
        gpus: list[list[int]] = []
        asked_at = float("-inf")
        pause_s = FIRST_S
        self._usage.look()
        while True:
            time.sleep(pause_s)
            pause_s = EVERY_S
            with self._lock:
                if time.monotonic() >= self._until_s:
                    self._thread = None
                    return
            if self._gpus and time.monotonic() - asked_at >= GPU_EVERY_S:
                gpus, asked_at = gpu_use(), time.monotonic()
            self._found = dict(self._usage.look(), gpus=gpus)
            self._wake()


class TaskUsage:
    """Differences between two looks at /proc. Which task a process belongs to is read once in its life."""

    def __init__(self, node_path: str) -> None:
        self._node_path = node_path
        self._tasks: dict[Born, str] = {}
        self._ticks: dict[Born, int] = {}
        self._looked_s = 0.0
        self._machine = (0, 0)

    def look(self) -> dict[str, Any]:
        """Cores and memory in use, by task and of the machine, since the look before."""
        now = time.monotonic()
        since_s, self._looked_s = now - self._looked_s, now
        ticks: dict[Born, int] = {}
        used: dict[str, list[float]] = {}
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            seen = _stat(pid)
            if seen is None:
                continue
            born, spent, resident = (pid, seen[0]), seen[1], seen[2]
            task = self._tasks.get(born)
            if task is None:
                found = tags(pid)
                task = found.get("HEADWAY_TASK", "") if found.get("HEADWAY_NODE_DIR") == self._node_path else ""
                self._tasks[born] = task
            ticks[born] = spent
            if task:
                of = used.setdefault(task, [0.0, 0.0])
                of[0] += (spent - self._ticks.get(born, spent)) / TICKS_PER_S / max(since_s, 0.01)
                of[1] += resident
        self._tasks = {born: self._tasks[born] for born in ticks}
        self._ticks = ticks
        before, self._machine = self._machine, _machine_ticks()
        busy, every = (self._machine[0] - before[0]), max(1, self._machine[1] - before[1])
        return {
            "tasks": {task: [round(cores, 3), int(size)] for task, (cores, size) in used.items()},
            "cpus": round(busy / every * (os.cpu_count() or 1), 3),
            "memory_bytes": _memory_used(),
        }


def _stat(pid: int) -> tuple[int, int, int] | None:
    """When a process was born, its ticks of processor time so far, and its resident memory."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
        fields = stat[stat.rindex(b")") + 2 :].split()
        return int(fields[19]), int(fields[11]) + int(fields[12]), int(fields[21]) * PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return None


def _machine_ticks() -> tuple[int, int]:
    """Ticks in which the processors did something, and all of them."""
    try:
        with open("/proc/stat", "rb") as file:
            words = [int(word) for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return (0, 0)
    idle = sum(words[3:5])
    return sum(words) - idle, sum(words)


def _memory_used() -> int:
    found: dict[bytes, int] = {}
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                name, _, rest = line.partition(b":")
                if name in (b"MemTotal", b"MemAvailable"):
                    found[name] = int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        return 0
    return max(0, found.get(b"MemTotal", 0) - found.get(b"MemAvailable", 0))


def gpu_use() -> list[list[int]]:
    """Of each GPU: its index, per cent of the time in use, and bytes of its memory in use."""
    try:
        said = subprocess.run(
            ASK_GPUS, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=GPU_S_MAX, check=False
        ).stdout.decode("ascii", "replace")
    except (OSError, subprocess.SubprocessError):
        return []
    found = []
    for line in said.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == 3 and all(word.isdigit() for word in words):
            found.append([int(words[0]), int(words[1]), int(words[2]) * 2**20])
    return found
