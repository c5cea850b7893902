"""Simulated time: a heap of (time, sequence, thing to do), one source of chance, and a clock that jumps.

Nothing in the simulator asks another clock or another source of chance, so a seed gives the same story every time.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from random import Random
from typing import Any

Entry = tuple[float, int, Callable[..., None], tuple[Any, ...]]
STORY_MOST = 20_000


class World:
    """The clock, the chance, and the story of what really happened."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.now = 0.0
        self.steps = 0
        self.story: list[tuple[float, str, str]] = []  # When, about whom (a job, a node, "server"), what.
        self._heap: list[Entry] = []
        self._count = 0
        self._trace = hashlib.blake2b(digest_size=16)

    def at(self, when: float, do: Callable[..., None], *arguments: Any) -> None:
        self._count += 1
        heapq.heappush(self._heap, (max(when, self.now), self._count, do, arguments))

    def after(self, delay_s: float, do: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now + delay_s, do, *arguments)

    def run(self, until: float, done: Callable[[], bool] | None = None) -> bool:
        """Let things happen until then; says whether `done` (asked between two things, now and then) was reached."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            when, _, do, arguments = heapq.heappop(heap)
            self.now = when
            self.steps += 1
            do(*arguments)
            if done is not None and self.steps % 16 == 0 and done():
                return True
        self.now = until
        return done is not None and done()

    def happens(self, probability: float) -> bool:
        # No draw for what cannot happen: switching a fault off costs nothing.
        return probability > 0.0 and self.chance.random() < probability

    def between(self, least: float, most: float) -> float:
        return least + (most - least) * self.chance.random()

    def tell(self, about: str, what: str) -> None:
        """Add a line to the story. The trace is the digest of all lines: two runs of a seed must agree on it."""
        self._trace.update(f"{self.now:.6f} {about} {what}\n".encode())
        if len(self.story) < STORY_MOST:
            self.story.append((self.now, about, what))

    @property
    def trace(self) -> str:
        return self._trace.hexdigest()
