"""How fast an agent calls: at once where something happens, and ever slower where nothing does."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headway_agent.decide.decide import KeeperListed, NodeState, decide
from headway_agent.loop.pace import PAUSE_S_MAX, Pace, brings, outnumber
from headway_agent.node.directory import NodeDir
from tests.agent.spoken import a_reply, answered, sync_of

ALWAYS = {
    "full": {"full": True, "duties": [{"task": "j/1/0", "do": "go"}]},
    "again": {"resend": True},
    "nothing": {"duties": []},
}


@pytest.mark.parametrize("reply", ALWAYS.values(), ids=ALWAYS)
def test_a_server_that_answers_at_once_for_ever_is_called_ever_more_slowly(reply: dict[str, object]) -> None:
    pace, now, calls = Pace(), 100.0, 0
    while now < 700.0:
        now = max(now, pace.at_s) + 0.0025  # What an exchange takes on one machine.
        pace.answered(now, 20.0, 0.0025, brings(a_reply(**reply), ()))
        calls += 1
    assert calls < 400, "ten minutes at 400 a second were 240,000"


def test_a_stream_of_work_is_never_held_up() -> None:
    pace = Pace()
    for number in range(1000):
        pace.answered(float(number), 20.0, 0.001, brings(a_reply(duties=[{"task": f"j{number}/1/0", "do": "go"}]), ()))
        pace.answered(float(number), 0.0, 0.001, False)
        assert pace.at_s == 0.0


def test_calls_that_the_server_held_make_up_for_those_that_it_did_not() -> None:
    pace = Pace()
    for _ in range(4):
        pace.answered(1.0, 20.0, 0.001, False)
    assert pace.at_s > 1.0
    pace.answered(30.0, 20.0, 20.0, False)
    for _ in range(3):
        pace.answered(31.0, 20.0, 0.001, False)
    assert pace.at_s == 0.0


def test_pauses_after_failures_double_up_to_a_limit_and_end_with_an_answer() -> None:
    pace = Pace()
    pauses = [pace.not_answered(0.0, PAUSE_S_MAX) for _ in range(9)]
    assert pauses[:3] == [0.1, 0.2, 0.4]
    assert pauses[-1] == PAUSE_S_MAX
    pace.answered(1.0, 0.0, 0.1, True)
    assert pace.not_answered(2.0, PAUSE_S_MAX) == 0.1


def test_whoever_is_followed_anew_is_news() -> None:
    assert brings(a_reply(follow=["j/1/0"]), ())
    assert not brings(a_reply(follow=["j/1/0"]), {"j/1/0"})


# --- a database that went back ---


def a_state(leader: int = 9) -> NodeState:
    state = NodeState(node="n1", pool="local", boot_id="b")
    decide(state, KeeperListed([]), 1.0)
    answer(state, leader, 2.0)
    return state


def answer(state: NodeState, leader: int, sent_s: float, now: float | None = None, **words: object) -> None:
    seq = sync_of(state, {}, sent_s)["seq"]
    reply = {"leader_epoch": leader, "said": 1, "lease_left_s": 3600.0, **words}
    decide(state, answered(reply, seq), sent_s if now is None else now)


def test_an_older_leader_is_believed_once_no_later_one_answers_for_a_while() -> None:
    state = a_state()
    for at in (3.0, 5.0, 12.0):
        answer(state, 4, at, duties=[{"task": "j1/1/0", "do": "claim"}])
        assert (state.leader_epoch, list(state.tasks), state.deadline_s) == (9, [], 3602.0)
    answer(state, 4, 13.5, duties=[{"task": "j1/1/0", "do": "claim"}])
    assert (state.leader_epoch, list(state.tasks), state.full_due) == (4, ["j1/1/0"], True)
    assert state.deadline_s == 3613.5


def test_while_the_later_leader_answers_a_copy_of_its_database_is_never_believed() -> None:
    state = a_state()
    for at in range(3, 300, 3):
        answer(state, 4, float(at))
        answer(state, 9, at + 1.0)
    assert state.leader_epoch == 9


def test_a_reply_of_the_leader_before_that_was_on_its_way_proves_nothing() -> None:
    state = NodeState(node="n1", pool="local", boot_id="b")
    decide(state, KeeperListed([]), 1.0)
    answer(state, 4, 1.5)
    late = sync_of(state, {}, 2.0)["seq"]
    state.flights[late].held = True
    answer(state, 9, 3.0)
    decide(state, answered({"leader_epoch": 4, "said": 7, "lease_left_s": 60.0}, late), 60.0)
    assert (state.leader_epoch, state.older_since_s) == (9, 0.0)


# --- a number from the future ---


def test_an_agent_takes_a_larger_number_than_one_that_no_agent_can_have(tmp_path: Path) -> None:
    node_dir = NodeDir(str(tmp_path))
    state = NodeState(node="n1", pool="local", agent_epoch=node_dir.raise_counter("agent.epoch", int(time.time())))
    ahead = int(time.time()) + 10**8
    state.full_due = False
    assert outnumber(state, node_dir, ahead)
    assert (state.agent_epoch, state.full_due, node_dir.counter("agent.epoch")) == (ahead + 1, True, ahead + 1)


@pytest.mark.parametrize("newest", [None, "x", 5, "now"])
def test_an_agent_gives_way_to_a_later_one(tmp_path: Path, newest: object) -> None:
    state = NodeState(node="n1", pool="local", agent_epoch=3)
    assert not outnumber(state, NodeDir(str(tmp_path)), int(time.time()) if newest == "now" else newest)
    assert state.agent_epoch == 3
