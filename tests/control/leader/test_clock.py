"""The leader's time neither jumps nor goes back when somebody sets the machine's clock."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from headway.control.jobs.commands import Submit
from headway.control.leader.clock import SLEW, SteadyClock
from headway.control.leader.cycle import Cycle
from headway.control.leader.thread import ControlThread
from headway.core.model import Pool
from headway.settings import Settings
from headway.store.memory.store import MemoryStore
from tests.builders import a_spec
from tests.waiting import wait_until

HOUR_S = 3600.0


class Machine:
    """Its wall clock can be set; its other clock counts on, in sleep too."""

    def __init__(self) -> None:
        self.up_s, self.set_s = 100.0, 1_000_000.0

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.up_s + self.set_s, lambda: self.up_s)


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S, 365 * 24 * HOUR_S])
def test_a_clock_that_is_set_is_followed_slowly(jump_s: float) -> None:
    machine = Machine()
    now = machine.clock()
    began = now()
    machine.set_s += jump_s
    assert now() == began
    assert now.behind_s == jump_s
    for _ in range(100):
        machine.up_s += 10.0
        now()
    assert abs(now() - began - 1000.0) <= 1000.0 * SLEW + 1e-6
    assert 0 < abs(now.behind_s) < abs(jump_s)


def test_it_catches_up_and_stays_there() -> None:
    machine = Machine()
    now = machine.clock()
    machine.set_s += 5.0
    machine.up_s += 1000.0
    assert now() == pytest.approx(machine.up_s + machine.set_s)
    assert now.behind_s == pytest.approx(0.0)


def test_a_machine_that_slept_has_the_wall_clock_s_time_when_it_wakes() -> None:
    machine = Machine()
    now = machine.clock()
    began = now()
    machine.up_s += HOUR_S
    assert now() == began + HOUR_S


def test_the_server_counts_on_and_says_that_its_clock_was_set() -> None:
    machine = Machine()
    settings = replace(Settings(), tick_every_s=0.02)
    cycle = Cycle(MemoryStore(), settings, [Pool("local", "local")], 0, time.monotonic(), lambda said: None)
    control = ControlThread(cycle, lambda: None, now=machine.clock())
    control.start()
    try:
        began = machine.up_s + machine.set_s
        machine.set_s += HOUR_S
        [job] = control.do(Submit((a_spec(),), "ada", lambda: "j1")).result(timeout=300)
        assert cycle.store.jobs([job])[0].submitted_at == began
        wait_until(lambda: "ahead of the server's time" in cycle.troubles.get("clock", ""), what="the notice")
        machine.set_s -= HOUR_S
        wait_until(lambda: "clock" not in cycle.troubles, what="the end of it")
    finally:
        control.stop()
