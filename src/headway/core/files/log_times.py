"""When the bytes of a log were written: marks of offset and time, kept short beside pieces that were joined of many.

A mark says that all bytes before an offset were written by a time; the mark before it, since when. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Mark = tuple[int, float]
"""The end of a piece of a stream, and when its last byte was written."""

MARKS_MAX = 500  # Of one joined piece.
APART_S = 1.0  # Marks that are nearer become one: nobody is shown more.
TICKS_PER_S = 10
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Thinning:
    """Of marks that are near each other the last: it holds for the bytes of all of them."""

    def __init__(self) -> None:
        self.kept: list[Mark] = []
        self._since = 0.0

    def add(self, marks: Iterable[Mark]) -> None:
        for end, at in marks:
            if self.kept and abs(round((at - self._since) * TICKS_PER_S)) < APART_S * TICKS_PER_S:
                self.kept[-1] = end, at
            else:
                self.kept.append((end, at))
                self._since = at


def packed(marks: Sequence[Mark]) -> str:
    """As a short text: each mark by what it is more than the one before it."""
    words, before_end, before_tick = [], 0, 0
    for end, at in marks:
        tick = round(at * TICKS_PER_S)
        words.append(f"{_digits(end - before_end)}:{_digits(tick - before_tick)}")
        before_end, before_tick = end, tick
    return " ".join(words)


def unpacked(text: str) -> list[Mark]:
    marks, end, tick = [], 0, 0
    for word in text.split():
        more, _, later = word.partition(":")
        end, tick = end + int(more, 36), tick + int(later, 36)
        marks.append((end, tick / TICKS_PER_S))
    return marks


def times_of(start: int, end: int, at: float, times: str) -> list[Mark]:
    """The marks of a piece, the last of which is its end. It may have been cut shorter than its marks say."""
    if not times:
        return [(end, at)]
    found: list[Mark] = []
    for mark, when in unpacked(times):
        if mark <= start:
            continue
        found.append((min(mark, end), when))
        if mark >= end:
            return found
    return [*found, (end, at)]


def _digits(number: int) -> str:
    sign, number = ("-", -number) if number < 0 else ("", number)
    told = ""
    while True:
        number, digit = divmod(number, 36)
        told = DIGITS[digit] + told
        if not number:
            return sign + told
