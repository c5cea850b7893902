"""What a test process starts for all its tests ends with the last of them: xdist's workers run no atexit functions."""

from __future__ import annotations

from collections.abc import Callable

_ends: list[Callable[[], object]] = []


def at_the_end(end: Callable[[], object]) -> None:
    """Call this when the tests of this process are over, the last one first."""
    _ends.append(end)


def end_all() -> None:
    while _ends:
        _ends.pop()()
