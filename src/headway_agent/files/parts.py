"""Cutting files into parts and sending only what is new.

A part is at most 4 MiB of one file, named by its sha256; new parts lie one after the other in objects of up to 64 MiB,
so 10,000 small files are a few objects. One thread reads and hashes, one writes, one syncs (or sends) what is written.
"""

from __future__ import annotations

import os
import queue
import stat
import threading

from headway_agent.objects import direct_io
from headway_agent.objects.folder import StoreFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from typing import Any, Callable, Container, Mapping

    from headway_agent.checkpoints.completeness import Signature
    from headway_agent.objects.folder import Draft, Objects

    Part = dict[str, Any]  # key, offset, size, sha256
    Place = tuple[str, int, int]  # key, offset, size

SMALL_PART_BYTES = 1 << 20
PART_BYTES_MAX = 4 << 20
LARGE_FILE_BYTES = 4 << 30
BUFFERS = 8  # Each as large as one part: small enough to be hashed and written while still in the processor's cache.
UNFINISHED_MAX = 2  # Objects that are written but not yet durable; over HTTP each is held in memory.
ALONE_BYTES_MAX = 4 << 20  # Up to this the reading thread itself writes: others would cost more than they save.


class Changed(Exception):
    """A file is not, or no longer, what the look at the directory had found."""


def part_bytes(size: int) -> int:
    return SMALL_PART_BYTES if size <= LARGE_FILE_BYTES else PART_BYTES_MAX


class Known:
    """Parts that lie in storage, by their hash; and for unchanged files, by path and signature."""

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}
        self.files: dict[str, tuple[Signature, list[Part]]] = {}
        self.on_stored: Callable[[dict[str, Place]], None] = lambda places: None  # An object is durable, with these.

    def has(self, name: str, signature: Signature, only_known: Container[str]) -> bool:
        """Whether this can be stored: what is only known as it was needs its parts in storage."""
        return name not in only_known or self.files.get(name, ((), []))[0] == signature

    def take(self, files: Mapping[str, tuple[Signature, list[Part]]]) -> None:
        """From here on only what these files are made of counts as known: older parts may be collected."""
        self.files = dict(files)
        self.places = {
            part["sha256"]: (part["key"], part["offset"], part["size"]) for _, parts in files.values() for part in parts
        }


class PartSender:
    """Sends the files of one snapshot. Use it once: `file` for each, then `close`."""

    def __init__(self, objects: Objects, prefix: str, known: Known, total_bytes: int) -> None:
        import hashlib  # Here: it costs 4 MB, which a node that never sees a checkpoint need not pay.

        self._sha256 = hashlib.sha256
        self._objects = objects
        self._prefix = prefix
        self._known = known
        self._fresh: dict[str, Place] = {}
        self._in_object: dict[str, dict[str, Place]] = {}  # The same by the object that they are in.
        self._number = 0
        self._offset = 0
        self._writer = _Writer(objects, total_bytes > ALONE_BYTES_MAX, self._stored)
        self._buffer_bytes = min(part_bytes(total_bytes), max(total_bytes, 1))
        try:
            self._buffer = self._writer.buffer(self._buffer_bytes)
        except OSError:  # No memory: nobody else would end its threads.
            self._writer.abandon()
            raise
        self._begin = self._fill = 0
        self.sent_bytes = 0
        self.read_bytes = 0

    def file(self, path: str, name: str, signature: Signature, of_source: Signature | None = None) -> list[Part]:
        """The parts of one file, with those sent that are nowhere yet. It may be read from a copy, which has its own
        signature."""
        cached = self._known.files.get(name)
        if cached is not None and cached[0] == signature:
            return cached[1]
        signature = of_source or signature
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise Changed(f"{name}: {error.strerror}") from None
        try:
            _check(fd, name, signature)
            parts = self._cut(fd, name, signature[0])
            _check(fd, name, signature)  # Nobody wrote to it while we read.
        except OSError as error:
            raise Changed(f"{name}: {error.strerror}") from None
        finally:
            os.close(fd)
        return parts

    def _cut(self, fd: int, name: str, size: int) -> list[Part]:
        parts: list[Part] = []
        each, left = part_bytes(size), size
        while left:
            want = min(each, left)
            view = self._room(want)
            have = 0
            while have < want:
                count = os.readv(fd, [view[have:]])
                if not count:
                    raise Changed(f"{name} is shorter than it was")
                have += count
            digest = self._sha256(view).hexdigest()
            view.release()
            key, offset, length = self._place(digest, want)
            parts.append({"key": key, "offset": offset, "size": length, "sha256": digest})
            left -= want
        self.read_bytes += size
        return parts

    def _room(self, want: int) -> memoryview:
        if self._fill + want > len(self._buffer):
            self._round_up()
            self._push()
            self._buffer = self._writer.buffer(self._buffer_bytes)
            self._begin = self._fill = 0
        return memoryview(self._buffer)[self._fill : self._fill + want]

    def _place(self, digest: str, size: int) -> Place:
        """Where this part lies. A new one stays in the buffer, to be written; a known one is overwritten there."""
        known = self._known.places.get(digest) or self._fresh.get(digest)
        if known is not None and known[2] == size:
            return known
        if self._offset + size > self._objects.object_bytes_max:
            self._push()
            self._finish()
        place = (f"{self._prefix}{self._number}", self._offset, size)
        self._fresh[digest] = place
        self._in_object.setdefault(place[0], {})[digest] = place
        self._fill += size
        self._offset += size
        self.sent_bytes += size
        return place

    def _round_up(self) -> None:
        """Let the next buffer begin at a block of the object: only so can it be written past the page cache."""
        gap = min(-self._offset % direct_io.BLOCK_BYTES, len(self._buffer) - self._fill)
        self._buffer[self._fill : self._fill + gap] = bytes(gap)
        self._fill += gap
        self._offset += gap

    def _push(self) -> None:
        if self._fill > self._begin:
            self._writer.write(self._buffer, self._begin, self._fill)
            self._begin = self._fill

    def _finish(self) -> None:
        if self._offset:
            self._writer.finish(f"{self._prefix}{self._number}")
            self._number += 1
            self._offset = 0

    def _stored(self, key: str) -> None:
        self._known.on_stored(self._in_object.pop(key, {}))

    def close(self) -> None:
        """All parts are durable when this returns."""
        self._push()
        self._finish()
        self._writer.close()
        self._objects.settle()

    def abandon(self) -> None:
        """Give up; what is whole in storage is remembered, so that the next try goes on from there."""
        finished = self._writer.abandon()
        for digest, place in self._fresh.items():
            if place[0] in finished:
                self._known.places[digest] = place


class _Writer:
    """Writes buffers into objects, on a thread of its own where that is worth it."""

    def __init__(self, objects: Objects, threaded: bool, on_stored: Callable[[str], None]) -> None:
        self._objects, self._on_stored = objects, on_stored
        self._draft: Draft | None = None
        self._finished: set[str] = set()
        self._problem: Exception | None = None
        self._buffers: list[mmap.mmap] = []
        self._users: dict[int, int] = {}
        self._free: queue.SimpleQueue[mmap.mmap] = queue.SimpleQueue()
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._written: queue.Queue[Any] = queue.Queue(UNFINISHED_MAX)
        self._thread: threading.Thread | None = None
        self._finishers: list[threading.Thread] = []
        if threaded:
            self._start(objects.in_flight)

    def _start(self, in_flight: int) -> None:
        """Start the threads. Where none can be had (the ranks took all processes there may be), the reader writes."""
        thread = threading.Thread(target=self._work, name="write parts", daemon=True)
        finishers = [
            threading.Thread(target=self._finish_all, name="sync parts", daemon=True) for _ in range(in_flight)
        ]
        try:
            for each in (*finishers, thread):
                each.start()
        except RuntimeError:
            for each in finishers:
                if each.is_alive():
                    self._written.put(None)
            return
        self._thread, self._finishers = thread, finishers

    def buffer(self, size: int) -> mmap.mmap:
        """A buffer that nobody reads from; the one that was handed out before goes back once it is written."""
        if self._buffers:
            self._jobs.put(("free", self._buffers[-1])) if self._thread else self._free.put(self._buffers[-1])
        if len(self._buffers) < (BUFFERS if self._thread else 1):
            self._buffers.append(_new_buffer(size))
            return self._buffers[-1]
        taken = self._free.get()
        self._buffers.remove(taken)
        self._buffers.append(taken)  # The last one is the one in use.
        return taken

    def write(self, buffer: mmap.mmap, begin: int, end: int) -> None:
        self._do(("write", buffer, begin, end))

    def finish(self, key: str) -> None:
        self._do(("finish", key))

    def _do(self, job: Any) -> None:
        if self._problem is not None:
            raise self._problem
        if self._thread is not None:
            self._jobs.put(job)
        else:
            self._perform(job)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            try:
                if self._problem is None or job[0] == "free":
                    self._perform(job)
            except Exception as error:
                self._problem = error

    def _perform(self, job: Any) -> None:
        if job[0] == "free":
            self._free.put(job[1])
        elif job[0] == "write":
            if self._draft is None:
                self._draft = self._objects.draft()
            with memoryview(job[1]) as whole, whole[job[2] : job[3]] as view:
                self._draft.write(view)
        elif self._draft is not None:
            draft, self._draft = self._draft, None
            if self._finishers:
                self._written.put((draft, job[1]))
            else:
                self._finish(draft, job[1])

    def _finish(self, draft: Draft, key: str) -> None:
        draft.finish(key)
        self._finished.add(key)
        self._on_stored(key)

    def _finish_all(self) -> None:
        """While one object becomes durable, the next one is being written: the disk never waits for the hash."""
        while True:
            job = self._written.get()
            if job is None:
                return
            try:
                if self._problem is None:
                    self._finish(*job)
                else:
                    job[0].drop()
            except Exception as error:
                self._problem = error

    def close(self) -> None:
        self._end()
        if self._problem is not None:
            raise self._problem

    def abandon(self) -> set[str]:
        self._end()
        if self._draft is not None:
            self._draft.drop()
        return self._finished

    def _end(self) -> None:
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None
        for _ in self._finishers:
            self._written.put(None)
        for thread in self._finishers:
            thread.join()
        self._finishers = []
        for buffer in self._buffers:
            _give_back(buffer)
        self._buffers = []


_spare: list[mmap.mmap] = []  # At most one: memory that is fresh costs more than reading a small checkpoint into it.


def _new_buffer(size: int) -> mmap.mmap:
    try:
        spare = _spare.pop()
    except IndexError:
        return direct_io.buffer(size)
    return spare if len(spare) >= size else direct_io.buffer(size)


def _give_back(buffer: mmap.mmap) -> None:
    if not _spare and len(buffer) == SMALL_PART_BYTES:
        _spare.append(buffer)
        return
    try:
        buffer.close()
    except BufferError:
        pass  # A view of it is in a traceback; it goes with that.


def signature_of(found: os.stat_result) -> Signature:
    return (found.st_size, found.st_mtime_ns, found.st_ino)


def _check(fd: int, name: str, signature: Signature) -> None:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or signature_of(found) != signature:
        raise Changed(f"{name} was changed")


def send_files(
    objects: Objects,
    prefix: str,
    directory: str,
    files: Mapping[str, Signature],
    known: Known,
    sources: Mapping[str, tuple[str, Signature | None]] | None = None,
) -> tuple[list[dict[str, Any]], int]:
    """Send what is new of these files. Returns the manifest's entries and how many bytes travelled.

    `sources`: what to read instead; copies with their own signatures.
    """
    sources = sources or {}
    fresh = sum(sign[0] for name, sign in files.items() if known.files.get(name, ((), []))[0] != sign)
    sender = PartSender(objects, prefix, known, fresh)
    entries: list[dict[str, Any]] = []
    try:
        for name in sorted(files):
            path = os.path.join(directory, name)
            path, of_source = sources.get(name, (path, None))
            found = _lstat(path, name)
            entry: dict[str, Any] = {"path": name, "size": files[name][0], "mode": stat.S_IMODE(found.st_mode)}
            if stat.S_ISLNK(found.st_mode):
                entry.update(size=0, parts=[], link=os.readlink(path))
            else:
                entry.update(mtime_ns=files[name][1], parts=sender.file(path, name, files[name], of_source))
            entries.append(entry)
        sender.close()
    except (StoreFailed, Changed, OSError):
        sender.abandon()
        raise
    return entries, sender.sent_bytes


def _lstat(path: str, name: str) -> os.stat_result:
    try:
        return os.lstat(path)
    except OSError as error:
        raise Changed(f"{name}: {error.strerror}") from None
