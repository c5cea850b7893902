"""The bytes of one file by offset, of which a look at its structure may read only so many.

What is asked for and not there says that the file is cut; asking for too much says that it cannot be told cheaply.
"""

from __future__ import annotations

import os

READ_BYTES_MAX = 96 << 20  # Over all looks at one file: more is not a cheap check.
HEAD_BYTES = 4096


class BrokenFile(Exception):
    """The structure says more than there is; the text says what."""


class UnsureFile(Exception):
    """It cannot be told cheaply."""


class Content:
    """A file's bytes by offset. What is asked for and not there is Broken; too much asked for is Unsure."""

    def __init__(self, fd: int, size: int, ending: str) -> None:
        self.fd, self.size, self.ending = fd, size, ending
        self._left = READ_BYTES_MAX
        self.head = self.some(0, HEAD_BYTES)

    def some(self, at: int, count: int) -> bytes:
        """As much of it as there is."""
        self._left -= max(count, 0)
        if self._left < 0:
            raise UnsureFile("too much to read")
        return os.pread(self.fd, count, at) if count > 0 and 0 <= at < self.size else b""

    def exactly(self, at: int, count: int) -> bytes:
        if at + count > self.size:
            raise BrokenFile(f"ends at {self.size} bytes; at least {at + count} are expected")
        found = self.some(at, count)
        if len(found) < count:
            raise BrokenFile("became shorter")
        return found
