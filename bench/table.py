"""The result as a table in Markdown: what was measured, the number, the goal, and whether it was met."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    what: str
    measured: str
    value: float
    goal: float
    unit: str
    strict: bool = False  # The goal holds though it is 0, which else means that there is none.

    @property
    def cells(self) -> tuple[str, str, str, str]:
        if self.goal <= 0 and not self.strict:
            return self.what, self.measured, "–", "–"
        return self.what, self.measured, f"≤ {self.goal:g}{self.unit}", "yes" if self.value <= self.goal else "NO"


@dataclass(frozen=True)
class Measured:
    """One row: what was measured, the number with its unit, and the goal (0 for none; all goals are upper limits)."""

    what: str
    value: float
    unit: str
    goal: float = 0.0
    digits: int = 2


@dataclass
class Table:
    rows: list[Row] = field(default_factory=list)

    def ratio(self, what: str, ratio: float, wall_s: float, goal: float = 0.0) -> None:
        self.rows.append(Row(what, f"{ratio:.1f} × ({wall_s:.2f} s)", round(ratio, 1), goal, " ×"))

    def amount(self, what: str, value: float, unit: str, goal: float = 0.0, digits: int = 0) -> None:
        self.rows.append(Row(what, f"{value:.{digits}f}{unit}", value, goal, unit))

    def none(self, what: str, count: int) -> None:
        """What must not be there at all."""
        self.rows.append(Row(what, f"{count}", count, 0, "", strict=True))

    def markdown(self) -> str:
        head = ("", "measured", "goal", "met")
        lines = [head, ("---", "--:", "--:", ":-:"), *(row.cells for row in self.rows)]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"
