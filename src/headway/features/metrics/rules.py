"""What lines of points say, and what they make of the rows of series. Touches nothing.

A line is `{"s": step, "t": time, "m": {name: value}, "p": {parameter: value}, "f": source, "r": rank}`; all but one of
`m` and `p` may be left out. Or, as people write it: `{"step": 3, "loss": 0.1}`. What else stands in it is not ours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from headway.features.metrics.tables import STREAMS, Parameter, PointStream, Series

NAMES_MAX = 100_000  # Of one attempt, over all its ranks.
NAME_CHARS_MAX = 200  # A longer name ends in the hash of all of it.
PARAMETERS_MAX = 1_000
VALUE_CHARS_MAX = 500
SOURCE_CHARS_MAX = 20
NUMBER_CHARS_MAX = 40
RANK_MAX = 10**6
STEP_MAX = 2**62
LOGGED = "log"
Ref = tuple[int, str, str]
"""A series within its stream: rank, name, source."""

_INFINITY = float("inf")
_CONTROLS = dict.fromkeys((*range(32), 127), "�")


class Tally:
    """A row of a series while it grows."""

    __slots__ = (
        "at", "back", "changed", "count", "first_at", "first_step", "last", "last_step", "max", "max_step", "min",
        "min_step", "nans",
    )  # fmt: skip

    def __init__(self, row: Series | None = None) -> None:
        self.count = row.count if row else 0
        self.nans = row.nans if row else 0
        self.first_step = row.first_step if row else None
        self.last_step = row.last_step if row else None
        self.last = row.last if row else None
        self.min = row.min if row else None
        self.min_step = row.min_step if row else None
        self.max = row.max if row else None
        self.max_step = row.max_step if row else None
        self.first_at = row.first_at if row else 0.0
        self.at = row.at if row else 0.0
        self.back = row.back if row else 0
        self.changed = row is None

    def add(self, step: int | None, at: float, value: float) -> None:
        self.changed = True
        if not self.count:
            self.first_at, self.first_step = at, step
        self.count += 1
        self.at = at
        if step is not None:
            if self.last_step is not None and step < self.last_step:
                self.back += 1
            self.last_step = step
        if value != value:
            self.nans += 1
            self.last = None
            return
        self.last = value
        if self.min is None or value < self.min:
            self.min, self.min_step = value, step
        if self.max is None or value > self.max:
            self.max, self.max_step = value, step

    def row(self, job: str, attempt: int, task: int, ref: Ref) -> Series:
        return Series(
            job, attempt, task, *ref, self.count, self.nans, self.first_step, self.last_step, self.last, self.min,
            self.min_step, self.max, self.max_step, self.first_at, self.at, self.back,
        )  # fmt: skip


class Line:
    """What one line says."""

    __slots__ = ("at", "metrics", "params", "rank", "source", "step")

    def __init__(self, said: Mapping[str, Any], rank: int, at: float) -> None:
        metrics, params = said.get("m"), said.get("p")
        if isinstance(metrics, dict) or isinstance(params, dict):
            step, told_at, source = said.get("s"), said.get("t"), said.get("f", LOGGED)
        else:
            metrics = {name: value for name, value in said.items() if name not in ("step", "at")}
            step, told_at, source = said.get("step"), said.get("at"), LOGGED
        self.metrics: dict[str, Any] = metrics if isinstance(metrics, dict) else {}
        self.params: dict[str, Any] = params if isinstance(params, dict) else {}
        self.step = step if type(step) is int and -STEP_MAX <= step <= STEP_MAX else _whole(step)
        is_time = type(told_at) in (float, int) and 0.0 <= told_at < 1e11  # type: ignore[operator]
        self.at = float(told_at) if is_time else at  # type: ignore[arg-type]
        self.source = clean(source, SOURCE_CHARS_MAX) if isinstance(source, str) and source else LOGGED
        said_rank = said.get("r")
        self.rank = said_rank if type(said_rank) is int and 0 <= said_rank <= RANK_MAX else rank


def read_line(line: bytes, rank: int, at: float) -> Line | None:
    """What a line says; None where it says nothing."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return Line(said, rank, at) if isinstance(said, dict) else None


def lines_of(data: bytes, rank: int, at: Callable[[int], float]) -> Iterator[tuple[Line | None, int]]:
    """Each line that is not empty, with the byte at which the next one begins. `at` says when a byte came."""
    start = 0
    for raw in data.split(b"\n"):
        end = start + len(raw) + 1
        if raw.strip():
            yield read_line(raw, rank, at(start)), min(end, len(data))
        start = end


def number(value: Any) -> float | None:
    """A value as a float: a number, true or false, or a text that says a number. None for all else."""
    if type(value) is float:
        return value
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return _INFINITY if value > 0 else -_INFINITY
    if isinstance(value, str) and len(value) <= NUMBER_CHARS_MAX:
        try:
            return float(value)
        except ValueError:
            return None
    return None


def clean(name: str, most: int = NAME_CHARS_MAX) -> str:
    """A name as it is kept: without control characters, and no longer than a key may be."""
    if len(name) <= most and name.isprintable():
        return name
    plain = name.translate(_CONTROLS).encode("utf-8", "replace").decode()
    if len(plain) <= most:
        return plain
    return f"{plain[: most - 9]}…{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


def parameter(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= VALUE_CHARS_MAX else text[: VALUE_CHARS_MAX - 1] + "…"


def _whole(step: Any) -> int | None:
    """A step that was written as 3.0 is one; what is not whole is none."""
    if type(step) is float and step.is_integer() and abs(step) <= STEP_MAX:
        return int(step)
    return None


class Fold:
    """What the lines of an attempt make of its rows: `take` until there is enough, save the `rows`, then `saved`."""

    def __init__(
        self, job: str, attempt: int, streams: list[PointStream], rows: list[Series], params: list[Parameter]
    ) -> None:
        self.job, self.attempt = job, attempt
        self.streams = {STREAMS.key_of(each): each for each in streams}  # How far the rows know each.
        self.tallies: dict[tuple[int, Ref], Tally] = {
            (row.task, (row.rank, row.name, row.source)): Tally(row) for row in rows
        }
        self.params = {(each.name, each.source): each for each in params}
        self.fresh: list[tuple[int, Ref]] = []  # Series that have changed since the last `saved`.
        self.fresh_params: list[Parameter] = []
        self.points = self.unread = self.left_out = 0

    def take(self, line: Line | None, task: int) -> None:
        if line is None:
            self.unread += 1
            return
        step, at = line.step, line.at
        for name, value in line.metrics.items():
            read = value if type(value) is float else number(value)
            if read is None:
                self.unread += 1
                continue
            ref = (task, (line.rank, clean(name), line.source))
            tally = self.tallies.get(ref)
            if tally is None:
                if len(self.tallies) >= NAMES_MAX:
                    self.left_out += 1
                    continue
                tally = self.tallies[ref] = Tally()
                self.fresh.append(ref)
            elif not tally.changed:
                self.fresh.append(ref)
            tally.add(step, at, read)
            self.points += 1
        for name, value in line.params.items():
            self._take_param(clean(name), value, line)

    def _take_param(self, name: str, value: Any, line: Line) -> None:
        text, key = parameter(value), (name, line.source)
        known = self.params.get(key)
        if (known is None and len(self.params) >= PARAMETERS_MAX) or (known is not None and known.value == text):
            return
        made = self.params[key] = Parameter(self.job, self.attempt, name, line.source, text, line.at)
        self.fresh_params.append(made)

    def rows(self) -> list[Series]:
        return [self.tallies[ref].row(self.job, self.attempt, *ref) for ref in self.fresh]

    def saved(self, streams: Iterable[PointStream]) -> None:
        self.streams.update({STREAMS.key_of(each): each for each in streams})
        for ref in self.fresh:
            self.tallies[ref].changed = False
        self.fresh, self.fresh_params = [], []
        self.points = self.unread = self.left_out = 0
