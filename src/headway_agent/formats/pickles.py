"""Pickles without unpickling: where one ends, and what plain data is in it.

Nothing is ever imported or called, whatever a pickle asks for, and all work has a limit: the files are a job's, and
this runs in the agent. Who wants to know: file_formats.py (is it whole?) and saved_steps.py (which step is in it?).
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    Read = Callable[[int, int], bytes]  # At most so many bytes from an offset on; fewer only at the end.

WINDOW_BYTES = 64 << 10
STEPS_MAX = 200_000  # In Python, one by one: some tenths of a second.
WALK_BYTES_MAX = 8 << 20
LINE_BYTES_MAX = 1 << 20
INTEGER_BYTES_MAX = 20  # Longer ones are not steps, and slow to read.

PROTO, FRAME, STOP = 0x80, 0x95, 0x2E
_PLAIN = rb"()\]}NQRabdelost0-2u\x81\x85-\x89\x8f-\x94\x97\x98"
_SHORT = [(b"\\x%02x" % length, b".{%d}" % length) for length in range(32)]
_SHORT_1 = b"|".join(length + text for length, text in _SHORT)
_SHORT_4 = b"|".join(length + rb"\0\0\0" + text for length, text in _SHORT)
_RUN = re.compile(  # Opcodes whose length needs no arithmetic: thousands of them in one go.
    b"(?:[" + _PLAIN + rb"]|[Kqh\x82\x80].|[M\x83]..|[Jjr\x84].{4}|G.{8}"
    rb"|[U\x8cC\x8a](?:" + _SHORT_1 + b")|X(?:" + _SHORT_4 + rb")"
    rb"|[FILSVgpP][^\n]{0,99}\n|[ci][^\n]{0,99}\n[^\n]{0,99}\n)*",
    re.DOTALL,
)
_LENGTHS = {  # The size of the length in front of what follows.
    **dict.fromkeys(b"U\x8cC\x8a", 1),
    **dict.fromkeys(b"TXB\x8b", 4),
    **dict.fromkeys(b"\x8d\x8e\x96", 8),
}
_LINES = {**dict.fromkeys(b"FILSVgpP", 1), **dict.fromkeys(b"ci", 2)}


class Cut(Exception):
    """The data is over before the pickle is."""


class Odd(Exception):
    """It is not a pickle, or has something in between that is none."""

    def __str__(self) -> str:
        return "not only pickles"


class TooLong(Exception):
    """More work than is worth it."""

    def __str__(self) -> str:
        return "too long to walk"


# --- where a pickle ends --------------------------------------------------------------------------------------------


class Skim:
    """Walks over opcodes without following them; whole frames and long strings are leapt over."""

    def __init__(self, read: Read, size: int) -> None:
        self._read, self._size = read, size
        self._window, self._base = b"", 0
        self._steps = 0
        self._walked = 0

    def end(self, at: int) -> int:
        """The offset behind the STOP of the pickle that begins here."""
        while True:
            self._count()
            window = self._fill(at, 9)
            if at >= self._size:
                raise Cut
            behind = self._base + _RUN.match(window, at - self._base).end()  # type: ignore[union-attr]
            self._walked += behind - at
            if behind > at:
                at = behind
                continue
            op = window[at - self._base]
            if op == STOP:
                return at + 1
            at = self._over_frame(at) if op == FRAME else self._over(op, at)

    def _over_frame(self, at: int) -> int:
        begin = at + 9
        length = int.from_bytes(self._bytes(at + 1, 8), "little")
        behind = begin + length
        if behind > self._size:
            raise Cut
        if behind == self._size:
            return begin  # The last one: its end must be a STOP, not a byte that looks like one.
        after = self._read(behind, 1)[0]
        if after == FRAME:
            return behind
        if after == PROTO:
            return begin
        if b"joblib" in self._read(max(begin, behind - 2048), min(length, 2048)):
            raise Odd  # It puts arrays between frames as they are.
        return behind

    def _over(self, op: int, at: int) -> int:
        """The offset behind one opcode that is not in a run."""
        if op in _LENGTHS:
            width = _LENGTHS[op]
            behind = at + 1 + width + int.from_bytes(self._bytes(at + 1, width), "little")
        elif op in _LINES:
            behind = at + 1
            for _ in range(_LINES[op]):
                behind = self._line_end(behind)
        elif _RUN.match(bytes([op]) + bytes(9)).end() > 0:  # type: ignore[union-attr]
            raise Cut  # Known, but its argument is not all there.
        else:
            raise Odd
        if behind > self._size:
            raise Cut
        return behind

    def _line_end(self, at: int) -> int:
        window = self._fill(at, 512)
        found = window.find(b"\n", at - self._base)
        if found < 0:
            window = self._fill(at, LINE_BYTES_MAX)
            found = window.find(b"\n", at - self._base)
            self._walked += len(window)
        if found < 0:
            raise Cut if at + LINE_BYTES_MAX > self._size else TooLong
        return self._base + found + 1

    def _bytes(self, at: int, count: int) -> bytes:
        window = self._fill(at, count)
        found = window[at - self._base : at - self._base + count]
        if len(found) < count:
            raise Cut
        return found

    def _fill(self, at: int, count: int) -> bytes:
        """A window that holds what comes at the offset, as far as the data goes."""
        if at > self._size:
            raise Cut
        ahead = self._base + len(self._window) - at
        if at < self._base or (ahead < count and self._base + len(self._window) < self._size) or ahead < 0:
            self._window, self._base = self._read(at, max(count, WINDOW_BYTES)), at
        return self._window

    def _count(self) -> None:
        self._steps += 1
        if self._steps > STEPS_MAX or self._walked > WALK_BYTES_MAX:
            raise TooLong
