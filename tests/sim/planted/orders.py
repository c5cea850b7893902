"""Bugs to plant where nodes are ordered: like rules.py, for worlds with an ordered pool. For tests alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from headway.control.leader.cycle import Cycle
from headway.core.growth import grow
from headway.core.growth.demand import Fleet
from headway.sim.run import Result, run_seed
from tests.sim.planted.rules import _put

PLANTS: dict[str, Callable[[], Iterator[None]]] = {}


def plant(sentence: str) -> Callable[[Callable[[], Iterator[None]]], Callable[[], Iterator[None]]]:
    def keep(make: Callable[[], Iterator[None]]) -> Callable[[], Iterator[None]]:
        PLANTS[sentence] = make
        return make

    return keep


def caught(sentence: str, seeds: Iterable[int]) -> Result | None:
    """The first of these seeds in which the judge notices the planted bug."""
    with contextmanager(PLANTS[sentence])():
        return next((result for seed in seeds if (result := run_seed(seed, ordered=True)).kind), None)


@plant("nodes are given back under the tasks that run there")
def _under_tasks() -> Iterator[None]:
    def unused(order: Any, fleet: Any, demand: Any, upkeep: Any) -> bool:
        return not any(node in demand.used for node in order.node_ids)

    with _put(grow, "_unused", unused):
        yield


@plant("orders are not counted against the most that a pool may have")
def _uncounted() -> Iterator[None]:
    with _put(Fleet, "alive", property(lambda self: 0)):
        yield


@plant("a node that its platform has no longer is not told to leave")
def _stays() -> Iterator[None]:
    with _put(Cycle, "_unwanted", lambda self, session: False):
        yield
