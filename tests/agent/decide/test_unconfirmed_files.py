"""What the agent decides about progress: what is said until it is answered for, and when an end may be told."""

from __future__ import annotations

from typing import Any

import pytest

from headway_agent.decide import decide as agent
from headway_agent.decide import unconfirmed_files
from headway_agent.decide.decide import (
    ArtifactStored,
    CheckpointBad,
    CheckpointStored,
    Exit,
    Held,
    Hold,
    KeeperListed,
    Kept,
    NodeState,
    NotAnswered,
    NoticeHeard,
    Preparing,
    RankExited,
    Salvage,
    Salvaged,
    Salvaging,
    Shipped,
    Spawned,
    Stepped,
    Stop,
    TaskOver,
    Ticked,
    Troubled,
    Wrote,
)
from headway_agent.decide.outcomes import how_ended
from headway_wire.claim import Claim, Resume
from headway_wire.sync import OutputRange, StoredArtifact
from tests.agent.spoken import a_save, answered, sync_of

T = "job1/1/0"


def exchange(state: NodeState, now: float = 1.0, **reply: Any) -> tuple[dict[str, Any], list[agent.Act]]:
    body = sync_of(state, {}, now)
    answer = {"leader_epoch": 1, "lease_left_s": 600.0, "duties": [], "gone": [], **reply}
    return body, agent.decide(state, answered(answer, body["seq"]), now)


def a_task(**duty: Any) -> NodeState:
    state = NodeState("n1", "local")
    agent.decide(state, KeeperListed([]), 0.0)
    exchange(state)
    exchange(state, duties=[{"task": T, "do": "claim", "argv": ["x"], "grace_s": 4.0, **duty}])
    return state


def a_going() -> NodeState:
    state = a_task()
    agent.decide(state, Held(T), 0.0)
    exchange(state, duties=[{"task": T, "do": "go"}])
    agent.decide(state, Spawned(T, 1.0), 1.0)
    exchange(state)
    return state


def stored(step: int = 5, key: str = "k5") -> CheckpointStored:
    return a_save(T, {"step": step, "key": key, "how": "renamed", "bytes": 1, "files": 1, "at": 0.0})


def phase(state: NodeState) -> str:
    return state.tasks[T].phase


def test_a_checkpoint_is_said_until_the_server_answers_for_it() -> None:
    state = a_going()
    agent.decide(state, stored(), 1.0)
    assert agent.next_call(state, 1.0)
    body = sync_of(state, {}, 1.0)
    assert [each["key"] for each in body["checkpoints"]] == ["k5"]
    agent.decide(state, NotAnswered(body["seq"]), 1.0)
    body, _ = exchange(state, checkpoints_safe={T: [5]})
    assert [each["key"] for each in body["checkpoints"]] == ["k5"]
    assert "checkpoints" not in exchange(state)[0]


def test_what_a_reply_does_not_answer_for_is_said_again_after_a_while() -> None:
    state = a_going()
    agent.decide(state, stored(), 1.0)
    exchange(state, now=1.0)
    assert not unconfirmed_files.has_news(state, 1.5)
    assert unconfirmed_files.has_news(state, 2.0)
    assert exchange(state, now=2.0)[0]["checkpoints"]


def test_what_an_end_waits_for_is_never_said_in_a_call_that_the_server_may_hold() -> None:
    state = a_going()
    agent.decide(state, stored(), 1.0)
    body = sync_of(state, {}, 1.0)
    agent.decide(state, stored(6, "k6"), 1.0)  # While the first is on its way.
    answer = {"leader_epoch": 1, "lease_left_s": 600.0, "checkpoints_safe": {T: [5]}}
    agent.decide(state, answered(answer, body["seq"]), 1.0)
    body, _ = exchange(state, now=1.0)
    assert ([each["key"] for each in body["checkpoints"]], body["wait_s"]) == (["k6"], 0.0)
    body = sync_of(state, {}, 1.5)
    assert "checkpoints" not in body, "it was not answered for: it waits a moment"
    assert body["wait_s"] > 0
    assert agent.next_call(state, 2.5) == "wake"
    body = sync_of(state, {}, 2.5)
    assert ([each["key"] for each in body["checkpoints"]], body["wait_s"]) == (["k6"], 0.0)


def test_an_end_waits_for_the_salvage_and_its_commit() -> None:
    state = a_going()
    agent.decide(state, RankExited(T, Exit(0, 1)), 2.0)
    acts = agent.decide(state, TaskOver(T, leftovers=True), 2.0)
    assert acts == [Salvage(T, "failed")]
    agent.decide(state, stored(), 3.0)
    agent.decide(state, Salvaged(T), 3.0)
    assert phase(state) == "over"
    exchange(state, now=3.0, checkpoints_safe={T: [5]})
    assert phase(state) == "ended"


def over_and_unkept(now: float = 2.0) -> agent.NodeState:
    state = a_going()
    agent.decide(state, RankExited(T, Exit(0, 0)), now)
    agent.decide(state, TaskOver(T, leftovers=True), now)
    return state


def test_an_end_waits_for_its_files_however_long_they_take() -> None:
    state = over_and_unkept()
    for moment in (60.0, 3600.0, 86400.0):
        agent.decide(state, Ticked(), moment)
        assert phase(state) == "over"
    agent.decide(state, stored(), 90_000.0)
    agent.decide(state, Salvaged(T), 90_000.0)
    assert phase(state) == "over", "the server does not know of it yet"
    exchange(state, now=90_000.0, checkpoints_safe={T: [5]})
    assert phase(state) == "ended"


def test_what_is_over_and_saves_for_long_is_told_with_how_far_it_has_come() -> None:
    state = over_and_unkept()
    due_s = unconfirmed_files.next_due_s(state)
    assert due_s == 2.0 + unconfirmed_files.SAVING_S_MIN
    assert not [each for each in sync_of(state, {}, 2.0)["reports"] if "saving" in each]
    agent.decide(state, NotAnswered(), 2.1)
    agent.decide(state, Ticked(), due_s)
    (report,) = sync_of(state, {}, due_s + 1.0)["reports"]
    assert report["phase"] == "running"
    assert report["saving"]["over_ago_s"] == unconfirmed_files.SAVING_S_MIN + 1.0
    assert report["saving"]["outcome"]["cause"] is None
    agent.decide(state, NotAnswered(), 6.0)
    agent.decide(state, Salvaging(T, 30, 100), 7.0)
    (report,) = sync_of(state, {}, 9.0)["reports"]
    assert (report["saving"]["bytes_done"], report["saving"]["bytes"]) == (30, 100)


def test_what_is_kept_at_once_is_not_told_to_be_saving() -> None:
    state = over_and_unkept()
    agent.decide(state, Salvaged(T), 2.5)
    assert phase(state) == "ended"
    assert unconfirmed_files.next_due_s(state) is None


def test_a_machine_that_goes_tells_what_was_lost_and_that_is_no_success() -> None:
    state = over_and_unkept()
    agent.decide(state, NoticeHeard("reclaimed", 30.0), 5.0)
    last_s = 35.0 - unconfirmed_files.LAST_WORDS_S
    agent.decide(state, Ticked(), last_s - 1.0)
    assert phase(state) == "over"
    agent.decide(state, Ticked(), last_s)
    (report,) = sync_of(state, {}, last_s)["reports"]
    assert (report["phase"], report["outcome"]["cause"]) == ("ended", "files_lost")
    assert "files were not kept" in report["outcome"]["unkept"]


def test_outputs_that_can_never_be_kept_are_no_success_and_a_missing_one_is_only_named() -> None:
    for said, cause in (
        ("model.pt: Permission denied, and could not be kept", "outputs_unkept"),
        ("x: nothing is there", None),
    ):
        state = over_and_unkept()
        agent.decide(state, Troubled(f"outputs {T}", said), 2.2)
        agent.decide(state, Salvaged(T), 2.5)
        (report,) = sync_of(state, {}, 3.0)["reports"]
        assert (report["outcome"]["cause"], report["outcome"]["unkept"]) == (cause, said)


def test_a_salvage_that_is_done_is_not_begun_again_by_a_late_word_of_it() -> None:
    state = a_going()
    agent.decide(state, RankExited(T, Exit(0, 0)), 2.0)
    agent.decide(state, TaskOver(T, leftovers=True), 2.0)
    agent.decide(state, Salvaged(T), 3.0)
    agent.decide(state, Salvaging(T), 4.0)
    agent.decide(state, Salvaging("another/1/0"), 4.0)
    assert phase(state) == "ended"
    assert "another/1/0" not in state.progress
    (report,) = sync_of(state, {}, 5.0)["reports"]
    assert "unkept" not in report["outcome"]


def test_a_task_that_left_nothing_ends_at_once() -> None:
    state = a_going()
    agent.decide(state, RankExited(T, Exit(0, 0)), 2.0)
    assert agent.decide(state, TaskOver(T), 2.0) == []
    assert phase(state) == "ended"
    assert state.progress == {}


def test_artifacts_hold_an_end_back_too() -> None:
    state = a_going()
    agent.decide(state, RankExited(T, Exit(0, 0)), 2.0)
    agent.decide(state, TaskOver(T, leftovers=True), 2.0)
    agent.decide(state, ArtifactStored(T, StoredArtifact(T, "a.txt", ("x",), 1)), 2.0)
    agent.decide(state, Salvaged(T), 2.0)
    assert phase(state) == "over"
    exchange(state, now=2.0, artifacts_safe=[[T, "a.txt"]])
    assert phase(state) == "ended"


def test_steps_ride_along_and_have_a_sync_of_their_own_only_now_and_then() -> None:
    state = a_going()
    state.steps_at_s = 10.0
    agent.decide(state, Stepped(T, 7), 10.5)
    assert not unconfirmed_files.has_news(state, 14.9)
    assert unconfirmed_files.has_news(state, 15.0)
    assert exchange(state, now=11.0)[0]["steps"] == {T: 7}
    assert "steps" not in exchange(state, now=12.0)[0]


def shipped(**printed: int) -> Shipped:
    return Shipped([OutputRange(T, 0, "out", 0, 10, "pack", 0)], printed={T: printed})


@pytest.mark.parametrize(
    ("told", "printed", "step"),
    [
        (Stepped(T, 7, "step"), {"step": 9, "epoch": 2}, 9),
        (Stepped(T, 1, "epoch"), {"step": 9, "epoch": 2}, 2),
        (Stepped(T, 7, "step"), {"step": 3}, 7),
        (Stepped(T, 7), {"step": 900}, 7),  # It logs its steps: what it prints may be others.
    ],
)
def test_with_output_goes_the_step_that_it_tells(told: Stepped, printed: dict[str, int], step: int) -> None:
    state = a_going()
    state.tasks[T].resumable = True
    agent.decide(state, told, 10.0)
    agent.decide(state, shipped(**printed), 10.5)
    assert exchange(state, now=11.0)[0]["steps"] == {T: step}
    other = a_going()
    other.tasks[T].resumable = True
    agent.decide(other, shipped(**printed), 10.0)
    agent.decide(other, told, 10.5)
    assert exchange(other, now=11.0)[0]["steps"] == {T: step}, "whichever is heard first"


@pytest.mark.parametrize(("resumed", "said"), [(False, ({T: 9}, True)), (True, (None, None))])
def test_who_is_over_before_anybody_looked_for_its_steps_has_them_in_its_output(resumed: bool, said: Any) -> None:
    state = a_going()
    state.tasks[T].resumable = True
    if resumed:  # What its steps are called is known from what it was restored from, and to others.
        state.tasks[T].claim = Claim(T, resume=Resume(3, "k3"))
    agent.decide(state, shipped(step=9, epoch=2), 10.5)
    agent.decide(state, RankExited(T, Exit(0, 1)), 11.0)
    agent.decide(state, TaskOver(T, {"0/out": 10}), 11.0)
    assert phase(state) == "ended"
    body = exchange(state, now=11.0)[0]
    assert (body.get("steps"), body["reports"][0]["outcome"].get("steps_told")) == said


def test_a_checkpoint_is_told_with_how_long_ago_it_was_saved() -> None:
    state = a_going()
    fact = stored()
    agent.decide(state, CheckpointStored(T, fact.checkpoint, saved_s=3.0), 5.0)
    (said,) = exchange(state, now=9.0)[0]["checkpoints"]
    assert (said["saved_ago_s"], "saved_s" in said) == (6.0, False)


def test_a_bad_checkpoint_is_told_and_another_one_is_restored() -> None:
    state = a_task(resume={"step": 9, "key": "bad", "how": "renamed"})
    agent.decide(state, Preparing(T, "restores"), 1.0)
    assert exchange(state)[0]["reports"][0]["phase"] == "preparing"
    agent.decide(state, CheckpointBad(T, "bad", "a hash differs"), 1.0)
    again = {"task": T, "do": "claim", "argv": ["x"], "resume": {"step": 9, "key": "bad", "how": "renamed"}}
    body, acts = exchange(state, duties=[again])
    assert [each["key"] for each in body["bad_checkpoints"]] == ["bad"]
    assert acts[1:] == [], "the same one is not tried again"
    other = dict(again, resume={"step": 8, "key": "good", "how": "renamed"})
    _, acts = exchange(state, duties=[other])
    assert [act.claim.resume and act.claim.resume.key for act in acts if isinstance(act, Hold)] == ["good"]
    agent.decide(state, Held(T), 2.0)
    assert phase(state) == "claimed"


def test_the_machine_s_notice_stops_all_that_runs_and_names_the_cause() -> None:
    state = a_going()
    acts = agent.decide(state, NoticeHeard("reclaimed", 20.0), 5.0)
    assert acts == [Stop(T, 16.0, "reclaimed")]
    body, _ = exchange(state, now=6.0)
    assert body["notice"] == {"cause": "reclaimed", "seconds_left": 19.0}
    agent.decide(state, RankExited(T, Exit(0, 0, ours="stop")), 7.0)
    agent.decide(state, TaskOver(T), 7.0)
    assert state.tasks[T].outcome is not None
    assert state.tasks[T].outcome.cause == "reclaimed"
    exchange(state, now=8.0, duties=[{"task": "job2/1/0", "do": "claim", "argv": ["x"]}])
    assert state.tasks["job2/1/0"].phase == "refused"
    exchange(state, now=200.0, duties=[{"task": "job3/1/0", "do": "claim", "argv": ["x"]}])
    assert state.tasks["job3/1/0"].phase == "holding"


def test_a_new_agent_salvages_what_ended_while_there_was_none() -> None:
    state = NodeState("n1", "local")
    acts = agent.decide(state, KeeperListed([Kept(T, "over", lost=True, leftovers=True)]), 0.0)
    assert Salvage(T, "killed") in acts
    exchange(state)
    assert phase(state) == "over"
    agent.decide(state, Salvaged(T), 1.0)
    assert phase(state) == "ended"


@pytest.mark.parametrize(("exits", "lost", "end"), [
    ([Exit(0, signal=9), Exit(1, 1)], False, "abrupt"),
    ([Exit(1, 1), Exit(0, signal=15, ours="stop")], False, "killed"),
    ([Exit(0, signal=9)], True, "killed"),
    ([Exit(0, 1)], False, "failed"),
    ([Exit(0, 143, ours="lease")], False, "notice"),
    ([Exit(1, 1), Exit(0, 143, ours="stop")], False, "failed"),
])  # fmt: skip
def test_a_kill_from_outside_is_told_from_one_that_followed_a_failure(exits: list[Exit], lost: bool, end: str) -> None:
    assert how_ended(exits, lost, noticed=False) == end


# --- who saves in a gang ----------------------------------------------------------------------------------------------


def a_gang() -> NodeState:
    state = a_task(nodes=2)
    agent.decide(state, Held(T), 0.0)
    exchange(state, duties=[{"task": T, "do": "go"}])
    agent.decide(state, Spawned(T, 1.0), 1.0)
    state.storage = "m"
    exchange(state)
    return state


def test_a_task_that_has_written_nothing_answers_at_once_that_others_saved() -> None:
    state = a_gang()
    exchange(state, saved={T: 15, "gone/1/1": 15})
    assert agent.next_call(state, 1.0)
    body, _ = exchange(state)
    assert body["idle"] == {T: 15}
    body, _ = exchange(state)
    assert "idle" not in body, "it is said once"
    body = sync_of(state, {}, 1.0)
    exchange(state, saved={T: 30})
    lost = sync_of(state, {}, 1.0)
    assert lost["idle"] == {T: 30}
    agent.decide(state, NotAnswered(lost["seq"]), 1.0)
    assert exchange(state)[0]["idle"] == {T: 30}, "and again where nobody heard it"


def test_a_task_that_still_has_nothing_a_while_later_says_that_too() -> None:
    state = a_gang()
    exchange(state, saved={T: 15})
    assert "still_idle" not in exchange(state)[0]
    assert "still_idle" not in exchange(state, now=20.0, saved={T: 15})[0]
    lost = sync_of(state, {}, 21.0)
    assert lost["still_idle"] == {T: 15}, "since it heard of it first"
    agent.decide(state, NotAnswered(lost["seq"]), 21.0)
    assert exchange(state, now=22.0)[0]["still_idle"] == {T: 15}
    assert "still_idle" not in exchange(state, now=23.0)[0], "it is said once"
    exchange(state, now=24.0, saved={T: 30})
    agent.decide(state, Wrote(T), 25.0)
    assert "still_idle" not in exchange(state, now=99.0)[0], "it has begun"


def test_who_has_begun_to_write_or_may_have_does_not_answer() -> None:
    state = a_gang()
    agent.decide(state, Wrote(T), 1.0)
    exchange(state, saved={T: 15})
    assert "idle" not in exchange(state)[0]
    asked = a_gang()
    exchange(asked, saved={T: 15})
    agent.decide(asked, Wrote(T), 1.0)
    assert "idle" not in exchange(asked)[0], "it began in between"
    anew = NodeState("n1", "local", storage="m")
    agent.decide(anew, KeeperListed([Kept(T, "going")]), 0.0)
    exchange(anew, saved={T: 15})
    assert "idle" not in exchange(anew)[0], "an agent before this one would know"


def test_the_end_of_a_gangs_task_says_whether_it_ever_wrote_anything() -> None:
    for exits, said in (
        ([Exit(0, 0)], {"idle": True, "cut_off": False}),
        ([Exit(0, None, 15, "stop")], {"idle": True, "cut_off": False}),
        ([Exit(0, None, 9, "stop")], {"idle": True, "cut_off": True}),
        ([Exit(0, 1)], {"idle": True, "cut_off": True}),
    ):
        state = a_gang()
        for each in exits:
            agent.decide(state, RankExited(T, each), 2.0)
        agent.decide(state, TaskOver(T, {}), 2.0)
        (report,) = exchange(state)[0]["reports"]
        assert {word: report["outcome"].get(word, False) for word in said} == said
    state = a_gang()
    agent.decide(state, Wrote(T), 1.0)
    agent.decide(state, RankExited(T, Exit(0, 0)), 2.0)
    agent.decide(state, TaskOver(T, {}), 2.0)
    (report,) = exchange(state)[0]["reports"]
    assert "idle" not in report["outcome"]
