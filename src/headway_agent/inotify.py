"""Seeing what happens in directories: one inotify instance for the whole node, through libc.

Says which task's directory something happened in, and what. Where the kernel gives no (more) watches, `watch` says so,
and checkpointing.py looks now and then instead. file_events.py reads what is seen.
"""

from __future__ import annotations

import os
import struct
import threading
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

IN_MODIFY, IN_CLOSE_WRITE, IN_MOVED_TO, IN_CREATE = 0x2, 0x8, 0x80, 0x100
IN_Q_OVERFLOW, IN_IGNORED, IN_ISDIR = 0x4000, 0x8000, 0x40000000
IN_ONLYDIR, IN_DONT_FOLLOW, IN_CLOEXEC, IN_NONBLOCK = 0x01000000, 0x02000000, 0x80000, 0x800
DEEP = IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE
SHALLOW = IN_MOVED_TO | IN_CREATE
HEAD = struct.Struct("iIII")
DIRECTORIES_MAX = 4096  # Of one task. What lies in more of them is found by looking.

# FOUND: a file that lay in a new directory before it could be watched; perhaps its close was missed.
MOVED, WRITTEN, CLOSED, APPEARED, FOUND, MISSED = "moved", "written", "closed", "appeared", "found", "missed"


@dataclass(frozen=True)
class Seen:
    task: str
    place: str  # checkpoints, sdk or output
    what: str
    path: str = ""  # Relative to the place.


class Watcher:
    def __init__(self) -> None:
        self.fd = -1
        self._libc: Any = None
        self._lock = threading.RLock()  # Watches are added by the agent's loop, events read by another thread.
        self._places: dict[int, tuple[str, str, str, str]] = {}  # task, place, its directory, path in it
        self._of_task: dict[str, set[int]] = {}

    def open(self) -> bool:
        if self.fd >= 0:
            return True
        import ctypes  # Here: a node whose tasks are all short never needs it.

        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            self.fd = self._libc.inotify_init1(IN_NONBLOCK | IN_CLOEXEC)
        except AttributeError:
            self.fd = -1
        return self.fd >= 0

    def watch(self, task: str, place: str, directory: str) -> bool:
        """Watch a task's directory; the checkpoints' one with all that is below it."""
        with self._lock:
            if not self.open() or not self._add(task, place, directory, ""):
                return False
            return self._add_below(task, directory, "") if place == "checkpoints" else True

    def _add_below(self, task: str, directory: str, path: str) -> bool:
        fine = True
        try:
            with os.scandir(os.path.join(directory, path)) as entries:
                inside = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return True  # Gone again.
        for name in inside:
            below = f"{path}/{name}" if path else name
            fine = self._add(task, "checkpoints", directory, below) and self._add_below(task, directory, below) and fine
        return fine

    def _add(self, task: str, place: str, directory: str, path: str) -> bool:
        mine = self._of_task.setdefault(task, set())
        if len(mine) >= DIRECTORIES_MAX:
            return False
        mask = (DEEP if place == "checkpoints" else SHALLOW) | IN_ONLYDIR | IN_DONT_FOLLOW
        number = self._libc.inotify_add_watch(self.fd, os.fsencode(os.path.join(directory, path)), mask)
        if number < 0:
            return not os.path.isdir(os.path.join(directory, path))
        self._places[number] = (task, place, directory, path)
        mine.add(number)
        return True

    def drop(self, task: str) -> None:
        with self._lock:
            for number in self._of_task.pop(task, ()):
                self._places.pop(number, None)
                self._libc.inotify_rm_watch(self.fd, number)

    def read(self) -> list[Seen]:
        """What has happened since the last call. New subdirectories are watched from here on."""
        try:
            data = os.read(self.fd, 1 << 16)
        except OSError:
            return []
        with self._lock:
            return list(self._seen(data))

    def _seen(self, data: bytes) -> Iterator[Seen]:
        """Also what lies in directories that are only watched from now on."""
        position = 0
        while position + HEAD.size <= len(data):
            number, mask, _, length = HEAD.unpack_from(data, position)
            name = os.fsdecode(data[position + HEAD.size : position + HEAD.size + length].rstrip(b"\0"))
            position += HEAD.size + length
            if mask & IN_Q_OVERFLOW:
                yield from (Seen(task, "checkpoints", MISSED) for task in list(self._of_task))
            elif mask & IN_IGNORED:
                place = self._places.pop(number, None)
                if place is not None:
                    self._of_task.get(place[0], set()).discard(number)
            elif number in self._places and name:
                yield from self._one(number, mask, name)

    def _one(self, number: int, mask: int, name: str) -> Iterator[Seen]:
        task, place, directory, above = self._places[number]
        path = f"{above}/{name}" if above else name
        if mask & IN_MOVED_TO:
            yield Seen(task, place, MOVED, path)
        elif mask & IN_CLOSE_WRITE:
            yield Seen(task, place, CLOSED, path)
        else:
            yield Seen(task, place, APPEARED if mask & (IN_CREATE | IN_ISDIR) else WRITTEN, path)
        if place == "checkpoints" and mask & IN_ISDIR and mask & (IN_CREATE | IN_MOVED_TO):
            self._add(task, place, directory, path)
            self._add_below(task, directory, path)
            if not mask & IN_MOVED_TO:
                yield from (Seen(task, place, FOUND, each) for each in _files_below(directory, path))


def _files_below(directory: str, path: str) -> Iterator[str]:
    for above, _, names in os.walk(os.path.join(directory, path)):
        for name in names:
            yield os.path.relpath(os.path.join(above, name), directory)
