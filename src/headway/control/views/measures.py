"""How long the leader's work takes, counted in buckets: written by its thread alone, read by whoever shows it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@dataclass(slots=True)
class Histogram:
    """How many took how long. A reader may see one more in a bucket than in the sum: both are true a moment later."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    sum_s: float = 0.0

    def add(self, took_s: float) -> None:
        self.counts[bisect_left(BOUNDS_S, took_s)] += 1
        self.sum_s += took_s


@dataclass(frozen=True, slots=True)
class Measures:
    turns: Histogram = field(default_factory=Histogram)  # From a turn's begin to its commit.
    syncs: Histogram = field(default_factory=Histogram)  # From an agent's call to the moment its news are saved.
