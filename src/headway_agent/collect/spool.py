"""The file of a rank into which found points go, on their way to storage: appended to, and read back after a restart.

It is shipped like the rank's other output. Nothing is ever taken back from it: bytes may have been shipped already.
"""

from __future__ import annotations

import os

from headway_agent.collect.points import begin_line, offsets_in
from headway_wire.sync import COLLECTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway_agent.collect.points import Offsets

READ_BYTES = 4 << 20


class Spool:
    def __init__(self, directory: str, rank: int) -> None:
        self.path = f"{directory}/rank{rank}.{COLLECTED}"
        self._offsets: Offsets | None = None
        self._numbers = 0

    def taken(self, source: str) -> tuple[int, int] | None:
        """The identity of a source's file and how far it was read; None for one that has no place here yet."""
        known = self._known().get(source)
        return known and known[1:]

    def sources(self) -> list[str]:
        """All that have a place here, in the order in which they were found."""
        return sorted(self._known(), key=lambda source: self._known()[source][0])

    def number(self, source: str, identity: int) -> int:
        """The number of a source in lines; given here where it has none, or where its file is another one now."""
        known = self._known().get(source)
        if known is not None and known[1] == identity:
            return known[0]
        number = known[0] if known is not None else self._numbers + 1
        self.append(begin_line(number, identity, source))
        self._known()[source] = (number, identity, 0)
        self._numbers = max(self._numbers, number)
        return number

    def append(self, lines: bytes) -> None:
        if not lines:
            return
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                lines = b"\n" + lines  # Whoever wrote last was killed in a line: it must not spoil the next one.
            view = memoryview(lines)
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)

    def read_back(self) -> None:
        """What is known of it may be wrong: look into the file when it is next asked for."""
        self._offsets = None

    def _known(self) -> Offsets:
        if self._offsets is None:
            found: Offsets = {}
            try:
                with open(self.path, "rb") as file:
                    rest = b""
                    while True:
                        piece = file.read(READ_BYTES)
                        lines, _, rest = (rest + piece).rpartition(b"\n")
                        found = offsets_in(lines, found)
                        if not piece:
                            break
            except FileNotFoundError:
                pass
            self._offsets = found
            self._numbers = max([number for number, _, _ in found.values()], default=0)
        return self._offsets


def first_rank(directory: str) -> int:
    """The first rank of a task, by its output files."""
    names = [name.partition(".")[0][len("rank") :] for name in os.listdir(directory) if name.startswith("rank")]
    return min([int(name) for name in names if name.isdigit()], default=0)
