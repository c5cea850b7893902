"""Curves in a terminal, two by four dots a character. Touches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

Curve = Sequence[tuple[float, float]]
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def figure(value: float) -> str:
    """A number for people: six digits."""
    return f"{value:.6g}"


def plot(curve: Curve, width: int = 72, height: int = 15, title: str = "", axis: str = "step") -> str:
    """A curve with its axes; what is not finite is not drawn, but counted below."""
    finite = [(x, y) for x, y in curve if isfinite(x) and isfinite(y)]
    lines = [title] if title else []
    if not finite:
        return "\n".join([*lines, "nothing to draw: no value is finite" if curve else "nothing to draw"])
    left, right = min(x for x, _ in finite), max(x for x, _ in finite)
    low, high = min(y for _, y in finite), max(y for _, y in finite)
    labels = {0: figure(high), height // 2: figure((low + high) / 2), height - 1: figure(low)}
    margin = max(map(len, labels.values()))
    columns = max(width - margin - 2, 8)
    for number, row in enumerate(_drawn(finite, (left, right), (low, high), columns, height)):
        lines.append(f"{labels.get(number, ''):>{margin}} ┤{row}".rstrip())
    begin, end = figure(left), figure(right)
    lines.append(f"{'':>{margin}} └{'─' * columns}")
    lines.append(f"{'':>{margin}}  {begin}{axis:^{max(columns - len(begin) - len(end), len(axis))}}{end}")
    if len(finite) < len(curve):
        lines.append(f"{len(curve) - len(finite):,} values are not finite (NaN or infinity), and not drawn")
    return "\n".join(lines)


def _drawn(curve: Curve, across: tuple[float, float], up: tuple[float, float], columns: int, height: int) -> list[str]:
    cells = [[0] * columns for _ in range(height)]
    wide, tall = columns * 2 - 1, height * 4 - 1

    def place(x: float, y: float) -> tuple[int, int]:
        over = (x - across[0]) / (across[1] - across[0]) if across[1] > across[0] else 0.0
        above = (y - up[0]) / (up[1] - up[0]) if up[1] > up[0] else 0.5
        return round(over * wide), round((1 - above) * tall)

    before = None
    for x, y in curve:
        now = place(x, y)
        for column, row in _between(before or now, now):
            cells[row // 4][column // 2] |= DOTS[row % 4][column % 2]
        before = now
    return ["".join(chr(0x2800 + cell) if cell else " " for cell in row) for row in cells]


def _between(begin: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """The dots of a line; not backwards, where a curve begins anew at an earlier step."""
    across, down = end[0] - begin[0], end[1] - begin[1]
    if across < 0:
        return [end]
    most = max(across, abs(down), 1)
    return [(begin[0] + round(across * at / most), begin[1] + round(down * at / most)) for at in range(most + 1)]
