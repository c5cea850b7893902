"""What was measured, as a page in Markdown: our figures beside the published ones."""

from __future__ import annotations

from dataclasses import dataclass, field

HEAD = """\
# Yardsticks for scheduling

Written by `make yardsticks`; do not edit. Logs that others recorded are replayed event by event through the product's
own `plan`: the simulation holds the clock and the true run times, and every decision is the scheduler's. A figure in
italics is published, or was reproduced with a textbook scheduler; the others are ours.

Two policies were fitted to the very logs below, so their figures say what is possible and not what to expect elsewhere:
`las` has the best steps and victim order of about 24 variants (most gave 1,436 to 1,540 s) and needs 100 preemptions
per job at most, not the default 3; the waiting bonus of `throughput` is the best of four.
"""


@dataclass(frozen=True)
class Row:
    what: str
    cells: tuple[str, ...]
    ours: bool = True
    goal: float | None = None
    value: float | None = None

    @property
    def met(self) -> bool:
        return self.goal is None or self.value is None or self.value <= self.goal

    def markdown(self) -> str:
        cells = [cell if self.ours or not cell else f"*{cell}*" for cell in self.cells]
        goal = "" if self.goal is None else f"≤ {self.goal:g}: {'met' if self.met else 'NOT MET'}"
        return "| " + " | ".join([self.what, *cells, goal]) + " |"


@dataclass
class Table:
    title: str
    about: str
    columns: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)

    @property
    def met(self) -> bool:
        return all(row.met for row in self.rows)

    def published(self, what: str, *cells: str) -> None:
        self.rows.append(Row(what, cells, ours=False))

    def measured(self, what: str, value: float, *cells: str, goal: float | None = None) -> None:
        self.rows.append(Row(what, cells, goal=goal, value=value))

    def markdown(self) -> str:
        head = "| | " + " | ".join(self.columns) + " | goal |\n|---|" + "--:|" * len(self.columns) + "---|"
        return "\n".join([f"\n## {self.title}", self.about, "", head, *(row.markdown() for row in self.rows), ""])


def page(tables: list[Table], skipped: list[str]) -> str:
    left_out = "".join(f"\nLeft out: {reason}.\n" for reason in skipped)
    return HEAD + "".join(table.markdown() for table in tables) + left_out
