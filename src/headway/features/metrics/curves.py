"""Points of one series as columns, thinned so that spikes survive. Touches nothing.

Of each bucket of neighbouring points stay the least, the greatest and the first NaN, where they stood; of all, the
first and the last. So a curve of a million points looks on two thousand as it did.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

NO_STEP = -(2**63)


@dataclass
class Points:
    """Columns of one length: steps (NO_STEP where none was told), times and values, in the order in which they came."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    at: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def __len__(self) -> int:
        return len(self.values)

    def add(self, step: int | None, at: float, value: float) -> None:
        self.steps.append(NO_STEP if step is None else step)
        self.at.append(at)
        self.values.append(value)

    def extend(self, other: Points) -> None:
        self.steps.extend(other.steps)
        self.at.extend(other.at)
        self.values.extend(other.values)

    def picked(self, places: Iterable[int]) -> Points:
        places = list(places)
        return Points(
            array("q", [self.steps[place] for place in places]),
            array("d", [self.at[place] for place in places]),
            array("d", [self.values[place] for place in places]),
        )


def thinned(points: Points, bucket: int) -> Points:
    """At most three of each so many neighbouring points, and the first and last of all."""
    count = len(points)
    if bucket <= 2 or count <= 2:
        return points
    values, kept = points.values, [0]
    for start in range(0, count, bucket):
        some = values[start : start + bucket].tolist()
        total = sum(some)
        if total != total:  # Not a number among them, or infinities of both signs.
            picked = _with_nans(some)
        else:
            low, high = some.index(min(some)), some.index(max(some))
            picked = [low, high] if low < high else [high, low] if high < low else [low]
        kept += [start + place for place in picked]
    kept.append(count - 1)
    return points.picked(dict.fromkeys(kept))


def _with_nans(some: list[float]) -> list[int]:
    numbers = [(value, place) for place, value in enumerate(some) if value == value]
    found = {place for place, value in enumerate(some) if value != value and place == _first_nan(some)}
    if numbers:
        found |= {min(numbers)[1], max(numbers, key=lambda each: (each[0], -each[1]))[1]}
    return sorted(found)


def _first_nan(some: list[float]) -> int:
    return next((place for place, value in enumerate(some) if value != value), -1)


def fitting(points: Points, most: int) -> Points:
    """All points, or as many as stand for them."""
    if len(points) <= most:
        return points
    return thinned(points, -(-len(points) * 2 // max(most, 4)))


def smoothed(values: Iterable[float], weight: float) -> list[float]:
    """The exponential moving average, without the pull of the first value; what is not finite passes as it is."""
    told: list[float] = []
    last = mass = 0.0
    for value in values:
        if value - value:  # NaN or an infinity.
            told.append(value)
            continue
        last = last * weight + (1 - weight) * value
        mass = mass * weight + (1 - weight)
        told.append(last / mass)
    return told
