"""The agent's decisions, as tables: a fact in, acts and reports out."""

from __future__ import annotations

from typing import Any

import pytest

from headway_agent.decide import decide as agent
from headway_agent.decide import unconfirmed_files
from headway_agent.decide.decide import (
    CheckpointBad,
    EndAgent,
    Exit,
    Forget,
    Go,
    Held,
    Hold,
    HoldFailed,
    KeeperListed,
    Kept,
    Lease,
    NodeState,
    NotAnswered,
    NoticeHeard,
    OutputShrank,
    PrepareFailed,
    RankExited,
    Salvage,
    Shipped,
    Stop,
    Superseded,
    TaskOver,
    Ticked,
    Troubled,
    Upgrade,
    next_call,
)
from headway_agent.decide.facts_and_acts import Act, Fact
from headway_agent.decide.outcomes import NO_ENTRY, name_outcome
from headway_agent.keeper.table import Table
from headway_wire.digests import digest_of
from headway_wire.sync import OutputRange
from tests.agent.spoken import a_claim, answered, sync_of

T = "job1/1/0"
CLAIM: dict[str, Any] = {"argv": ["true"], "grace_s": 4.0}


def a_state(**more: Any) -> NodeState:
    state = NodeState("n1", "local", agent_epoch=1, agent_version="v1", **more)
    agent.decide(state, KeeperListed([]), 0.0)
    exchange(state)  # Brings the leader's number,
    exchange(state)  # and this one tells it everything.
    return state


def a_duty(do: str = "claim", task: str = T, **more: Any) -> dict[str, Any]:
    return {"task": task, "do": do, **CLAIM, **more}


def exchange(state: NodeState, now: float = 1.0, **reply: Any) -> tuple[dict[str, Any], list[Any]]:
    """One sync and its reply; returns the body and the acts without the lease."""
    body = sync_of(state, {"cpus": 1}, now)
    said = {"leader_epoch": 1, "lease_left_s": 100.0, "duties": [], **reply}
    acts = agent.decide(state, answered(said), now)
    return body, [act for act in acts if not isinstance(act, Lease)]


def a_claimed(**more: Any) -> NodeState:
    state = a_state()
    exchange(state, duties=[a_duty(**more)])
    agent.decide(state, Held(T, "10.0.0.1", 4000), 1.0)
    return state


def a_going() -> NodeState:
    state = a_claimed()
    exchange(state, duties=[{"task": T, "do": "go"}])
    return state


def reported(state: NodeState) -> dict[str, Any]:
    body, _ = exchange(state)
    return {report["task"]: report for report in body["reports"]}


def test_nothing_is_sent_before_the_keeper_has_said_what_it_has() -> None:
    state = NodeState("n1", "local")
    assert next_call(state, 0.0) == ""
    agent.decide(state, KeeperListed([]), 0.0)
    assert next_call(state, 0.0) == "sync"


def test_the_first_sync_is_full_and_brings_the_facts() -> None:
    state = NodeState("n1", "local")
    agent.decide(state, KeeperListed([]), 0.0)
    for _ in ("to an unknown leader", "to the leader that answered"):
        body, _ = exchange(state)
        assert (body["full"], body["facts"]["cpus"], body["wait_s"]) == (True, 1, 0.0)
    body, _ = exchange(state)
    assert (body["full"], "facts" in body, body["wait_s"]) == (False, False, 12.5)


@pytest.mark.parametrize("lease_s", [30.0, 60.0, 120.0, 600.0])
def test_a_held_call_leaves_enough_of_a_lease_that_is_shared_with_a_long_grace(lease_s: float) -> None:
    state = a_state()
    exchange(state, lease_left_s=lease_s)
    late_s = sync_of(state, {}, 1.0)["wait_s"] + 2.0  # What a reply takes at most, on a server that ticks slowly.
    table = Table()
    table.lease(lease_s, lease_s)  # Counted from when the call before was sent; the next reply comes so late:
    assert table.stop_by_s(grace_s=3600.0) >= 2 * late_s


def test_a_claim_is_held_then_reported_then_goes() -> None:
    state = a_state()
    _, acts = exchange(state, duties=[a_duty()])
    assert acts == [Hold(T, a_claim(**CLAIM))]
    agent.decide(state, Held(T, "10.0.0.1", 4000), 1.0)
    body, acts = exchange(state, duties=[{"task": T, "do": "go", "peers": [["10.0.0.1", 4000]]}])
    assert body["reports"] == [{"task": T, "phase": "claimed", "address": "10.0.0.1", "port": 4000}]
    assert acts == [Go(T, (("10.0.0.1", 4000),), a_claim(**CLAIM))]
    assert reported(state)[T]["phase"] == "running"


def test_a_go_for_a_task_that_was_never_claimed_here_starts_nothing() -> None:
    state = a_state()
    _, acts = exchange(state, duties=[a_duty("go", at_once=True, peers=[])])
    assert acts == []
    assert reported(state)[T]["outcome"]["cause"] == "outcome_lost"


def test_output_that_somebody_cut_is_not_waited_for() -> None:
    state = a_going()
    agent.decide(state, RankExited(T, Exit(0, 0)), 2.0)
    agent.decide(state, TaskOver(T, {"0/out": 10}), 2.0)
    agent.decide(state, OutputShrank(T, {"0/out": 0}), 2.0)
    assert reported(state)[T]["phase"] == "ended"


def test_a_claim_said_twice_is_held_once() -> None:
    state = a_claimed()
    _, acts = exchange(state, full=True, duties=[a_duty()])
    assert acts == []


def test_what_cannot_be_held_is_refused() -> None:
    state = a_state()
    exchange(state, duties=[a_duty()])
    agent.decide(state, HoldFailed(T, "no such directory"), 1.0)
    assert reported(state)[T] == {"task": T, "phase": "refused", "detail": "no such directory"}


def test_a_refusal_says_what_of_the_job_is_in_the_way() -> None:
    state = a_state()
    exchange(state, duties=[a_duty()])
    agent.decide(state, HoldFailed(T, "there is no /data", "workdir_missing"), 1.0)
    assert reported(state)[T] == {
        "task": T, "phase": "refused", "detail": "there is no /data", "cause": "workdir_missing",
    }  # fmt: skip


def test_without_a_lease_nothing_goes_until_the_next_reply_in_time() -> None:
    state = a_claimed()
    sync_of(state, {}, 10.0)
    late = {"leader_epoch": 1, "lease_left_s": 5.0, "duties": [{"task": T, "do": "go"}]}
    assert [type(act) for act in agent.decide(state, answered(late), 20.0)] == [Lease]
    _, acts = exchange(state, now=21.0)
    assert [type(act) for act in acts] == [Go]


def test_the_lease_counts_from_when_the_answered_sync_was_sent() -> None:
    state = a_state()
    sync_of(state, {}, 10.0)
    assert agent.decide(state, answered({"leader_epoch": 1, "lease_left_s": 60.0}), 30.0) == [Lease(70.0, 60.0)]


def test_the_reply_to_an_older_sync_brings_no_lease() -> None:
    state = a_state()
    held = sync_of(state, {}, 10.0)["seq"]
    agent.decide(state, Troubled("logs", "full"), 11.0)
    news = sync_of(state, {}, 11.0)["seq"]
    reply = {"leader_epoch": 1, "lease_left_s": 60.0}
    assert agent.decide(state, answered(reply, news), 12.0) == [Lease(71.0, 60.0)]
    assert agent.decide(state, answered(reply, held), 13.0) == []
    assert state.deadline_s == 71.0


def test_news_goes_beside_the_held_sync_and_never_a_third() -> None:
    state = a_claimed()
    assert next_call(state, 1.0) == "sync"
    exchange(state)
    sync_of(state, {}, 2.0)
    assert next_call(state, 2.0) == ""
    agent.decide(state, Troubled("logs", "full"), 2.0)
    assert next_call(state, 2.0) == "wake"
    assert sync_of(state, {}, 2.0)["wait_s"] == 0.0
    agent.decide(state, Troubled("logs", ""), 2.0)
    assert next_call(state, 2.0) == ""


def test_a_start_alone_may_wait_a_little() -> None:
    state = a_going()
    state.flights[99] = agent.Flight(2.0, False, True, {}, [])
    assert next_call(state, state.lazy_due_s - 0.05) == ""
    assert next_call(state, state.lazy_due_s + 0.05) == "wake"


def test_an_end_is_told_only_when_all_output_is_in_storage() -> None:
    state = a_going()
    agent.decide(state, RankExited(T, Exit(0, 0)), 2.0)
    agent.decide(state, TaskOver(T, {"0/out": 10}), 2.0)
    assert reported(state).get(T, {}).get("phase") != "ended"
    agent.decide(state, Shipped([OutputRange(T, 0, "out", 0, 6, "k1", 0)]), 2.0)
    assert T not in reported(state)
    agent.decide(state, Shipped([OutputRange(T, 0, "out", 6, 10, "k2", 0)]), 2.0)
    body, _ = exchange(state)
    assert body["logs"][0]["end"] == 10
    assert body["reports"][0]["outcome"]["log_bytes"] == 10


def test_an_unanswered_sync_is_said_again() -> None:
    state = a_going()
    agent.decide(state, RankExited(T, Exit(0, 0)), 2.0)
    agent.decide(state, TaskOver(T, {"0/out": 3}), 2.0)
    agent.decide(state, Shipped([OutputRange(T, 0, "out", 0, 3, "k", 0)]), 2.0)
    first = sync_of(state, {}, 3.0)
    agent.decide(state, NotAnswered(), 4.0)
    second = sync_of(state, {}, 5.0)
    assert (second["reports"], second["logs"]) == (first["reports"], first["logs"])


def test_when_output_was_written_is_told_by_how_long_ago_however_late_it_is_told() -> None:
    state = a_going()
    agent.decide(state, Shipped([OutputRange(T, 0, "out", 0, 3, "k", 0)], written={(T, "0/out"): 1.5}), 2.0)
    assert sync_of(state, {}, 3.0)["logs"][0]["written_ago_s"] == 1.5
    agent.decide(state, NotAnswered(), 4.0)
    body, _ = exchange(state, 601.5, safe={T: {"0/out": 3}})
    assert body["logs"][0]["written_ago_s"] == 600.0
    assert state.written == {}


def test_output_that_the_server_lacks_is_shipped_again() -> None:
    state = a_going()
    agent.decide(state, Shipped([OutputRange(T, 0, "out", 0, 9, "k", 0)]), 2.0)
    exchange(state, safe={T: {"0/out": 4}})
    assert state.tasks[T].shipped == {"0/out": 4}


def test_a_new_agent_tells_at_once_what_had_ended_and_sees_that_it_is_on_the_disk() -> None:
    state = NodeState("n1", "local", agent_epoch=2)
    acts = agent.decide(state, KeeperListed([Kept(T, "over", (Exit(0, 0),), sizes={"0/out": 9})]), 0.0)
    assert agent.Settle(T) in acts
    (report,) = sync_of(state, {}, 0.1)["reports"]
    assert report["saving"]["outcome"]["cause"] is None
    # Of what the machine lost with its power, nothing is told to be there.
    state = NodeState("n1", "local", agent_epoch=2)
    assert agent.decide(state, KeeperListed([Kept(T, "over", (Exit(0, 0),), lost=True)]), 0.0) == []
    (report,) = sync_of(state, {}, 0.1)["reports"]
    assert "saving" not in report


def test_a_new_agent_ships_from_what_the_server_has() -> None:
    state = NodeState("n1", "local", agent_epoch=2)
    agent.decide(state, KeeperListed([Kept(T, "over", (Exit(0, 0),), sizes={"0/out": 9})]), 0.0)
    assert not state.tasks[T].resumable
    body, _ = exchange(state, duties=[{"task": T, "do": "go"}], full=True, safe={T: {"0/out": 5}})
    assert [(each["phase"], each["saving"]["outcome"]["exit_code"]) for each in body["reports"]] == [("running", 0)]
    assert (state.tasks[T].resumable, state.tasks[T].shipped) == (True, {"0/out": 5})
    exchange(state, safe={T: {"0/out": 5}})
    agent.decide(state, Shipped([OutputRange(T, 0, "out", 5, 9, "k", 0)]), 1.0)
    assert reported(state)[T]["phase"] == "ended"


def test_a_new_agent_whose_output_was_all_there_tells_the_end_at_once() -> None:
    state = NodeState("n1", "local", agent_epoch=2)
    agent.decide(state, KeeperListed([Kept(T, "over", (Exit(0, 0),), sizes={"0/out": 9})]), 0.0)
    exchange(state, duties=[{"task": T, "do": "go"}], full=True, safe={T: {"0/out": 9}})
    assert reported(state)[T]["outcome"]["log_bytes"] == 9


def test_the_first_failure_stops_the_other_ranks_once() -> None:
    state = a_going()
    assert agent.decide(state, RankExited(T, Exit(1, 3)), 2.0) == [Stop(T, 4.0)]
    assert agent.decide(state, RankExited(T, Exit(0, None, 15, "stop")), 2.0) == []
    agent.decide(state, TaskOver(T), 3.0)
    outcome = reported(state)[T]["outcome"]
    assert (outcome["rank"], outcome["exit_code"], outcome["cause"]) == (1, 3, "user_code")


def test_a_failure_that_no_agent_saw_stops_the_other_ranks_too() -> None:
    state = NodeState("n1", "local", agent_epoch=2)
    acts = agent.decide(state, KeeperListed([Kept(T, "going", (Exit(1, 3),), grace_s=7.0)]), 0.0)
    assert acts == [Stop(T, 7.0)]


def test_a_stop_is_passed_on_and_only_shortened() -> None:
    state = a_going()
    _, acts = exchange(state, duties=[{"task": T, "do": "stop", "grace_s": 9.0}])
    assert acts == [Stop(T, 9.0, "cancelled")]
    _, acts = exchange(state, duties=[{"task": T, "do": "stop", "grace_s": 30.0}])
    assert acts == []
    _, acts = exchange(state, duties=[{"task": T, "do": "stop", "grace_s": 1.0}])
    assert acts == [Stop(T, 1.0, "cancelled")]


def test_an_end_says_whether_it_came_before_any_wish_for_it() -> None:
    state = a_going()
    agent.decide(state, RankExited(T, Exit(0, 0)), 2.0)
    agent.decide(state, TaskOver(T, {"0/out": 10}), 2.0)
    exchange(state, duties=[{"task": T, "do": "stop", "grace_s": 9.0, "cause": "preempted"}])  # It came too late.
    agent.decide(state, OutputShrank(T, {"0/out": 0}), 2.0)
    assert reported(state)[T]["outcome"]["unasked"] is True
    state = a_going()
    exchange(state, duties=[{"task": T, "do": "stop", "grace_s": 9.0, "cause": "preempted"}])
    agent.decide(state, RankExited(T, Exit(0, 0)), 2.0)  # Perhaps the echo of the notice: half of the work, saved.
    agent.decide(state, TaskOver(T), 2.0)
    assert "unasked" not in reported(state)[T]["outcome"]


def a_successor(kept: Kept) -> NodeState:
    """A new agent, which the keeper tells of what ended while there was none."""
    state = NodeState("n1", "local", agent_epoch=2)
    agent.decide(state, KeeperListed([kept]), 0.0)
    exchange(state)
    return state


def test_a_later_agent_can_say_too_that_an_end_came_before_any_wish_for_it() -> None:
    state = a_successor(Kept(T, "over", (Exit(0, 0),)))
    assert state.tasks[T].outcome is not None
    assert state.tasks[T].outcome.unasked is True
    for told in (Kept(T, "over", (Exit(0, 0),), notice="preempted"), Kept(T, "over", (Exit(0, 0, ours="stop"),))):
        outcome = a_successor(told).tasks[T].outcome
        assert outcome is not None
        assert not outcome.unasked


def test_a_later_agent_knows_that_the_machines_notice_ended_a_task() -> None:
    outcome = a_successor(Kept(T, "over", (Exit(0, None, 15, ours="stop"),), notice="reclaimed")).tasks[T].outcome
    assert outcome is not None
    assert outcome.cause == "reclaimed"  # Nobody cancelled it.
    state = a_successor(Kept(T, "going", notice="reclaimed"))
    agent.decide(state, RankExited(T, Exit(0, 1, ours="stop")), 2.0)
    agent.decide(state, TaskOver(T), 2.0)
    assert reported(state)[T]["outcome"]["cause"] == "reclaimed"


def test_what_ranks_save_on_notice_is_trusted_by_a_later_agent_as_well() -> None:
    state = NodeState("n1", "local", agent_epoch=2)
    kept = Kept(T, "over", (Exit(0, 1, ours="stop"),), leftovers=True, notice="preempted")
    assert Salvage(T, "notice") in agent.decide(state, KeeperListed([kept]), 0.0)


def test_the_servers_stop_does_not_lengthen_what_a_machine_that_goes_has_left() -> None:
    state = a_going()
    [told] = agent.decide(state, NoticeHeard("reclaimed", 20.0), 1.0)
    assert told == Stop(T, 16.0, "reclaimed")
    _, acts = exchange(state, duties=[{"task": T, "do": "stop", "grace_s": 20.0, "cause": "reclaimed"}])
    assert acts == []
    assert state.tasks[T].notice == ("reclaimed", 17.0)
    _, acts = exchange(state, duties=[{"task": T, "do": "stop", "grace_s": 2.0, "cause": "cancelled"}])
    assert acts == [Stop(T, 2.0, "cancelled")]


def test_a_machine_that_is_still_there_long_after_its_notice_stays() -> None:
    state = a_claimed()
    agent.decide(state, NoticeHeard("reclaimed", 20.0), 1.0)
    body, _ = exchange(state, full=True)
    assert body["notice"]["cause"] == "reclaimed"
    due_s = unconfirmed_files.next_due_s(state)
    assert due_s is not None
    agent.decide(state, Ticked(), due_s - 1.0)
    assert state.notice is not None
    agent.decide(state, Ticked(), due_s)
    assert unconfirmed_files.next_due_s(state) is None
    body, _ = exchange(state)
    assert body["full"]
    assert "notice" not in body


def test_a_stop_before_go_ends_the_task_without_a_line_of_it() -> None:
    state = a_claimed()
    exchange(state, duties=[{"task": T, "do": "stop", "grace_s": 9.0}])
    assert reported(state)[T]["outcome"]["cause"] == "never_started"
    _, acts = exchange(state, duties=[{"task": T, "do": "go"}])
    assert acts == []


@pytest.mark.parametrize("do", ["go", "stop"])
def test_a_task_that_the_node_does_not_have_is_said_to_be_lost(do: str) -> None:
    state = a_state()
    exchange(state, duties=[{"task": T, "do": do}])
    assert reported(state)[T]["outcome"]["cause"] == "outcome_lost"


def test_what_is_gone_is_forgotten_and_no_longer_counted() -> None:
    state = a_going()
    _, acts = exchange(state, gone=[T])
    assert acts == [Forget(T)]
    body, _ = exchange(state)
    assert body["reports_digest"] == body["duties_digest"] == digest_of({})


def test_with_a_full_reply_all_that_is_not_named_is_gone() -> None:
    state = a_going()
    _, acts = exchange(state, full=True, duties=[a_duty(task="job2/1/0")])
    assert acts == [Forget(T), Hold("job2/1/0", a_claim(**CLAIM, task="job2/1/0"))]


def test_the_digests_are_those_of_all_reports_and_duties() -> None:
    state = a_going()
    exchange(state, duties=[a_duty(task="job2/1/0")])
    agent.decide(state, Held("job2/1/0", "a", 1), 1.0)
    body = sync_of(state, {}, 2.0)
    assert body["reports_digest"] == digest_of({T: "running", "job2/1/0": "claimed"})
    assert body["duties_digest"] == digest_of({T: "go", "job2/1/0": "claim"})


def test_a_new_leader_and_a_resend_are_answered_with_everything() -> None:
    for reply in ({"leader_epoch": 2}, {"resend": True}):
        state = a_going()
        exchange(state)
        exchange(state, **reply)
        body = sync_of(state, {}, 2.0)
        assert body["full"]
        assert [report["task"] for report in body["reports"]] == [T]


def test_a_keeper_that_lost_its_ranks_is_reported_as_outcome_lost() -> None:
    state = a_going()
    agent.decide(state, KeeperListed([Kept(T, "over", lost=True)]), 2.0)
    assert reported(state)[T]["outcome"]["cause"] == "outcome_lost"
    state = a_going()
    agent.decide(state, KeeperListed([]), 2.0)
    assert reported(state)[T]["outcome"]["cause"] == "outcome_lost"


def test_a_claim_that_a_dead_keeper_held_is_held_anew() -> None:
    state = a_claimed()
    acts = agent.decide(state, KeeperListed([]), 2.0)
    assert [act for act in acts if not isinstance(act, Lease)] == [Hold(T, a_claim(**CLAIM))]


def test_a_new_keeper_gets_the_lease_that_is_left() -> None:
    state = a_state()
    assert agent.decide(state, KeeperListed([]), 2.0) == [Lease(state.deadline_s, 100.0)]
    assert agent.decide(state, KeeperListed([]), 2000.0) == []


def test_another_version_is_fetched_and_an_older_agent_ends_itself() -> None:
    state = a_state()
    _, acts = exchange(state, agent_version="v2")
    assert acts == [Upgrade("v2")]
    assert [type(act) for act in agent.decide(state, Superseded(), 2.0)] == [EndAgent]


def test_a_reply_that_was_overtaken_starts_nothing_and_its_news_are_told_again() -> None:
    state = a_claimed()
    exchange(state, said=7)
    agent.decide(state, Troubled("logs", "full"), 1.0)
    _, acts = exchange(state, said=6, duties=[a_duty("go")])
    assert acts == []
    assert exchange(state, said=8)[0]["troubles"]


NOT_HELD = [
    HoldFailed(T, "no room"),
    PrepareFailed(T, "unreachable", "no answer"),
    CheckpointBad(T, "jobs/a/1/checkpoints/3-0-1.1.json", "its hash is wrong"),
]


@pytest.mark.parametrize("go_first", [False, True])
@pytest.mark.parametrize("failure", NOT_HELD, ids=lambda fact: type(fact).__name__)
def test_a_claimed_task_that_a_new_keeper_cannot_take_is_lost_when_it_shall_go(failure: Fact, go_first: bool) -> None:
    state = a_claimed()
    agent.decide(state, KeeperListed([]), 1.0)
    acts: list[Act] = []
    if go_first:
        acts += exchange(state, duties=[a_duty("go")])[1]
    acts += agent.decide(state, failure, 1.0)
    if not go_first:
        acts += exchange(state, duties=[a_duty("go")])[1]
    assert not [act for act in acts if isinstance(act, Go)]
    assert exchange(state)[0]["reports"][0]["outcome"]["cause"] == "outcome_lost"


def test_a_claimed_task_goes_only_once_the_new_keeper_has_it() -> None:
    state = a_claimed()
    agent.decide(state, KeeperListed([]), 1.0)
    _, acts = exchange(state, duties=[a_duty("go")])
    assert not [act for act in acts if isinstance(act, Go)], "it is being prepared anew"
    assert [type(act) for act in agent.decide(state, Held(T, "127.0.0.1", 4000), 1.0)] == [Go]


@pytest.mark.parametrize(("do", "cause"), [("go", "outcome_lost"), ("stop", "never_started")])
@pytest.mark.parametrize("failure", NOT_HELD[:2], ids=lambda fact: type(fact).__name__)
def test_what_was_refused_after_an_earlier_agent_had_claimed_it_comes_to_an_end(
    failure: Fact, do: str, cause: str
) -> None:
    state = a_state()
    exchange(state, duties=[a_duty()])
    agent.decide(state, failure, 1.0)
    exchange(state)
    exchange(state, duties=[a_duty(do)])
    assert exchange(state)[0]["reports"][0]["outcome"]["cause"] == cause


def test_troubles_are_said_once_and_their_end_too() -> None:
    state = a_state()
    agent.decide(state, Troubled("logs", "disk full"), 1.0)
    assert exchange(state)[0]["troubles"] == [{"what": "logs", "detail": "disk full"}]
    assert "troubles" not in exchange(state)[0]
    agent.decide(state, Troubled("logs", ""), 1.0)
    assert exchange(state)[0]["troubles"] == []


OUTCOMES = [
    ([Exit(0, 0), Exit(1, 0)], "", None),
    ([Exit(0, 3)], "", "user_code"),
    ([Exit(0, 1)], '  File "x.py", line 1\nSyntaxError: invalid syntax\n', "syntax_error"),
    ([Exit(0, 1)], "SyntaxError: of a subprocess\nValueError: no\n", "user_code"),
    ([Exit(0, 127, note="headway: command not found: x")], "", "command_missing"),
    ([Exit(0, 126)], "", "not_executable"),
    ([Exit(0, 126, note=f"{NO_ENTRY} /x: Permission denied")], "", "permission_denied"),
    ([Exit(0, 126, note=f"{NO_ENTRY} /x: No such file or directory")], "", "workdir_missing"),
    ([Exit(0, None, 11)], "", "crashed"),
    ([Exit(0, None, 9)], "", "killed"),
    ([Exit(0, None, 9, oom=True)], "", "out_of_memory"),
    ([Exit(0, 137, oom=True)], "", "out_of_memory"),
    ([Exit(0, 1)], "MemoryError\n", "out_of_memory"),
    ([Exit(0, None, 15, "stop")], "", "cancelled"),
    ([Exit(0, None, 9, "stop")], "", "cancelled"),
    ([Exit(0, None, 9, "lease")], "", "node_lost"),
    ([Exit(0, None, 9, "end")], "", "node_lost"),
    ([Exit(1, None, 15, "stop"), Exit(0, 2)], "", "user_code"),
    ([], "", "outcome_lost"),
]


@pytest.mark.parametrize(("exits", "tail", "cause"), OUTCOMES)
def test_an_end_is_named_by_the_first_rank_that_failed_by_itself(
    exits: list[Exit], tail: str, cause: str | None
) -> None:
    assert name_outcome(exits, tail).cause == cause


@pytest.mark.parametrize("do", ["go", "stop"])
def test_an_end_that_meant_nothing_yet_is_said_again_when_the_server_asks_for_more(do: str) -> None:
    """A claimed task was lost before the rest of its gang had claimed: then the server does not hear of ends yet."""
    state = a_claimed()
    state.tasks[T].claim = None
    agent.decide(state, KeeperListed([]), 1.0)
    assert reported(state)[T]["phase"] == "ended"
    assert not reported(state)
    exchange(state, duties=[{"task": T, "do": do, "grace_s": 1.0}])
    assert reported(state)[T]["phase"] == "ended"


def test_who_failed_without_a_word_where_nothing_more_could_be_written_met_a_full_disk() -> None:
    full = {"disk_full": "/node/tasks/t"}
    met = name_outcome([Exit(0, 1)], "step 7\n", full)
    assert (met.cause, met.detail) == (
        "disk_full", "rank 0 ended with exit code 1, and there is no room for its output in /node/tasks/t",
    )  # fmt: skip
    assert name_outcome([Exit(0, 1)], "ModuleNotFoundError: No module named 'x'", full).cause == "import_error"
    assert name_outcome([Exit(0, 0)], "", full).cause is None
    assert name_outcome([Exit(0, signal=15, ours="stop")], "", full).cause == "cancelled"
