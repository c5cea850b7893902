"""Bugs to plant where tasks wait behind others on a node: like rules.py, of which they are a part. For tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headway.core.model import State
from headway.core.scheduling import waiting_lines
from headway_agent.decide import waiting_line
from tests.sim.planted.rules import _put, plant


@plant("who waits behind a task begins although that one has not ended", floods=1.0)
def _jumps_the_line() -> Iterator[None]:
    def line(state: Any, task: Any, now: float) -> None:
        state.just_ended.append(task.behind)

    def turns(state: Any) -> list[Any]:
        found = [state.tasks[state.behind[key]] for key in state.just_ended if key in state.behind]
        state.just_ended = []
        for task in found:
            waiting_line.leave(state, task)
            task.phase = vars(waiting_line)["LINED"]
        return found

    with _put(waiting_line, "line", line), _put(waiting_line, "turns", turns):
        yield


@plant("a task that drops out of a line leaves those behind it where they were", floods=1.0, claim_refused=0.1)
def _broken_line() -> Iterator[None]:
    with (
        _put(waiting_lines, "out_of_the_way", lambda before, after: False),
        _put(waiting_line, "drop_out", waiting_line.leave),
    ):
        yield


@plant("short jobs are put into a line though somebody goes before them", floods=1.5)
def _overtakes() -> Iterator[None]:
    with _put(waiting_lines.Firsts, "leave_room", lambda *_: True):
        yield


@plant("a line is kept though somebody more important waits for the place", floods=1.5)
def _kept_line() -> Iterator[None]:
    with _put(waiting_lines, "call_back", lambda *_: []):
        yield


@plant("a line is kept when the one before it is preempted", floods=2.0)
def _kept_under_preemption() -> Iterator[None]:
    called = waiting_lines.call_back

    def call_back(view: Any, now: float, ahead_s: float) -> list[Any]:
        stopped = {waiting_lines.key_of(job) for job in view.active.values() if job.state is State.STOPPING}
        found = called(view, now, ahead_s)
        return [each for each in found if view.lined[each].attempt.tasks[0].behind not in stopped]

    with _put(waiting_lines, "call_back", call_back):
        yield
