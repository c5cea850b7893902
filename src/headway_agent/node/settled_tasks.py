"""Whether what a task left is on the disk for good, so that it may be kept after the machine was started anew.

A rank may end well and its files be in memory only; when the power goes then, they come back short or as zeros. So
what waits to be stored is brought to the disk, and noted. After a restart, only what was noted is believed.
"""

from __future__ import annotations

import os
import threading

from headway_agent.node import granted
from headway_agent.node.directory import NodeDir, sync_directory, write_durably

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

SETTLED = "settled"  # In a task's directory: all that it had written is on the disk.
TORN = "torn"  # The machine was started anew before that.
BOOT = "agent.boot"


class Settler:
    """Brings to the disk what tasks have left: on a thread of its own, for a disk may hang; many at once."""

    def __init__(self) -> None:
        self._due: list[str] = []
        self._at_work = False
        self._lock = threading.Lock()

    def ask(self, directory: str) -> None:
        """See to what the task in this directory has left. Nothing waits for it."""
        with self._lock:
            self._due.append(directory)
            if self._at_work:
                return
            self._at_work = True
        threading.Thread(target=self._work, name="settle", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                due, self._due = self._due, []
                if not due:
                    self._at_work = False
                    return
            settle(due)


def settle(directories: Iterable[str]) -> None:
    """Bring all that was written to the disk, and note it for these tasks."""
    fresh = [each for each in directories if not os.path.exists(os.path.join(each, SETTLED))]
    if fresh:
        os.sync()  # A task writes where it likes, and outside of its directory too.
    for directory in fresh:
        try:
            write_durably(os.path.join(directory, SETTLED), b"")
            sync_directory(directory)
        except OSError:
            pass  # A disk that is full, or a task that was forgotten meanwhile: then it is not noted.


def boot_noted(node_dir: NodeDir) -> str:
    """Which life of the machine this is. After a restart, what may not have reached the disk is marked first."""
    now, before = granted.boot_id(), _read(node_dir.file(BOOT))
    if before != now:
        for name in os.listdir(node_dir.file("tasks")) if before else ():
            directory = os.path.join(node_dir.file("tasks"), name)
            if not name.startswith(".") and not os.path.exists(os.path.join(directory, SETTLED)):
                write_durably(os.path.join(directory, TORN), b"")
        write_durably(node_dir.file(BOOT), now.encode())
    return now


def is_torn(directory: str) -> bool:
    return os.path.exists(os.path.join(directory, TORN))


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""
