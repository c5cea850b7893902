"""Looking at what limited tasks use: one thread, alive only while there is such a task.

Samples come from /proc and from the task's directory; rules.py judges them. A task's processes are
its ranks and all that descends from them.
"""

from __future__ import annotations

import os
import threading

from headway_agent.limits import rules
from headway_agent.limits.rules import Sample
from headway_agent.node import processes
from headway_agent.node.directory import boottime_s
from headway_agent.output.packs import output_sizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable

    from headway_agent.limits.rules import LimitVerdict, Watch

COUNTED = ("checkpoints", "output")
SIGNS = ("checkpoints", "output", "sdk")
ENTRIES_MAX = 200_000  # Of one look; a tree that is larger than this is counted as far as it was seen.


class UsageSampler:
    """The watches of this node. `found(watch, verdict)` is called on the thread that looks."""

    def __init__(self, directory_of: Callable[[str], str], found: Callable[[Watch, LimitVerdict], None]) -> None:
        self._directory_of, self._found = directory_of, found
        self._lock = threading.Condition()
        self._watches: dict[str, Watch] = {}
        self._thread: threading.Thread | None = None

    def watch(self, watch: Watch) -> None:
        with self._lock:
            self._watches[watch.task] = watch
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
                self._thread.start()

    def forget(self, task: str) -> Watch | None:
        with self._lock:
            watch = self._watches.pop(task, None)
            if watch is not None:
                self._lock.notify_all()
            return watch

    def _look(self) -> None:
        while True:
            with self._lock:
                watches = [watch for watch in self._watches.values() if not watch.ended]
                if not self._watches:
                    self._thread = None
                    return
            offspring = processes.offspring() if watches else {}
            for watch in watches:
                sample = take(watch, self._directory_of(watch.task), offspring)
                for verdict in rules.judge(watch, sample, boottime_s()):
                    self._found(watch, verdict)
            pause_s = min([rules.period_s(watch) for watch in watches], default=rules.PERIOD_S)
            with self._lock:
                self._lock.wait(pause_s)


def take(watch: Watch, directory: str, offspring: dict[int, list[int]]) -> Sample:
    pids = processes.descendants(watch.pids, offspring)
    memory = sum(pss_bytes(pid) for pid in pids) if watch.memory_bytes_max else 0
    output = sum(_tree_bytes(f"{directory}/{name}")[0] for name in COUNTED) if watch.output_bytes_max else 0
    signs = None
    if watch.stalled_s:
        places = [_tree_bytes(f"{directory}/{name}") for name in SIGNS]
        signs = (output_sizes(directory), places, _written(watch, pids))
    return Sample(memory, output, signs)


def _written(watch: Watch, pids: Iterable[int]) -> int:
    """All that its processes have written so far. One that ends takes nothing back: that is not a sign of life."""
    seen = {pid: written_bytes(pid) for pid in pids}
    watch.written_bytes += sum(max(0, count - watch.written.get(pid, 0)) for pid, count in seen.items())
    watch.written = seen
    return watch.written_bytes


def pss_bytes(pid: int) -> int:
    """The memory of a process, with its share of what it shares."""
    for name, field in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        for line in _read(f"/proc/{pid}/{name}").splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0


def written_bytes(pid: int) -> int:
    for line in _read(f"/proc/{pid}/io").splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    return 0


def _tree_bytes(path: str) -> tuple[int, int, float]:
    """Bytes, entries and the newest time below a directory."""
    total, count, newest, queue = 0, 0, 0.0, [path]
    while queue and count < ENTRIES_MAX:
        try:
            with os.scandir(queue.pop()) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    count += 1
                    newest = max(newest, found.st_mtime)
                    if entry.is_dir(follow_symlinks=False):
                        queue.append(entry.path)
                    else:
                        total += found.st_size
        except OSError:
            continue  # Removed between two looks.
    return total, count, newest


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except (OSError, ValueError):
        return ""
