"""Bugs to plant where several servers share a store: like rules.py. For tests alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from headway.control.leader import cycle
from headway.control.leader.cycle import Cycle
from headway.control.leader.election import Leadership
from headway.control.state.transaction import Transaction
from headway.control.state.working_copy import WorkingCopy, read_book
from headway.sim.run import Result, run_seed
from headway.store.memory.store import MemoryStore
from tests.sim.planted.rules import _put

Plant = Callable[[], Iterator[None]]
PLANTS: dict[str, tuple[Plant, dict[str, float], bool, int]] = {}
SERVERS = 3


def plant(sentence: str, ordered: bool = False, first: int = 0, **weather: float) -> Callable[[Plant], Plant]:
    """As in rules.py; `first` is the seed to begin with, for a bug that shows seldom."""

    def keep(make: Plant) -> Plant:
        PLANTS[sentence] = (make, weather, ordered, first)
        return make

    return keep


def caught(sentence: str, seeds: int) -> Result | None:
    """The first of so many seeds in which the judge notices the planted bug."""
    make, _, _, first = PLANTS[sentence]
    with contextmanager(make)():
        return next((result for seed in range(first, first + seeds) if (result := run(sentence, seed)).kind), None)


def run(sentence: str, seed: int) -> Result:
    """One seed in the weather in which this bug shows, with the bug or without it."""
    _, weather, ordered, _ = PLANTS[sentence]
    return run_seed(seed, weather, ordered, SERVERS)


@plant("writes are not guarded by the leader's epoch", server_sleeps_per_hour=120.0)
def _no_epoch() -> Iterator[None]:
    def commit(self: MemoryStore, batch: Any, epoch: int | None = None) -> Any:
        return old(self, batch, None)

    old = MemoryStore.commit
    with _put(MemoryStore, "commit", commit):
        yield


@plant("the lease is compared with the server's own clock", server_dies_per_hour=60.0)
def _own_clock() -> Iterator[None]:
    class OwnClock:
        def __init__(self, store: Any, now: Callable[[], float]) -> None:
            self.store, self.now = store, now

        def __getattr__(self, name: str) -> Any:
            return getattr(self.store, name)

        def glance(self) -> Any:
            return replace(self.store.glance(), now=self.now())

        def take_lead(self, server: str, address: str, now: float | None, lease_s: float) -> Any:
            return self.store.take_lead(server, address, self.now(), lease_s)

        def keep_lead(self, server: str, epoch: int, now: float | None, lease_s: float) -> Any:
            return self.store.keep_lead(server, epoch, self.now(), lease_s)

    def begin(self: Leadership, store: Any, *more: Any, **named: Any) -> None:
        old(self, OwnClock(store, named["now"]), *more, **named)

    old = Leadership.__init__
    with _put(Leadership, "__init__", begin):
        yield


@plant("an epoch is given twice", server_dies_per_hour=120.0)
def _same_epoch() -> Iterator[None]:
    def take_lead(self: MemoryStore, *more: Any) -> Any:
        lead = old(self, *more)
        if lead is not None:
            self._lead = lead = type(lead)(lead.server, max(1, lead.epoch - 1), lead.until, lead.address)
        return lead

    old = MemoryStore.take_lead
    with _put(MemoryStore, "take_lead", take_lead):
        yield


@plant("a server that leads again does not read the store anew", server_sleeps_per_hour=120.0)
def _no_reload() -> Iterator[None]:
    books: dict[int, WorkingCopy] = {}

    def read(store: Any, *more: Any) -> WorkingCopy:
        known = books.get(id(store))
        if known is None or known.trail.store is not store:
            known = books[id(store)] = old(store, *more)
        return known

    old = read_book
    with _put(cycle, "read_book", read):
        yield


@plant("a leader whose lease is over goes on as if it led", database_cut_per_hour=120.0)
def _never_down() -> Iterator[None]:
    with _put(Leadership, "sure", lambda self, epoch: True), _put(Leadership, "_step_down", lambda self, why: None):
        yield


@plant("a new leader counts the silence before its time", server_dies_per_hour=60.0)
def _old_silence() -> Iterator[None]:
    def begin(self: Cycle, *more: Any) -> None:
        old(self, *more)
        for session in self.sessions.values():
            session.heard_at -= 10_000.0

    old = Cycle.__init__
    with _put(Cycle, "__init__", begin):
        yield


@plant("a change that was not saved is answered from memory", ordered=True, first=7, database_cut_per_hour=300.0)
def _from_memory() -> Iterator[None]:
    unasked = property(lambda self: False, lambda self, value: None)
    with _put(Cycle, "_not_in_doubt", lambda self, asks: asks), _put(Transaction, "must_lead", unasked):
        yield


@plant("nobody takes the place of a dead leader", server_dies_per_hour=120.0)
def _nobody() -> Iterator[None]:
    def look(self: Leadership) -> None:
        if self._store.glance().lead is None:
            old(self)

    old = Leadership._look
    with _put(Leadership, "_look", look):
        yield
