"""A task's checkpoint directory on a simulated disk: its files, what they really hold, and who writes to them.

Nobody makes bytes: a file holds so much of a save of some step, and is whole or is not. The kernel's events go to the
agent that watches, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headway.sim.node import file_news

if TYPE_CHECKING:
    from headway.sim.node.machine import Process
    from headway_agent.checkpoints.completeness import Signature

BYTES = 1000  # Of each whole file: what is saved again and again has the same size each time.


class HeldFile(NamedTuple):
    """What a file really holds: a save of this step, and whether all of it."""

    step: int
    whole: bool


@dataclass
class File:
    inode: int
    held: HeldFile
    size: int = 0
    changed_s: float = 0.0
    writer: Process | None = None

    @property
    def signature(self) -> Signature:
        return (self.size, int(self.changed_s * 1000) * 1_000_000, self.inode)


@dataclass
class Directory:
    files: dict[str, File] = field(default_factory=dict)
    declared: list[tuple[str, int, int]] = field(default_factory=list)  # As the SDK writes it: path, step, newest time.
    inodes: int = 0
    tell: Callable[[str, str], None] = lambda what, path: None  # The kernel's word to who watches: what, and where.

    def tree(self) -> dict[str, Signature]:
        return {path: file.signature for path, file in self.files.items()}

    def put(self, path: str, held: HeldFile, now: float) -> None:
        """A file that was there before anybody watched: from a restore."""
        self.inodes += 1
        self.files[path] = File(self.inodes, held, BYTES, now)

    def write(self, path: str, step: int, writer: Process, takes: Iterator[float], now: Now) -> Iterator[float]:
        """Write a file in place, bit by bit, and close it. Yields how long each bit takes."""
        file = self._open(path, HeldFile(step, False), writer, now())
        for pause_s in takes:
            yield pause_s
            file.size, file.changed_s = file.size + 1, now()
            self.tell(file_news.WRITTEN, path)
        file.size, file.held = BYTES, HeldFile(step, True)
        self._close(path, file)

    def grow(self, path: str, step: int, writer: Process, takes: Iterator[float], now: Now) -> Iterator[float]:
        """Append a record to a file that stays open."""
        file = self.files.get(path)
        if file is None or file.writer is not writer:
            file = self._open(path, file.held if file else HeldFile(0, True), writer, now(), anew=False)
        for pause_s in takes:
            yield pause_s
            file.size, file.changed_s, file.held = file.size + BYTES // 10, now(), HeldFile(file.held.step, False)
            self.tell(file_news.WRITTEN, path)
        file.held = HeldFile(step, True)

    def rename(self, draft: str, path: str) -> None:
        self.files[path] = self.files.pop(draft)
        self.tell(file_news.MOVED, path)

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def make(self, folder: str) -> None:
        self.tell(file_news.MADE, folder)

    def died(self, writer: Process) -> None:
        """The kernel closes what a process leaves open, and says so as of any other close."""
        for path, file in self.files.items():
            if file.writer is writer:
                self._close(path, file)

    def _open(self, path: str, held: HeldFile, writer: Process, now: float, anew: bool = True) -> File:
        file = self.files.get(path)
        new = file is None
        if file is None:
            self.inodes += 1
            file = self.files[path] = File(self.inodes, held)
        if anew:
            file.size, file.held = 0, held
        file.writer, file.changed_s = writer, now
        self.tell(file_news.APPEARED if new else file_news.WRITTEN, path)
        return file

    def _close(self, path: str, file: File) -> None:
        file.writer = None
        self.tell(file_news.CLOSED, path)


Now = Callable[[], float]
