"""Bugs to plant where tasks wait behind others on a node: like planted.py, of which they are a part. For tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headway.core import lines
from headway.sim.planted import _put, plant
from headway_agent import lining


@plant("who waits behind a task begins although that one has not ended", floods=1.0)
def _jumps_the_line() -> Iterator[None]:
    def line(state: Any, task: Any, now: float) -> None:
        state.just_ended.append(task.duty["behind"])

    def turns(state: Any) -> list[Any]:
        found = [state.tasks[state.behind[key]] for key in state.just_ended if key in state.behind]
        state.just_ended = []
        for task in found:
            lining.leave(state, task)
            task.phase = vars(lining)["LINED"]
        return found

    with _put(lining, "line", line), _put(lining, "turns", turns):
        yield


@plant("a task that drops out of a line leaves those behind it where they were", floods=1.0, claim_refused=0.1)
def _broken_line() -> Iterator[None]:
    with _put(lines, "out_of_the_way", lambda before, after: False), _put(lining, "drop_out", lining.leave):
        yield
