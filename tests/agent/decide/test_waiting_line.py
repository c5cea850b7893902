"""Tasks that wait behind others on a node: who begins when, and what becomes of a line out of which one drops."""

from __future__ import annotations

from typing import Any

import pytest

from headway_agent.decide import decide as agent
from headway_agent.decide import waiting_line
from headway_agent.decide.decide import Exit, Go, Held, Hold, KeeperListed, Kept, NodeState, RankExited, Stop, TaskOver
from headway_agent.decide.state import ENDED, GOING, HOLDING, LINED, OVER, REFUSED, NodeTask
from tests.agent.decide.test_decide import a_duty, a_state, exchange, reported

A, B, C = "a/1/0", "b/1/0", "c/1/0"


def held(state: NodeState, key: str, now: float = 1.0) -> list[Any]:
    return agent.decide(state, Held(key, "10.0.0.1", 4000), now)


def ends(state: NodeState, key: str, now: float = 2.0) -> list[Any]:
    return agent.decide(state, RankExited(key, Exit(0, 0)), now) + agent.decide(state, TaskOver(key, {}), now)


def a_line() -> NodeState:
    """A runs; B waits behind it, and C behind B."""
    state = a_state()
    exchange(state, duties=[a_duty(task=A, go=True)])
    held(state, A)
    exchange(state, duties=[a_duty(task=B, behind=A), a_duty(task=C, behind=B)])
    for key in (B, C):
        assert held(state, key) == []
    return state


def begun(acts: list[Any]) -> list[str]:
    return [act.task for act in acts if isinstance(act, Go)]


def phases(state: NodeState) -> list[str]:
    return [state.tasks[key].phase for key in (A, B, C)]


def test_each_begins_when_the_one_before_it_has_ended_and_nobody_is_asked() -> None:
    state = a_line()
    assert phases(state) == [GOING, LINED, LINED]
    assert begun(ends(state, A)) == [B]
    assert begun(ends(state, B)) == [C]
    assert phases(state) == [ENDED, ENDED, GOING]
    assert not state.behind


def test_of_who_waits_in_line_nothing_is_told() -> None:
    state = a_line()
    state.full_due = True
    assert set(reported(state)) == {A}


def state_with_only_a() -> NodeState:
    state = a_state()
    exchange(state, duties=[a_duty(task=A, go=True)])
    held(state, A)
    return state


def test_the_end_and_the_begin_in_its_place_are_told_together() -> None:
    state = a_line()
    ends(state, A)
    told = reported(state)
    assert [(key, told[key]["phase"]) for key in (A, B)] == [(A, "ended"), (B, "running")]


def test_who_is_told_of_late_begins_at_once() -> None:
    state = state_with_only_a()
    ends(state, A)
    exchange(state, duties=[a_duty(task=B, behind=A)])
    assert begun(held(state, B)) == [B]


def test_who_is_not_at_the_keeper_yet_begins_when_it_is() -> None:
    state = state_with_only_a()
    _, acts = exchange(state, duties=[a_duty(task=B, behind=A)])
    assert [type(act) for act in acts] == [Hold]
    assert begun(ends(state, A)) == []
    assert begun(held(state, B)) == [B]


def test_without_a_lease_a_turn_that_comes_begins_nothing() -> None:
    state = a_line()
    assert begun(ends(state, A, now=1000.0)) == []
    assert phases(state)[1] == LINED
    acts = exchange(state, now=1001.0)[1]
    assert begun(acts) == [B]


def test_whoever_is_called_back_is_given_back_and_the_next_moves_up() -> None:
    state = a_line()
    _, acts = exchange(state, duties=[{"task": B, "do": "back"}])
    assert acts == [Stop(B, 0.0)]
    assert (state.tasks[B].phase, state.behind) == (REFUSED, {A: C})
    told = reported(state)[B]
    assert (told["phase"], told["cause"]) == ("refused", waiting_line.CALLED_BACK)
    assert begun(ends(state, A)) == [C]


def test_whoever_has_begun_is_not_called_back() -> None:
    state = a_line()
    ends(state, A)
    _, acts = exchange(state, duties=[{"task": B, "do": "back"}])
    assert acts == []
    assert state.tasks[B].phase == GOING


def test_a_call_back_of_what_never_came_here_is_answered_too() -> None:
    state = a_state()
    exchange(state, duties=[{"task": B, "do": "back"}])
    assert reported(state)[B]["cause"] == waiting_line.CALLED_BACK


def test_when_a_place_is_wanted_for_somebody_else_nobody_of_its_line_begins() -> None:
    state = a_line()
    stop = {"task": A, "do": "stop", "grace_s": 0.0, "cause": "preempted"}
    exchange(state, duties=[stop, {"task": B, "do": "back"}, {"task": C, "do": "back"}])
    assert begun(ends(state, A)) == []
    assert phases(state) == [ENDED, REFUSED, REFUSED]


def test_whoever_is_stopped_in_line_never_began_and_gives_nobody_a_place() -> None:
    state = a_line()
    _, acts = exchange(state, duties=[{"task": B, "do": "stop", "grace_s": 5.0, "cause": "cancelled"}])
    assert begun(acts) == []
    assert Stop(B, 0.0) in acts
    assert (phases(state)[2], state.behind) == (LINED, {A: C})
    assert begun(ends(state, A)) == [C]


@pytest.mark.parametrize("stopped_first", [True, False])
def test_behind_one_that_is_stopped_and_never_came_here_waits_for_the_servers_word(stopped_first: bool) -> None:
    """The server may have meant it to wait behind A: whether it had a place to give away, nobody here knows."""
    state = a_state()
    exchange(state, duties=[a_duty(task=A, go=True)])
    held(state, A)
    stop, claim = {"task": B, "do": "stop", "grace_s": 0.0, "cause": "cancelled"}, a_duty(task=C, behind=B)
    exchange(state, duties=[stop, claim] if stopped_first else [claim, stop])
    assert begun(held(state, C)) == []
    exchange(state, duties=[a_duty(task=C, behind=A)])
    assert begun(ends(state, A)) == [C]


def test_a_new_agent_lets_nobody_begin_behind_one_that_is_stopped_before_it_began() -> None:
    """It does not know of the line yet: whether that one waited in it, only the server does."""
    state = NodeState("n1", "local", agent_epoch=2, agent_version="v1")
    there = [Kept(A, "going"), *(Kept(key, "held", address="10.0.0.1", port=4000) for key in (B, C))]
    agent.decide(state, KeeperListed(there), 0.0)
    stop = {"task": B, "do": "stop", "grace_s": 0.0, "cause": "cancelled"}
    duties = [a_duty("go", task=A), stop, a_duty(task=C, behind=B)]
    _, acts = exchange(state, full=True, safe={key: {} for key in (A, B, C)}, duties=duties)
    assert (begun(acts), phases(state)) == ([], [GOING, ENDED, LINED])
    exchange(state, duties=[a_duty(task=C, behind=A)])
    assert begun(ends(state, A)) == [C]


def test_whoever_is_forgotten_in_line_gives_nobody_a_place() -> None:
    state = a_line()
    exchange(state, gone=[B])
    assert (B in state.tasks, state.behind) == (False, {A: C})


def test_behind_one_that_dropped_out_means_behind_the_one_before_it() -> None:
    state = a_line()
    exchange(state, duties=[{"task": C, "do": "back"}, {"task": B, "do": "back"}])
    exchange(state, duties=[a_duty(task="d/1/0", behind=C)])
    assert state.behind == {A: "d/1/0"}


def test_the_server_may_say_that_a_turn_has_come() -> None:
    state = a_line()
    _, acts = exchange(state, duties=[a_duty(task=B, go=True)])
    assert begun(acts) == [B]
    assert state.behind == {B: C}


def test_a_new_keeper_is_told_of_those_in_line_again() -> None:
    state = a_line()
    acts = agent.decide(state, KeeperListed([Kept(A, "going")]), 2.0)
    assert {act.task for act in acts if isinstance(act, Hold)} == {B, C}
    assert begun(acts) == []


def test_an_agent_that_starts_anew_waits_for_the_servers_word_of_the_line() -> None:
    state = NodeState("n1", "local", agent_epoch=2, agent_version="v1")
    acts = agent.decide(state, KeeperListed([Kept(A, "going"), Kept(B, "held", address="10.0.0.1", port=4000)]), 0.0)
    exchange(state)
    assert begun(acts) == []
    _, acts = exchange(state, duties=[a_duty("go", task=A), a_duty(task=B, behind=A)])
    assert begun(acts) == []
    assert begun(ends(state, A)) == [B]


@pytest.mark.parametrize("phase", [GOING, OVER, ENDED, REFUSED])
def test_only_what_has_not_begun_can_be_called_back(phase: str) -> None:
    state = a_state()
    state.tasks[B] = task = NodeTask(B, phase, {"behind": A})
    assert not waiting_line.call_back(state, task, 1.0)


def test_a_line_that_was_left_does_not_move() -> None:
    state = a_state()
    for key in (A, B):
        state.tasks[key] = NodeTask(key, HOLDING)
    waiting_line.set_behind(state, state.tasks[B], A)
    waiting_line.leave(state, state.tasks[B])
    state.tasks[A].phase = ENDED
    state.just_ended.append(A)
    assert waiting_line.turns(state) == []
