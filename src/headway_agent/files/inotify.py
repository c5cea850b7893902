"""Seeing what happens in directories: one inotify instance for the whole node, through libc.

Says which task's directory something happened in, and what. Where the kernel gives no (more) watches, `watch` says so,
and uploader.py looks now and then instead. file_events.py reads what is seen.
"""

from __future__ import annotations

import itertools
import os
import struct
import threading
from dataclasses import dataclass, replace

from headway_agent.checkpoints.roots import PREFIX, WORKDIR

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
FILES_FOUND_MAX = 20_000  # In one that is new in a working directory: data may have been unpacked there.

# MADE: a directory; to make one is not to write. FOUND: a file that lay in one before it could be watched; perhaps its
# close was missed.
MOVED, WRITTEN, CLOSED, APPEARED, MADE, FOUND = "moved", "written", "closed", "appeared", "made", "found"
MISSED = "missed"


@dataclass(frozen=True)
class SeenFile:
    task: str
    place: str  # checkpoints, sdk, output or workdir
    what: str
    path: str = ""  # Relative to the place; of the working directory with its prefix.


@dataclass(frozen=True)
class Watched:
    """Whose directory it is: one may be the working directory of several tasks."""

    task: str
    place: str
    top: str
    path: str  # Relative to the top.

    def inner(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name

    def seen(self, what: str, path: str) -> SeenFile:
        return SeenFile(self.task, self.place, what, PREFIX + path if self.place == WORKDIR else path)

    def follows(self, path: str) -> bool:
        """Whether a subdirectory is watched too."""
        if self.place != WORKDIR:
            return self.place == "checkpoints"
        from headway_agent.checkpoints import frameworks  # Here: most nodes need it late, if ever.

        return not frameworks.is_skipped(path)


class Watcher:
    def __init__(self) -> None:
        self.fd = -1
        self._libc: Any = None
        self._lock = threading.RLock()  # Watches are added by the agent's loop, events read by another thread.
        self._watched: dict[int, list[Watched]] = {}
        self._of_task: dict[str, set[int]] = {}
        self.printed: dict[str, tuple[int, int]] = {}  # By task: how much it had printed, and when that was (in ns).

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
        whole = Watched(task, place, directory, "")
        with self._lock:
            if not self.open() or not self._add(whole):
                return False
            return self._add_below(whole) if place == "checkpoints" else True

    def watch_one(self, task: str, place: str, directory: str, path: str) -> bool:
        """Watch one directory below another, and what is made in it from now on."""
        with self._lock:
            return self.open() and self._add(Watched(task, place, directory, path))

    def _add_below(self, above: Watched) -> bool:
        fine = True
        try:
            with os.scandir(os.path.join(above.top, above.path)) as entries:
                inside = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return True  # Gone again.
        for below in (replace(above, path=above.inner(name)) for name in inside):
            if above.follows(below.path):
                fine = self._add(below) and self._add_below(below) and fine
        return fine

    def _add(self, each: Watched) -> bool:
        mine = self._of_task.setdefault(each.task, set())
        if len(mine) >= DIRECTORIES_MAX:
            return False
        path = os.path.join(each.top, each.path)
        mask = (DEEP if each.place in ("checkpoints", WORKDIR) else SHALLOW) | IN_ONLYDIR
        mask |= 0 if each.place == WORKDIR else IN_DONT_FOLLOW  # A user's own folder may be a link to a larger disk.
        number = self._libc.inotify_add_watch(self.fd, os.fsencode(path), mask)
        if number < 0:
            return not os.path.isdir(path)
        owners = self._watched.setdefault(number, [])
        if each not in owners:
            owners.append(each)
        mine.add(number)
        return True

    def drop(self, task: str) -> None:
        with self._lock:
            for number in self._of_task.pop(task, ()):
                left = [each for each in self._watched.pop(number, ()) if each.task != task]
                if left:
                    self._watched[number] = left
                else:
                    self._libc.inotify_rm_watch(self.fd, number)

    def read(self) -> list[SeenFile]:
        """What has happened since the last call. New subdirectories are watched from here on."""
        try:
            data = os.read(self.fd, 1 << 16)
        except OSError:
            return []
        with self._lock:
            return list(self._seen(data))

    def _seen(self, data: bytes) -> Iterator[SeenFile]:
        """Also what lies in directories that are only watched from now on."""
        position = 0
        while position + HEAD.size <= len(data):
            number, mask, _, length = HEAD.unpack_from(data, position)
            name = os.fsdecode(data[position + HEAD.size : position + HEAD.size + length].rstrip(b"\0"))
            position += HEAD.size + length
            if mask & IN_Q_OVERFLOW:
                yield from (SeenFile(task, "checkpoints", MISSED) for task in list(self._of_task))
            elif mask & IN_IGNORED:
                for each in self._watched.pop(number, ()):
                    self._of_task.get(each.task, set()).discard(number)
            elif name:
                for each in list(self._watched.get(number, ())):
                    yield from self._one(each, mask, name)

    def _one(self, watched: Watched, mask: int, name: str) -> Iterator[SeenFile]:
        path = watched.inner(name)
        if mask & IN_MOVED_TO:
            yield watched.seen(MOVED, path)
        elif mask & IN_CLOSE_WRITE:
            yield watched.seen(CLOSED, path)
        else:
            made = MADE if mask & IN_ISDIR else APPEARED
            yield watched.seen(made if mask & (IN_CREATE | IN_ISDIR) else WRITTEN, path)
        if mask & IN_ISDIR and mask & (IN_CREATE | IN_MOVED_TO) and watched.follows(path):
            below = replace(watched, path=path)
            self._add(below)
            self._add_below(below)
            moved = bool(mask & IN_MOVED_TO)
            if not moved or watched.place == WORKDIR:
                what = MOVED if moved else FOUND
                found = _files_below(watched.top, path)
                if watched.place == WORKDIR:
                    found = itertools.islice(found, FILES_FOUND_MAX)
                yield from (watched.seen(what, each) for each in found)


def _files_below(directory: str, path: str) -> Iterator[str]:
    for above, _, names in os.walk(os.path.join(directory, path)):
        for name in names:
            yield os.path.relpath(os.path.join(above, name), directory)
