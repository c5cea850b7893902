"""The leader's time: the wall clock's when it began, counted on by a clock that nobody sets.

Time limits, claims and pauses before a retry are differences of two such times. Were they the wall clock's, a clock
that is set by an hour would end jobs before their time, or make them wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SLEW = 0.01  # How fast a wall clock that was set is followed: every limit is right to one percent meanwhile.


def boottime_s() -> float:
    """A clock that nobody sets, and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """Seconds since 1970 that never go back and never jump. For one thread."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = boottime_s) -> None:
        self._wall, self._steady = wall, steady
        self._looked_at = steady()
        self._offset_s = wall() - self._looked_at

    def __call__(self) -> float:
        steady = self._steady()
        most = SLEW * max(0.0, steady - self._looked_at)
        self._looked_at = steady
        self._offset_s += min(most, max(-most, self._wall() - steady - self._offset_s))
        return steady + self._offset_s

    @property
    def behind_s(self) -> float:
        """How far the wall clock was set ahead (or, below zero, back) that is not made up for yet."""
        return self._wall() - self._steady() - self._offset_s
