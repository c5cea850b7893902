"""The life of a job: every state meets every signal, on time, late, and from another attempt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headway.core.invariants import broken_between, broken_in, untagged
from headway.core.job.lifecycle import charged, only_saves, place_kept, step
from headway.core.job.signals import (
    CancelAsked,
    CanNeverRun,
    Claimed,
    ClaimOverdue,
    MovedUp,
    NodeLost,
    PendingOver,
    Placed,
    PrepareFailed,
    Progressed,
    RanksOver,
    Refused,
    ResumeSpoiled,
    RetryAsked,
    Seat,
    Signal,
    SpecChanged,
    Stayed,
    StopDecided,
    Tagged,
    TaskEnded,
    TaskMissing,
)
from headway.core.job.states import FOLLOWS, HEARS, TASK_FOLLOWS
from headway.core.model import Cause, Job, Outcome, Phase, State
from tests.builders import (
    BROKEN,
    FINE,
    NOW,
    a_job,
    a_spec,
    after,
    cancelled,
    failed,
    placed,
    running,
    seats,
    stopping,
    succeeded,
)

FILES_LOST = replace(FINE, cause=Cause.FILES_LOST, detail="storage was away")


def saving(job: Job | None = None) -> Job:
    return after(running(job), RanksOver(1, 0, replace(FINE, over_at=NOW)))


STATES: dict[str, Callable[[], Job]] = {
    "queued": a_job,
    "backing off": lambda: failed(a_job(retries_max=3)),
    "starting": placed,
    "running": running,
    "saving": lambda: saving(),
    "stopping": stopping,
    "cancelling": lambda: stopping(cause=Cause.CANCELLED),
    "succeeded": succeeded,
    "failed": failed,
    "cancelled": cancelled,
}
SIGNALS: dict[str, Callable[[int], Signal]] = {
    "placed": lambda attempt: seats("n1"),
    "claimed": lambda attempt: Claimed(attempt, 0, "host", 4000),
    "moved up": MovedUp,
    "refused": lambda attempt: Refused(attempt, 0, "no directory"),
    "overdue": ClaimOverdue,
    "not prepared": lambda attempt: PrepareFailed(attempt, 0, Cause.INPUT_MISSING, "no data"),
    "spoiled": lambda attempt: ResumeSpoiled(attempt, 7, "bad hash"),
    "progressed": lambda attempt: Progressed(attempt, 9),
    "ended well": lambda attempt: TaskEnded(attempt, 0, FINE),
    "was done": lambda attempt: TaskEnded(attempt, 0, replace(FINE, unasked=True)),
    "ended badly": lambda attempt: TaskEnded(attempt, 0, BROKEN),
    "ranks over": lambda attempt: RanksOver(attempt, 0, FINE),
    "ranks failed": lambda attempt: RanksOver(attempt, 0, BROKEN),
    "files lost": lambda attempt: TaskEnded(attempt, 0, FILES_LOST),
    "stayed": lambda attempt: Stayed(attempt, 0, BROKEN, 1800.0),
    "missing": lambda attempt: TaskMissing(attempt, 0),
    "node lost": lambda attempt: NodeLost(attempt, "n1", "gone"),
    "other node lost": lambda attempt: NodeLost(attempt, "n2", "gone"),
    "node anew": lambda attempt: NodeLost(attempt, "n1", "was started anew", started_anew=True),
    "cancel": lambda attempt: CancelAsked("ada"),
    "drop": lambda attempt: CancelAsked("ada", drop_files=True),
    "stop": lambda attempt: StopDecided(attempt, Cause.TIME_LIMIT, "limit"),
    "retry": lambda attempt: RetryAsked(),
    "never": lambda attempt: CanNeverRun("no pool has 99 gpus"),
    "changed": lambda attempt: SpecChanged(a_spec(priority=7)),
    "tagged": lambda attempt: Tagged((("team", "vision"),)),
    "waited": lambda attempt: PendingOver("limit 1 h"),
}
# What each signal makes of each state. A dot: it is not heard, and the very same job comes back.
BECOMES = """
                 queued    backing off starting  running    saving     stopping   cancelling succeeded failed cancelled
placed           starting  starting    .         .          .          .          .          .         .      .
claimed          .         .           running   .          .          .          .          .         .      .
moved up         .         .           .         .          .          .          .          .         .      .
refused          .         .           queued    .          .          .          .          .         .      .
overdue          .         .           stopping  .          .          .          .          .         .      .
not prepared     .         .           failed    .          .          .          .          .         .      .
spoiled          .         .           starting  .          .          .          .          .         .      .
progressed       .         .           .         running    running    stopping   stopping   .         .      .
ended well       .         .           .         succeeded  succeeded  failed     cancelled  .         .      .
was done         .         .           .         succeeded  succeeded  succeeded  cancelled  .         .      .
ended badly      .         .           .         failed     failed     failed     cancelled  .         .      .
ranks over       .         .           .         running    .          stopping   stopping   .         .      .
ranks failed     .         .           .         stopping   .          stopping   stopping   .         .      .
files lost       .         .           .         queued     queued     failed     cancelled  .         .      .
stayed           .         .           .         stopping   .          .          .          .         .      .
missing          .         .           .         queued     queued     failed     cancelled  .         .      .
node lost        .         .           queued    queued     queued     failed     cancelled  .         .      .
other node lost  .         .           .         .          .          .          .          .         .      .
node anew        .         .           queued    queued     .          failed     cancelled  .         .      .
cancel           cancelled cancelled   stopping  stopping   .          stopping   .          .         .      .
drop             cancelled cancelled   stopping  stopping   cancelled  stopping   .          .         .      .
stop             .         .           stopping  stopping   stopping   .          .          .         .      .
retry            .         queued      .         .          .          .          .          .         .      .
never            failed    failed      .         .          .          .          .          .         .      .
changed          queued    queued      .         .          .          .          .          .         .      .
tagged           queued    queued      starting  running    running    stopping   stopping   succeeded failed cancelled
waited           failed    failed      .         .          .          .          .          .         .      .
"""


def cells() -> list[tuple[str, str, str]]:
    rows = BECOMES.strip("\n").splitlines()
    found = []
    for row in rows[1:]:
        signal, words = row[:17].strip(), row[17:].split()
        found += [(state, signal, word) for state, word in zip(STATES, words, strict=True)]
    return found


def test_the_table_is_complete() -> None:
    assert [signal for state, signal, _ in cells() if state == "queued"] == list(SIGNALS)
    assert {type(make(1)).__name__ for make in SIGNALS.values()} == {name for names in HEARS.values() for name in names}
    assert set(FOLLOWS) == set(HEARS) == set(State)
    assert set(TASK_FOLLOWS) == set(Phase)


@pytest.mark.parametrize(("state", "signal", "becomes"), cells())
def test_each_state_meets_each_signal(state: str, signal: str, becomes: str) -> None:
    job = STATES[state]()
    then = step(job, SIGNALS[signal](job.number), NOW)
    if becomes == ".":
        assert then is job
    else:
        assert then.state.value == becomes
        assert then != job
    assert not broken_in(then)
    assert not broken_between(job, then)


@pytest.mark.parametrize("other", [-1, 1, 7], ids=["older", "newer", "much newer"])
@pytest.mark.parametrize(("state", "signal"), [(state, signal) for state, signal, _ in cells()])
def test_a_signal_of_another_attempt_is_not_heard(state: str, signal: str, other: int) -> None:
    job = STATES[state]()
    said = SIGNALS[signal](job.number + other)
    if hasattr(said, "attempt"):
        assert step(job, said, NOW) is job


@pytest.mark.parametrize("task", [-1, 1, 10**9])
@pytest.mark.parametrize("make", [placed, running, stopping])
def test_a_task_that_the_attempt_does_not_have_is_not_heard(make: Callable[[], Job], task: int) -> None:
    job = make()
    said: list[Signal] = [Claimed(1, task), Refused(1, task), TaskEnded(1, task, BROKEN), TaskMissing(1, task)]
    assert all(step(job, signal, NOW) is job for signal in said)


def test_each_signal_twice_is_each_signal_once() -> None:
    for state, signal, becomes in cells():
        job = STATES[state]()
        said = SIGNALS[signal](job.number)
        once = step(job, said, NOW)
        twice = step(once, said, NOW)
        assert twice is once or becomes == ".", f"{signal} twice on {state}"


# --- saving ---


def test_what_only_saves_holds_no_place_and_is_not_over() -> None:
    job = saving()
    assert (job.state, job.seated, len(job.alive)) == (State.RUNNING, (), 1)
    assert only_saves(job)
    assert not only_saves(running())


def test_nothing_succeeds_whose_files_are_not_kept() -> None:
    for end in (NodeLost(1, "n1", "gone"), TaskMissing(1, 0), TaskEnded(1, 0, FILES_LOST)):
        assert step(saving(), end, NOW).state is State.QUEUED
        stopped = after(saving(), StopDecided(1, Cause.PREEMPTED))
        assert step(stopped, end, NOW).state is State.QUEUED


def test_a_gang_goes_on_while_one_of_its_tasks_saves() -> None:
    job = after(running(a_job(nodes=2), "n1", "n2"), RanksOver(1, 0, FINE))
    assert (job.state, [task.index for task in job.seated]) == (State.RUNNING, [1])
    assert after(job, TaskEnded(1, 1, FINE)).state is State.RUNNING
    assert after(job, TaskEnded(1, 1, FINE), TaskEnded(1, 0, FINE)).state is State.SUCCEEDED


def test_the_time_of_an_attempt_ends_with_its_ranks() -> None:
    job = step(saving(), TaskEnded(1, 0, FINE), NOW + 3600)
    assert job.attempt is not None
    assert (job.attempt.over_at, job.attempt.ended_at) == (NOW, NOW + 3600)


def test_a_failed_task_is_tried_again_only_when_what_it_saved_is_kept() -> None:
    job = after(running(a_job(retries_max=3)), RanksOver(1, 0, BROKEN))
    assert (job.state, job.seated) == (State.STOPPING, ())
    assert not place_kept(job)
    assert after(job, TaskEnded(1, 0, BROKEN)).state is State.QUEUED


def test_what_a_node_that_was_started_anew_still_has_is_not_lost() -> None:
    job = step(saving(), NodeLost(1, "n1", "was started anew", started_anew=True), NOW)
    assert step(job, TaskEnded(1, 0, FINE), NOW).state is State.SUCCEEDED


def test_what_had_ended_before_its_machine_was_started_anew_goes_on_though_nobody_had_heard_of_it() -> None:
    anew = NodeLost(1, "n1", "was started anew", started_anew=True, over=frozenset({0}))
    job = running()
    assert step(job, anew, NOW) is job
    assert step(job, replace(anew, over=frozenset({1})), NOW).state is State.QUEUED
    early = placed(a_job())
    assert step(early, anew, NOW) is early
    assert step(early, replace(anew, over=frozenset()), NOW).state is State.QUEUED


# --- starting ---


def test_placing_raises_the_number_and_forgets_the_last_end() -> None:
    job = failed(a_job(retries_max=3))
    again = after(job, Placed((Seat("n5", (2, 3)),)), now=NOW + 60)
    assert again.number == 2
    assert again.attempt is not None
    assert (again.attempt.tasks[0].node, again.attempt.tasks[0].gpus) == ("n5", (2, 3))
    assert (again.cause, again.detail, again.not_before) == (None, "", 0.0)
    assert again.retries.user == 1


def test_a_gang_goes_only_when_all_have_claimed() -> None:
    job = placed(a_job(nodes=3))
    for index, others in ((2, "starting"), (0, "starting"), (1, "running")):
        job = after(job, Claimed(1, index, f"host{index}", 4000 + index), now=NOW + index)
        assert job.state.value == others
    assert job.attempt is not None
    assert {task.phase for task in job.attempt.tasks} == {Phase.GOING}
    assert [(task.address, task.port) for task in job.attempt.tasks] == [(f"host{i}", 4000 + i) for i in range(3)]
    assert job.attempt.started_at == NOW + 1


def test_a_refusal_after_the_claim_changes_nothing() -> None:
    job = after(placed(a_job(nodes=2)), Claimed(1, 0))
    assert step(job, Refused(1, 0), NOW) is job


@pytest.mark.parametrize(
    "signal", [Refused(1, 1, "full"), NodeLost(1, "n2"), ClaimOverdue(1)], ids=["refused", "lost", "overdue"]
)
def test_what_does_not_start_gives_every_place_back_and_charges_nobody(signal: Signal) -> None:
    job = after(placed(a_job(nodes=3)), Claimed(1, 0), Claimed(1, 2), signal)
    assert job.state is State.QUEUED
    assert job.attempt is not None
    assert {task.phase for task in job.attempt.tasks} == {Phase.RELEASED}
    assert (job.cause, job.avoid, job.retries.user) == (Cause.NEVER_STARTED, ("n2",), 0)
    assert not job.alive


def refused(attempt: int, elsewhere: bool) -> Refused:
    return Refused(attempt, 0, "there is no /data", cause=Cause.WORKDIR_MISSING, elsewhere=elsewhere)


def test_a_refusal_for_the_jobs_own_sake_ends_it_where_there_is_no_other_node() -> None:
    job = after(placed(a_job(retries_max=5)), refused(1, elsewhere=False))
    assert (job.state, job.cause, job.number) == (State.FAILED, Cause.WORKDIR_MISSING, 1)
    assert job.detail.startswith("on n1 there is no /data")


def test_a_refusal_for_the_jobs_own_sake_is_tried_on_other_nodes_but_not_on_all_of_them() -> None:
    job = after(placed(a_job()), refused(1, elsewhere=True))
    assert (job.state, job.cause, job.avoid) == (State.QUEUED, Cause.NEVER_STARTED, ("n1",))
    job = after(job, seats("n2"), refused(2, elsewhere=True), now=NOW + 10)
    assert (job.state, job.avoid) == (State.QUEUED, ("n1", "n2"))
    job = after(job, seats("n3"), refused(3, elsewhere=True), now=NOW + 20)
    assert (job.state, job.cause) == (State.FAILED, Cause.WORKDIR_MISSING)


def test_a_job_that_saved_a_step_is_tried_elsewhere_again_however_often_it_lost_its_node() -> None:
    job = placed(a_job())
    for number in range(1, 5):
        job = after(job, Claimed(number, 0), now=NOW + 1000 * number)
        assert job.attempt is not None
        job = replace(job, attempt=replace(job.attempt, committed_step=number))
        job = after(job, NodeLost(number, "n1"), seats("n1"), now=NOW + 1000 * number + 500)
    assert after(job, refused(5, elsewhere=True), now=NOW + 9000).state is State.QUEUED


def test_the_nodes_to_avoid_are_the_newest_few() -> None:
    job = a_job()
    for number in range(12):
        job = after(job, seats(f"n{number}"), NodeLost(number + 1, f"n{number}"), now=NOW + 1000 * number)
    assert job.avoid == tuple(f"n{number}" for number in range(4, 12))
    job = after(job, seats("n5"), NodeLost(13, "n5"), now=NOW + 20_000)
    assert job.avoid == ("n4", *(f"n{number}" for number in range(6, 12)), "n5")


# --- ending ---


def test_a_gang_succeeds_when_its_last_task_does() -> None:
    job = after(running(a_job(nodes=2)), TaskEnded(1, 1, FINE))
    assert job.state is State.RUNNING
    job = after(job, TaskEnded(1, 0, FINE), now=NOW + 9)
    assert (job.state, job.cause, job.ended_at) == (State.SUCCEEDED, None, NOW + 9)
    assert job.attempt is not None
    assert (job.attempt.exit_code, job.attempt.ended_at) == (0, NOW + 9)


def test_the_first_cause_wins_and_the_rest_is_its_echo() -> None:
    job = after(running(a_job(nodes=3)), TaskEnded(1, 1, BROKEN))
    assert (job.state, job.cause, job.stop_by) == (State.STOPPING, Cause.USER_CODE, NOW + 30)
    killed = replace(BROKEN, exit_code=None, signal=9, cause=Cause.KILLED, detail="followed")
    job = after(job, TaskEnded(1, 0, killed), NodeLost(1, "n3"))
    assert (job.state, job.cause, job.detail) == (State.FAILED, Cause.USER_CODE, "n2: ValueError: no")
    assert job.attempt is not None
    assert [task.phase.value for task in job.attempt.tasks] == ["ended", "ended", "lost"]
    assert (job.attempt.exit_code, job.attempt.cause) == (1, Cause.USER_CODE)


def test_a_job_that_was_done_before_its_preemption_has_succeeded() -> None:
    done = replace(FINE, unasked=True)
    job = after(stopping(a_job(nodes=2), cause=Cause.PREEMPTED), TaskEnded(1, 0, done), TaskEnded(1, 1, done))
    assert (job.state, job.cause, job.detail, job.stop_by) == (State.SUCCEEDED, None, "", None)
    assert job.attempt is not None
    assert (job.attempt.cause, job.attempt.exit_code, job.retries.capacity) == (None, 0, 0)
    # Where one of a gang ended well only after it was told, the work may be half done.
    job = after(stopping(a_job(nodes=2), cause=Cause.PREEMPTED), TaskEnded(1, 0, done), TaskEnded(1, 1, FINE))
    assert (job.state, job.cause) == (State.QUEUED, Cause.PREEMPTED)


def test_a_cancel_outranks_every_other_cause_and_is_never_tried_again() -> None:
    job = after(stopping(a_job(retries_max=9, nodes=2), cause=Cause.PREEMPTED), CancelAsked("ada"))
    assert (job.state, job.cause, job.detail) == (State.STOPPING, Cause.CANCELLED, "asked by ada")
    job = after(job, TaskEnded(1, 0, BROKEN), TaskEnded(1, 1, FINE))
    assert (job.state, job.cause) == (State.CANCELLED, Cause.CANCELLED)


@pytest.mark.parametrize(
    ("first_s", "second_s", "left_s"),
    [(30, 5, 5), (5, 30, 5), (30, None, 30), (30, 30, 30), (None, 0, 0)],
)
def test_a_second_cancel_makes_the_grace_shorter_never_longer(
    first_s: float | None, second_s: float | None, left_s: float
) -> None:
    job = after(running(), CancelAsked("ada", first_s), CancelAsked("bob", second_s))
    assert job.stop_by == NOW + left_s
    assert job.detail == "asked by ada"


@pytest.mark.parametrize(("asked_s", "left_s"), [(None, 10), (99, 10), (3, 3)])
def test_to_cancel_what_is_stopping_does_not_lengthen_its_grace(asked_s: float | None, left_s: float) -> None:
    job = after(running(), StopDecided(1, Cause.PREEMPTED, "", 10), CancelAsked("ada", asked_s))
    assert job.stop_by == NOW + left_s
    assert job.cause is Cause.CANCELLED


def test_a_lost_node_takes_all_its_tasks_and_no_others() -> None:
    job = after(running(a_job(nodes=3), "n1", "n2", "n1"), NodeLost(1, "n1", "power cut"))
    assert job.state is State.STOPPING
    assert [task.node for task in job.alive] == ["n2"]
    job = after(job, TaskEnded(1, 1, BROKEN))
    assert (job.state, job.cause, job.detail) == (State.QUEUED, Cause.NODE_LOST, "power cut")
    assert (job.avoid, job.retries.platform, job.retries.user) == (("n1",), 1, 0)


def test_a_kept_place_is_given_back_on_request_and_the_job_still_failed_by_itself() -> None:
    kept = after(running(), Stayed(1, 0, BROKEN, 1800.0))
    assert (kept.state, kept.cause, kept.stop_by) == (State.STOPPING, Cause.USER_CODE, NOW + 1800)
    assert place_kept(kept)
    assert len(kept.alive) == 1
    given_back = after(kept, CancelAsked("ada"))
    assert (given_back.cause, given_back.stop_by) == (Cause.USER_CODE, NOW)
    ended = after(given_back, TaskEnded(1, 0, BROKEN))
    assert (ended.state, ended.cause) == (State.FAILED, Cause.USER_CODE)
    assert after(kept, NodeLost(1, "n1", "gone")).state is State.FAILED
    assert not place_kept(stopping())


def test_a_finished_job_never_changes_whatever_is_said() -> None:
    for end in (succeeded(), failed(), cancelled()):
        for make in SIGNALS.values():
            said = make(end.number)
            then = step(end, said, NOW + 5)
            assert then is end or isinstance(said, Tagged)
            assert untagged(then, end) == end


def test_only_the_users_own_ends_are_charged() -> None:
    assert charged(failed())
    assert not charged(after(running(), NodeLost(1, "n1")))
    assert not charged(a_job())


def failing(rank: int, failed_at: float | None, detail: str = "") -> Outcome:
    said = detail or f"rank {rank} ended with exit code 1: boom"
    return Outcome(exit_code=1, rank=rank, cause=Cause.USER_CODE, detail=said, failed_at=failed_at)


def test_a_gang_names_the_rank_that_failed_first_with_its_node() -> None:
    gang = running(a_job(nodes=3), "n1", "n2", "n3")
    ends = TaskEnded(1, 0, failing(0, NOW - 1)), TaskEnded(1, 2, failing(2, NOW - 5)), TaskEnded(1, 1, failing(1, None))
    ended = after(gang, *ends)
    assert (ended.state, ended.cause) == (State.FAILED, Cause.USER_CODE)
    assert ended.detail == "rank 2 on n3 ended with exit code 1: boom"
    told = failing(0, NOW - 1, "error on rank 0 (rank 0, exit code 1)")
    assert after(gang, TaskEnded(1, 0, told)).detail == "error on rank 0 (rank 0 on n1, exit code 1)"
    assert after(gang, ends[0]).detail == "rank 0 on n1 ended with exit code 1: boom"


def test_what_ranks_do_after_a_decided_stop_does_not_name_the_cause() -> None:
    stopped = after(running(a_job(nodes=2), "n1", "n2"), StopDecided(1, Cause.TIME_LIMIT, "limit 1 h"))
    ended = after(stopped, TaskEnded(1, 0, failing(0, NOW - 1)), TaskEnded(1, 1, failing(1, NOW - 2)))
    assert (ended.cause, ended.detail) == (Cause.TIME_LIMIT, "limit 1 h")


@pytest.mark.parametrize(
    ("loss", "cause"),
    [
        (NodeLost(1, "n2", "n2 is gone"), Cause.NODE_LOST),
        (TaskMissing(1, 1), Cause.NODE_LOST),
        (TaskEnded(1, 1, Outcome(cause=Cause.OUTCOME_LOST)), Cause.OUTCOME_LOST),
    ],
)
def test_ranks_that_fail_because_their_peer_is_gone_cost_no_retry(loss: Signal, cause: Cause) -> None:
    gang = running(a_job(nodes=2), "n1", "n2")
    again = after(gang, TaskEnded(1, 0, failing(0, NOW - 1, "rank 0 ended: connection closed by peer")), loss)
    assert (again.state, again.cause) == (State.QUEUED, cause)
    assert (again.retries.user, again.retries.platform) == (0, 1)
    assert "n2" in again.detail
