"""The newest step and epoch that a job has printed, from its output as it comes.

Pure. Only whole lines count (`step 24` may be the beginning of `step 240`), and of each piece of output only the newest
are read: the words are looked for from its end, and a pattern sees no more than the lines that have one.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

LINE_BYTES_MAX = 4096
AROUND_BYTES = 300  # Of a very long line: so much before and after the word.
TRIES_MAX = 48  # Lines with the word, but without a step, before the rest of a piece is given up.
BARS_MAX = 8
BAR = "bar of "  # Bars without a label are units too, by their ends: one of them is found to count the checkpoints.
DIGITS_MAX = {"step": 12, "epoch": 7}  # More are seconds since 1970.
WORDS = {b"step": "step", b"iter": "step", b"epoch": "epoch"}

_SAID = re.compile(
    rb"""(?<![a-z0-9_/.\-])
    (?:(?:trainer|train|training|progress)[/.])?
    (?:(?:global|train|training|trainer|optimi[sz]er|opt|current|cur)[_\ -]?)?
    (?P<word>step|iteration|iter|epoch)
    ["']?\ {0,4}(?:[:=\#\[(]|(?<=["'\ ]))[\ :=\#\[("']{0,6}
    (?P<number>\d{1,3}(?:,\d{3})+|\d{1,12})(?:\.0+)?(?P<total>\ ?/\ ?\d+|\ of\ \d+)?
    (?!\S{0,80}\.(?:ckpt|pth?|h5|keras|pkl|bin|safetensors|npz)\b)  # A part of a file's name.
    (?![\d.,]*\d)(?![a-z%_])(?!\ ?(?:m?s|secs?|seconds?|min|minutes?|h|hours?|it/s|%)\b)""",
    re.VERBOSE,
)
# A step of something else, or one that is still to come.
_OTHER = re.compile(
    rb"(?<![a-z])(?:max|num|number|n|total|best|warm-?up|every|per|save|saving|log|logging|eval|evaluation|valid"
    rb"|validation|val|test|each|min|decay|lr|accumulation|for|until|first|to|size|starting)[ _:=-]{1,2}$"
)
_BAR = re.compile(rb"(?P<label>[^|]{0,60}?)\d{1,3}%\|[^|]*\| *(?P<number>\d{1,12})/(?P<total>\d{1,12}) \[\d\d:\d\d")
# `[24/100] loss=0.3` and no word for what it counts: only beside what a training tells, and if it never begins again.
_COUNT = re.compile(
    rb"\s{0,8}\[ {0,8}(?P<number>\d{1,12}) ?/ ?\d{1,12}\](?=.{0,200}?(?<![a-z])(?:loss|acc|accuracy|ppl)[ :=]{1,3}-?\d)"
)
_COLOURS = re.compile(rb"\x1b\[[0-9;]*[a-z]")


class PrintedSteps:
    def __init__(self) -> None:
        self.latest: dict[str, int] = {}
        self._rest = b""  # The line that has no end yet.
        self._restarts = False  # Its steps begin again in each epoch: they are none.
        self._bars: dict[str, int] = {}  # Bars without a label: how far each is; -1: it began again.

    def feed(self, data: bytes) -> None:
        """Take in what was printed since the last time, wherever it begins or ends."""
        data = self._rest + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        self._rest = data[end:][-LINE_BYTES_MAX:]
        lines = data[:end].lower()
        found: dict[str, tuple[int, int]] = {}  # By unit: where, and which.
        for word, unit in WORDS.items():
            newest = _newest(lines, word, unit)
            if newest is not None and newest > found.get(unit, (-1, 0)):
                found[unit] = newest
        if b"it/s" in lines or b"s/it" in lines:
            self._bar(lines, found)
        if not found and "epoch" not in self.latest and b"/" in lines:
            self._count(lines, found)
        self._take({unit: number for unit, (_, number) in found.items()})
        if self._rest.endswith(b"]") and (
            b"it/s" in self._rest or b"s/it" in self._rest
        ):  # A bar is drawn whole, and its line ended by the next one only.
            self._bar(self._rest.lower(), {"": (0, 0)})

    def _bar(self, lines: bytes, found: dict[str, tuple[int, int]]) -> None:
        """A progress bar whose label says that it counts the training's steps, or one without any."""
        at = max(lines.rfind(b"it/s"), lines.rfind(b"s/it"))
        line = _line(lines, at)[1]
        bar = _BAR.search(line)
        if bar is not None and not bar.group("label").strip():
            self._nameless(int(bar.group("number")), BAR + bar.group("total").decode())
        if bar is None or b"epoch" in line or found or "epoch" in self.latest:
            return
        if b"step" in bar.group("label") or b"train" in bar.group("label"):
            found["step"] = at, int(bar.group("number"))

    def _nameless(self, number: int, name: str) -> None:
        """A bar that begins again (an evaluation's, an epoch's) does not count the training's steps."""
        if name in self._bars or len(self._bars) < BARS_MAX:
            self._bars[name] = number if number >= self._bars.get(name, 0) >= 0 else -1
            self.latest.pop(name, None)
            if self._bars[name] >= 0:
                self.latest[name] = number

    def _count(self, lines: bytes, found: dict[str, tuple[int, int]]) -> None:
        """A count of so many at the beginning of a line. One that begins again counts something else."""
        for begin, line in _last_lines(lines):
            said = _COUNT.match(line)
            if said is not None:
                number = int(said.group("number"))
                self._restarts = self._restarts or number < self.latest.get("step", -1)
                found["step"] = begin, number
                return

    def _take(self, found: dict[str, int]) -> None:
        step, epoch = found.get("step", -1), found.get("epoch", -1)
        if "epoch" in self.latest and 0 <= step < self.latest.get("step", -1) and epoch > self.latest["epoch"]:
            self._restarts = True
        self.latest.update(found)
        if self._restarts:
            self.latest.pop("step", None)


def _newest(lines: bytes, word: bytes, unit: str) -> tuple[int, int] | None:
    """The newest number of this unit in whole lines, and where its line is."""
    before = len(lines)
    for _ in range(TRIES_MAX):
        at = lines.rfind(word, 0, before)
        if at < 0:
            return None
        before, line = _line(lines, at)
        number = _number(line, unit)
        if number is not None:
            return at, number
    return None


def _last_lines(lines: bytes) -> Iterator[tuple[int, bytes]]:
    """The newest lines, the last one first, and where each begins."""
    end = len(lines)
    for _ in range(TRIES_MAX):
        if end <= 0:
            return
        begin, line = _line(lines, end - 1)
        yield begin, line
        end = begin - 1


def _line(lines: bytes, at: int) -> tuple[int, bytes]:
    """The line around an offset, or what is near it, without colours; and where that begins."""
    first, last = max(0, at - AROUND_BYTES), min(len(lines), at + AROUND_BYTES)
    begin = max(lines.rfind(b"\n", first, at), lines.rfind(b"\r", first, at)) + 1 or first
    ends = [end for end in (lines.find(b"\n", at, last), lines.find(b"\r", at, last)) if end >= 0]
    return begin, _COLOURS.sub(b"", lines[begin : min(ends, default=last)])


def _number(line: bytes, unit: str) -> int | None:
    said: dict[str, re.Match[bytes]] = {}
    for found in _SAID.finditer(line):
        digits = len(found.group("number"))
        kind = "epoch" if found.group("word") == b"epoch" else "step"
        if digits <= DIGITS_MAX[kind] and not _OTHER.search(line, 0, found.start()):
            said.setdefault(kind, found)
    if unit not in said or (unit == "step" and "epoch" in said and said[unit].group("total")):
        return None  # `Epoch 3, Step 20/100`: the step is one of the epoch's.
    return int(said[unit].group("number").replace(b",", b""))
