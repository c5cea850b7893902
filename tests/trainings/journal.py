"""What a training has written about itself, beside Headway (tests/scripts/trainings/diary.py), and what follows.

Nothing here asks Headway anything: the judge compares the two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Line:
    at: float
    attempt: int
    rank: int
    what: str  # began, told, step, saving, saved, torn, done, left
    step: int = 0
    hash: str = ""
    pid: int = 0
    node: str = ""
    why: str = ""


class Journal:
    """All lines so far, in the order in which they were written."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines

    @classmethod
    def read(cls, path: Path) -> Journal:
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return cls([])
        whole = text[: text.rfind(b"\n") + 1].splitlines()  # Who died while it wrote left half a line.
        return cls([Line(**json.loads(line)) for line in whole])

    def of(self, attempt: int, what: str = "") -> list[Line]:
        return [line for line in self.lines if line.attempt == attempt and what in ("", line.what)]

    def attempts(self, ranks: int = 1) -> list[int]:
        """Those in which every rank has begun."""
        began = {(line.attempt, line.rank) for line in self.lines if line.what == "began"}
        return sorted({attempt for attempt, _ in began if sum(each == attempt for each, _ in began) == ranks})

    def began(self, attempt: int) -> int:
        return max((line.step for line in self.of(attempt, "began")), default=0)

    def reached(self, attempt: int, by_s: float = float("inf")) -> int:
        """The newest step that it has done."""
        done = [line.step for line in self.of(attempt, "step") if line.at <= by_s]
        return max(done, default=self.began(attempt))

    def told(self, attempt: int) -> int:
        """The newest step that it has done and told of: all that it does after a step was done by then."""
        return max((line.step for line in self.of(attempt, "told") if line.rank == 0), default=self.began(attempt))

    def saves_by(self, by_s: float) -> set[int]:
        """The steps that were saved by anybody by that time."""
        return {line.step for line in self.lines if line.what == "saved" and line.at <= by_s}

    def ended_at(self, attempt: int) -> float:
        return max((line.at for line in self.of(attempt)), default=0.0)

    def saved(self, attempt: int | None = None, by_s: float = float("inf")) -> int:
        """The newest save that all who save had finished by that time, in this attempt or in any; 0 for none."""
        finished = [
            line for line in self.lines
            if line.what == "saved" and attempt in (None, line.attempt) and line.at <= by_s
        ]  # fmt: skip
        savers = {line.rank for line in self.lines if line.what == "saved"}
        newest = [max((line.step for line in finished if line.rank == rank), default=0) for rank in savers]
        return min(newest, default=0)

    def torn(self) -> list[Line]:
        return [line for line in self.lines if line.what == "torn"]

    def results(self) -> dict[int, str]:
        """What each rank ended with."""
        return {line.rank: line.hash for line in self.lines if line.what == "done"}

    def restored_states(self) -> list[tuple[Line, set[str]]]:
        """Each begin that was no fresh one, and the states that this rank has ever had at that step."""
        had: dict[tuple[int, int], set[str]] = {}
        for line in self.lines:
            if line.what == "step":
                had.setdefault((line.rank, line.step), set()).add(line.hash)
        return [
            (line, had.get((line.rank, line.step), set()))
            for line in self.lines
            if line.what == "began" and line.step and line.hash
        ]
