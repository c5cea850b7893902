"""Figures in tables and reports that frameworks write: `metrics.csv`, `results.csv`, `trainer_state.json`, hypertune.

Pure. Some of these files grow and some are written anew each time, so what counts as taken is rows, entries or times,
not bytes: `taken` is what the spool notes, and a reader that is made with it gives nothing twice.
"""

from __future__ import annotations

import csv
import json
import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

    from headway_agent.collect.points import Point

TABLES = ("metrics.csv", "results.csv", "progress.csv")
REPORT = "trainer_state.json"
COUNTS = ("step", "global_step", "iteration", "iter", "timesteps", "time/total_timesteps", "epoch")
UNTAKEN = frozenset((*COUNTS, "time", "timestamp", "wall_time", "wall time", "created_at"))
COLUMNS_MAX = 1000
FIELD_CHARS_MAX = 1000


class TableFile:
    """A table whose first line has the names. One that counts neither steps nor epochs does not tell of a training."""

    def __init__(self, taken: int = 0) -> None:
        self.taken = taken  # Rows.
        self.offset = 0
        self._head = b""
        self._names: list[str] = []
        self._separator = ","
        self._row = 0

    def begins_anew(self, beginning: bytes) -> bool:
        """Whether the file is another one by its first bytes: a new column makes writers write all of it again."""
        if self._head and not beginning.startswith(self._head):
            self.offset, self._head, self._names, self._row = 0, b"", [], 0
            return True
        return False

    def feed(self, data: bytes, at: float, final: bool = False) -> list[Point]:
        """Take the bytes that begin at `offset`; half a row is to be fed again, unless nothing follows."""
        end = len(data) if final else data.rfind(b"\n") + 1
        points: list[Point] = []
        lines = data[:end].decode("utf-8", "replace").splitlines()
        if lines and not self._head:
            self._read_head(data[: data.find(b"\n") + 1] or data, lines.pop(0))
        self.offset += end
        for fields in csv.reader(lines, delimiter=self._separator):
            if any(fields):
                self._row += 1
                if self._row > self.taken:
                    self.taken = self._row
                    self._read_row(fields, at, points)
        return points

    def _read_head(self, head: bytes, line: str) -> None:
        self._head = head
        self._separator = max(",;\t", key=line.count)
        names = [name.strip() for name in next(csv.reader([line], delimiter=self._separator), [])]
        self._names = names[:COLUMNS_MAX] if any(name.lower() in COUNTS for name in names) else []

    def _read_row(self, fields: list[str], at: float, points: list[Point]) -> None:
        row = {name: number for name, field in zip(self._names, fields) if (number := _number(field)) is not None}
        step = _step_of(row)
        points += [
            (name, value, step, at, self.taken) for name, value in row.items() if name and name.lower() not in UNTAKEN
        ]


class TrainerState:
    """The history in the Trainer's own file: each one that it writes has all entries, those of earlier attempts too."""

    def __init__(self, taken: int = 0, begun_at_step: int = -1) -> None:
        self.taken = taken  # Entries.
        self._begun_at_step = begun_at_step

    def read(self, content: bytes, at: float) -> list[Point]:
        try:
            history = json.loads(content)["log_history"]
            entries = [dict(entry) for entry in history]
        except (ValueError, KeyError, TypeError, RecursionError):
            return []  # Half written: there will be a whole one.
        points: list[Point] = []
        for number, entry in enumerate(entries[self.taken :], self.taken + 1):
            self.taken = number
            row = {str(name): float(value) for name, value in entry.items() if _is_number(value)}
            step = _step_of(row)
            if step is not None and step > self._begun_at_step:
                points += [(name, value, step, at, number) for name, value in row.items() if name not in UNTAKEN]
        return points


class HypertuneFile:
    """The last hundred reports of hypertune, written anew each time; each has a time of its own."""

    def __init__(self, taken: int = 0) -> None:
        self.taken = taken  # The newest time, in microseconds.

    def read(self, content: bytes) -> list[Point]:
        points: list[Point] = []
        for line in content.splitlines():
            try:
                said = json.loads(line)
                at = float(said["timestamp"])
                moment = int(at * 1e6)
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                continue
            if moment <= self.taken:
                continue
            self.taken = moment
            row = {name: number for name, value in said.items() if (number := _number(value)) is not None}
            row = {name: number for name, number in row.items() if name not in ("timestamp", "trial")}
            step = _step_of(row)
            points += [(name, value, step, at, moment) for name, value in row.items() if name not in UNTAKEN]
        return points


def _step_of(row: Mapping[str, float]) -> int | None:
    by_name = {name.lower(): value for name, value in row.items()}
    for name in COUNTS:
        value = by_name.get(name)
        if value is not None and math.isfinite(value) and value.is_integer():
            return int(value)
    return None


def _number(field: Any) -> float | None:
    if isinstance(field, str):
        if not field.strip() or len(field) > FIELD_CHARS_MAX:
            return None
    elif not _is_number(field):
        return None
    try:
        return float(field)
    except (ValueError, OverflowError):
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
