"""What a log counts: numbers that grow from line to line, and whether the next attempt goes on with them.

A line's shape is the line with its numbers left out; a number that only grows among the lines of one shape is a
counter. Words such as `step` and `epoch` before it make it a better one. Pure; client/rehearsal.py brings the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

LABELS = "global_step|step|iteration|iter|it|epoch|ep|batch|round|update|episode|generation|sample|token|example"
# Times and dates grow as well, whatever the script does.
CLOCK = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?)?|\d{1,3}:\d\d(?::\d\d)?(?:[.,]\d+)?")
# Who speaks is part of the line's shape: of several ranks in one log each counts for itself.
WHO = re.compile(r"(?:rank|gpu|worker|node|process|proc|device|cuda|pid|thread)[\s:=#_-]{0,3}\d+", re.IGNORECASE)
AS_LETTERS = str.maketrans("0123456789", "abcdefghij")
PAINT = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BAR = re.compile(r"[^\x00-\x7f]+|[#=>.-]{2,}")
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w]*[A-Za-z_]{3})|(?<=[A-Za-z_=\-])\d+")
LABEL = re.compile(rf"(?<![A-Za-z])({LABELS})s?[\"']?[\s=:#\[(_-]*$", re.IGNORECASE)
UNLABELLED_MAX = 10**9  # More is a time in seconds, or an address.
UNLABELLED_LINES_MIN = 3
LINE_CHARS_MAX = 2000
QUOTED_CHARS_MAX = 40
WORD_BEFORE = re.compile(r"\b[A-Za-z]\S*\s*$|\S+$")


@dataclass(frozen=True, slots=True)
class Reading:
    """One number of a line."""

    key: tuple[str, int]  # The line's shape, and which of its numbers.
    label: str
    value: float
    line: str
    at: int  # Where it stands in the line.

    @property
    def said(self) -> str:
        """As people would quote it: by its name, or with the word before it."""
        if self.label:
            return f"{self.label} {self.value:g}"
        before = WORD_BEFORE.search(self.line[: self.at])
        return f"{before[0] if before else ''}{self.line[self.at :].split()[0]}"[:QUOTED_CHARS_MAX]


@dataclass(frozen=True, slots=True)
class Count:
    """One counter in two attempts: where it began and came to, and where the next attempt took it up."""

    label: str
    began: float
    reached: float
    taken_up: float
    stride: float
    began_said: str
    taken_up_said: str

    @property
    def goes_on(self) -> bool:
        return self.taken_up > self.began

    @property
    def redone(self) -> int | None:
        """How much of what the first attempt had counted was counted once more; None where it counts in fractions."""
        lost = self.reached + self.stride - self.taken_up
        return max(0, int(lost)) if self.stride % 1 == 0 and lost % 1 == 0 else None


def lines_of(text: str) -> list[str]:
    """Whole lines; a progress bar's states are lines of their own."""
    return [line for line in re.split(r"[\r\n]+", text) if line.strip()]


def compare(before: Iterable[str], after: Iterable[str]) -> Count | None:
    """The counter that tells best whether the second log goes on where the first one was; None if none does."""
    return best(_compared(before, after))


def best(counts: Iterable[Count | None]) -> Count | None:
    """Of the counters of several logs, the one that tells best."""
    return max((count for count in counts if count is not None), key=_rank, default=None)


def _compared(before: Iterable[str], after: Iterable[str]) -> list[Count]:
    first = _by_key(before)
    taken_up: dict[tuple[str, int], Reading] = {}
    for reading in _readings(after):
        taken_up.setdefault(reading.key, reading)
    return [_count(first[key], taken_up[key]) for key in first if key in taken_up and _grows(first[key])]


def counts_at_all(lines: Iterable[str]) -> bool:
    return any(_grows(readings) for readings in _by_key(lines).values())


def _rank(count: Count) -> tuple[bool, bool, float]:
    """Named before nameless; then one that goes on: what begins anew beside it counts within an epoch, or time."""
    return bool(count.label), count.goes_on, count.reached - count.began


def _by_key(lines: Iterable[str]) -> dict[tuple[str, int], list[Reading]]:
    found: dict[tuple[str, int], list[Reading]] = {}
    for reading in _readings(lines):
        found.setdefault(reading.key, []).append(reading)
    return found


def _readings(lines: Iterable[str]) -> Iterable[Reading]:
    for raw in lines:
        line = CLOCK.sub("@", PAINT.sub("", raw[:LINE_CHARS_MAX]))
        line = WHO.sub(lambda found: found[0].translate(AS_LETTERS), line)
        shape = " ".join(BAR.sub("", NUMBER.sub("0", line)).split())
        for index, found in enumerate(NUMBER.finditer(line)):
            label = LABEL.search(line[: found.start()])
            yield Reading((shape, index), label[1].lower() if label else "", float(found[0]), line, found.start())


def _grows(readings: Sequence[Reading]) -> bool:
    values = [reading.value for reading in readings]
    if any(later < earlier for earlier, later in pairwise(values)) or values[-1] <= values[0]:
        return False
    if readings[0].label:
        return True
    whole = all(value % 1 == 0 and 0 <= value < UNLABELLED_MAX for value in values)
    return whole and len(values) >= UNLABELLED_LINES_MIN


def _count(readings: Sequence[Reading], taken_up: Reading) -> Count:
    values = [reading.value for reading in readings]
    stride = min(later - earlier for earlier, later in pairwise(values) if later > earlier)
    return Count(readings[0].label, values[0], values[-1], taken_up.value, stride, readings[0].said, taken_up.said)
