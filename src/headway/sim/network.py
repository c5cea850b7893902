"""Calls between nodes, users and the server: lost on the way there or back, slow, repeated, late.

A caller gets one answer at most, and none after it has hung up. A request that is under way arrives all the same, at
whatever server is there by then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.sim.faults import Faults
from headway.sim.world import World

Answer = Callable[[Any], None]
Fail = Callable[[BaseException], None]
Arrive = Callable[[Answer, Fail], None]


class NoAnswer(Exception):
    """Nothing came back: the caller knows nothing about what the server took in."""


class SimCall:
    """One request with somebody who waits for its answer."""

    __slots__ = ("answered", "failed", "link", "open", "sent_at")

    def __init__(self, link: str, sent_at: float, answered: Answer, failed: Fail) -> None:
        self.link = link
        self.sent_at = sent_at
        self.answered = answered
        self.failed = failed
        self.open = True

    def hang_up(self) -> None:
        self.open = False


class Network:
    def __init__(self, world: World, faults: Faults) -> None:
        self.world = world
        self.faults = faults
        self._cut_until: dict[str, float] = {}

    def cut(self, link: str, for_s: float) -> None:
        self.world.tell(link, f"is cut off for {for_s:.1f} s")
        self._cut_until[link] = max(self._cut_until.get(link, 0.0), self.world.now + for_s)

    def heal(self) -> None:
        self._cut_until.clear()

    def call(self, link: str, arrive: Arrive, answered: Answer, failed: Fail, patience_s: float) -> SimCall:
        call = SimCall(link, self.world.now, answered, failed)
        self.world.after(patience_s, self._give_up, call)
        self._send(call, arrive)
        if self.world.happens(self.faults.repeated):
            self._send(call, arrive)
        return call

    def _send(self, call: SimCall, arrive: Arrive) -> None:
        if not self._lost(call.link, self.faults.lost):
            self.world.after(self._delay_s(), self._arrive, call, arrive)

    def _arrive(self, call: SimCall, arrive: Arrive) -> None:
        def answer(reply: Any) -> None:
            if not self._lost(call.link, self.faults.lost_back):
                self.world.after(self._delay_s(), self._come_back, call, call.answered, reply)

        def fail(error: BaseException) -> None:
            if not self._lost(call.link, self.faults.lost_back):
                self.world.after(self._delay_s(), self._come_back, call, call.failed, error)

        arrive(answer, fail)

    def _come_back(self, call: SimCall, take: Answer, what: Any) -> None:
        if call.open:
            call.open = False
            take(what)

    def _give_up(self, call: SimCall) -> None:
        if call.open:
            call.open = False
            call.failed(NoAnswer())

    def _lost(self, link: str, probability: float) -> bool:
        return self._cut_until.get(link, 0.0) > self.world.now or self.world.happens(probability)

    def _delay_s(self) -> float:
        if self.world.happens(self.faults.late):
            return self.world.between(5.0, 150.0)
        if self.world.happens(self.faults.slow):
            return self.world.between(0.1, 15.0)
        return self.world.between(0.001, 0.02)
