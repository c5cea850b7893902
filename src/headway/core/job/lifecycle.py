"""The life of one job: which signal does what to it, and how an attempt settles.

Everything that changes a job is in this file, behind one door: `step`. It reads no clock and touches nothing. Signals
come from control/; what may follow what is in states.py; whether to try again is asked of retry.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from headway.core.job import retry
from headway.core.job.causes import TABLE, Whose
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
    Signal,
    SpecChanged,
    Stayed,
    StopDecided,
    Tagged,
    TaskEnded,
    TaskMissing,
)
from headway.core.job.states import HEARS
from headway.core.model import Attempt, Cause, Job, NodeId, Outcome, Phase, State, Task
from headway.core.records import replace

AVOID_MOST = 8
ON_NODE = (Phase.GOING, Phase.SAVING)
NOT_BEGUN = (Cause.NEVER_STARTED, Cause.OUTCOME_LOST, Cause.NODE_LOST, Cause.CANCELLED, Cause.RECLAIMED)
"""Causes from a node of a task that never began, or was ended by somebody else than itself."""


def step(job: Job, signal: Signal, now: float) -> Job:
    """Return what this fact makes of the job. A signal that is late or not heard returns the very same job."""
    handler = _HANDLERS[job.state].get(type(signal))
    if handler is None:
        return job
    attempt = getattr(signal, "attempt", None)
    if attempt is not None and attempt != job.number:
        return job
    return handler(job, signal, now)


# --- queued ---------------------------------------------------------------------------------------------------------


def _placed(job: Job, signal: Placed, now: float) -> Job:
    # A larger number fences the old attempt: whatever it still sends is refused from here on.
    tasks = tuple(Task(index, seat.node, seat.gpus) for index, seat in enumerate(signal.seats))
    if signal.behind:
        tasks = tuple(replace(task, phase=Phase.BEHIND, address=signal.behind) for task in tasks)
    attempt = Attempt(number=job.number + 1, tasks=tasks, placed_at=now, resumed_step=signal.resumed_step)
    return replace(
        job, state=State.STARTING, attempt=attempt, cause=None, detail="", not_before=0.0, stop_by=None, grace_s=None
    )


def _cancel_queued(job: Job, signal: CancelAsked, now: float) -> Job:
    return _end(job, State.CANCELLED, Cause.CANCELLED, _by(signal), now)


def _retry_now(job: Job, signal: RetryAsked, now: float) -> Job:
    return replace(job, not_before=0.0) if job.not_before > now else job


def _can_never_run(job: Job, signal: CanNeverRun, now: float) -> Job:
    if signal.needless:
        return _end(job, State.CANCELLED, Cause.NOT_NEEDED, signal.detail, now)
    return _end(job, State.FAILED, Cause.BAD_SPEC, signal.detail, now)


def _spec_changed(job: Job, signal: SpecChanged, now: float) -> Job:
    return job if signal.spec == job.spec else replace(job, spec=signal.spec)


def _tagged(job: Job, signal: Tagged, now: float) -> Job:
    return job if signal.tags == job.spec.tags else replace(job, spec=replace(job.spec, tags=signal.tags))


def _pending_over(job: Job, signal: PendingOver, now: float) -> Job:
    return _end(job, State.FAILED, Cause.PENDING_LIMIT, signal.detail, now)


# --- starting ---------------------------------------------------------------------------------------------------------
# Of several tasks none begins before `go`, so everything can be given back at once. A single one begins as soon as its
# node has it: once it was told of it, only its node's word, or its death, ends it.


def begins_alone(job: Job) -> bool:
    """Whether its task begins as soon as a node has it: it is the only one, and need not know of any other."""
    return len(_current(job).tasks) == 1


def _claimed(job: Job, signal: Claimed, now: float) -> Job:
    attempt = _current(job)
    task = _task_in(job, signal.task, Phase.PLACED, Phase.BEHIND)
    if task is None:
        return job
    if task.phase is Phase.BEHIND:  # Its place is its own only from now on.
        attempt = replace(attempt, placed_at=max(attempt.placed_at, now - signal.began_ago_s))
    taken = replace(task, phase=Phase.CLAIMED, address=signal.address, port=signal.port)
    tasks = _with(attempt.tasks, taken)
    if any(each.phase is not Phase.CLAIMED for each in tasks):
        return replace(job, attempt=replace(attempt, tasks=tasks))
    going = tuple(replace(each, phase=Phase.GOING) for each in tasks)
    began_at = max(attempt.placed_at, now - signal.began_ago_s) if signal.began_ago_s else now
    return replace(job, state=State.RUNNING, attempt=replace(attempt, tasks=going, started_at=began_at))


def _begun_after_all(job: Job, signal: Claimed, now: float) -> Job:
    """It is to stop, and has meanwhile begun in the place of the task before it."""
    task = _task_in(job, signal.task, Phase.BEHIND)
    return job if task is None else _moved_up(job, MovedUp(signal.attempt), now)


def _moved_up(job: Job, signal: MovedUp, now: float) -> Job:
    attempt = _current(job)
    task = _task_in(job, 0, Phase.BEHIND)
    if task is None or task.behind == signal.behind:
        return job
    if signal.behind:
        return replace(job, attempt=replace(attempt, tasks=(replace(task, address=signal.behind),)))
    seated = replace(task, phase=Phase.PLACED if job.state is State.STARTING else Phase.GOING, address="")
    return replace(job, attempt=replace(attempt, tasks=(seated,), placed_at=now))


def _called_back(job: Job, now: float) -> Job:
    """It never began, and that is nobody's fault: it waits where it waited before."""
    released = _release_all(job, Cause.NEVER_STARTED, "called back before it began", now)
    return replace(released, state=State.QUEUED, stop_by=None, grace_s=None)


def _refused(job: Job, signal: Refused, now: float) -> Job:
    task = _task_in(job, signal.task, Phase.PLACED, Phase.BEHIND)
    if task is None:
        return job  # A claim outweighs a refusal that comes after it.
    if signal.called_back:
        return _called_back(job, now)
    if signal.cause is not None and retry.refusal_is_final(job, signal.elsewhere, now):
        return _ended_unprepared(job, signal.cause, f"on {task.node} {signal.detail}", now)
    return _never_started(job, f"{task.node} refused it: {signal.detail}", (task.node,), now)


def _claim_overdue(job: Job, signal: ClaimOverdue, now: float) -> Job:
    late = tuple(task.node for task in _current(job).tasks if task.phase is Phase.PLACED)
    detail = f"not claimed in time by {', '.join(late)}"
    if signal.told and begins_alone(job):
        return _begin_stop(_may_run(replace(job, avoid=_avoiding(job, late))), Cause.NEVER_STARTED, detail, now, 0.0)
    return _never_started(job, detail, late, now)


def _prepare_failed(job: Job, signal: PrepareFailed, now: float) -> Job:
    if _task_in(job, signal.task, Phase.PLACED, Phase.BEHIND) is None:
        return job
    return _ended_unprepared(job, signal.cause, signal.detail, now)


def _ended_unprepared(job: Job, cause: Cause, detail: str, now: float) -> Job:
    released = _release_all(job, cause, detail, now)
    return _settle(replace(released, cause=cause, detail=detail), now, ())


def _resume_spoiled(job: Job, signal: ResumeSpoiled, now: float) -> Job:
    attempt = _current(job)
    if len(attempt.tasks) > 1:
        # The others may have restored the damaged step already. A new attempt gives all of them the same one again.
        return _never_started(job, signal.detail, (), now)
    if attempt.resumed_step == signal.step:
        return job
    return replace(job, attempt=replace(attempt, resumed_step=signal.step))


def _lost_while_starting(job: Job, signal: NodeLost, now: float) -> Job:
    hit = [task for task in _current(job).tasks if task.node == signal.node and task.index not in signal.over]
    if not hit:
        return job
    return _never_started(job, f"{signal.node} was lost before the start: {signal.detail}", (signal.node,), now)


def _cancel_starting(job: Job, signal: CancelAsked, now: float) -> Job:
    if signal.told and begins_alone(job):
        return _begin_stop(_may_run(job), Cause.CANCELLED, _by(signal), now, signal.grace_s)
    return _end(
        _release_all(job, Cause.CANCELLED, _by(signal), now), State.CANCELLED, Cause.CANCELLED, _by(signal), now
    )


def _stop_starting(job: Job, signal: StopDecided, now: float) -> Job:
    """Only of a single task that its node was told of: it ends it, or says that it never had it."""
    return _begin_stop(_may_run(job), signal.cause, signal.detail, now, signal.grace_s) if begins_alone(job) else job


def _may_run(job: Job) -> Job:
    """Its node was told of it, and may have begun it without our having heard so."""
    attempt = _current(job)
    if job.lined:
        return job  # And has no place yet; it is heard of when it takes one.
    return replace(job, attempt=replace(attempt, tasks=tuple(replace(t, phase=Phase.GOING) for t in attempt.tasks)))


def _never_started(job: Job, detail: str, avoid: Iterable[NodeId], now: float) -> Job:
    released = _release_all(job, Cause.NEVER_STARTED, detail, now)
    return _settle(replace(released, cause=Cause.NEVER_STARTED, detail=detail), now, avoid)


def _release_all(job: Job, cause: Cause, detail: str, now: float) -> Job:
    attempt = _current(job)
    tasks = tuple(replace(task, phase=Phase.RELEASED) for task in attempt.tasks)
    return replace(job, attempt=replace(attempt, tasks=tasks, ended_at=now, cause=cause, detail=detail))


# --- running and stopping -------------------------------------------------------------------------------------------


def _task_ended(job: Job, signal: TaskEnded, now: float) -> Job:
    return _task_moves(job, signal, Phase.ENDED, now)


def _ranks_over(job: Job, signal: RanksOver, now: float) -> Job:
    return _task_moves(job, signal, Phase.SAVING, now)


def _task_moves(job: Job, signal: TaskEnded | RanksOver, phase: Phase, now: float) -> Job:
    """The ranks of a task are over; `phase` says whether all that they wrote is kept too."""
    attempt, outcome = _current(job), signal.outcome
    task = _task_in(job, signal.task, *([Phase.GOING] if phase is Phase.SAVING else (*ON_NODE, Phase.BEHIND)))
    if task is None:
        return job
    if task.phase is Phase.SAVING and task.outcome is not None:
        outcome = replace(outcome, over_at=task.outcome.over_at, failed_at=task.outcome.failed_at)
    ended = replace(task, phase=phase, outcome=outcome)
    attempt = replace(attempt, tasks=_with(attempt.tasks, ended))
    overdue = job.state is State.STOPPING and job.cause is Cause.NEVER_STARTED and phase is Phase.ENDED
    if overdue and outcome.cause not in NOT_BEGUN:
        # Nobody had claimed it in time, but it had begun, and has ended by itself: only the news of it was late.
        job = replace(job, state=State.RUNNING, cause=None, detail="", grace_s=None, stop_by=None)
    if job.state is State.RUNNING and outcome.cause is not None:
        attempt = replace(attempt, exit_code=outcome.exit_code)
        job = replace(job, attempt=attempt)
        return _begin_stop(job, _cause_of(outcome), _told(attempt, ended), now)
    return _over(replace(job, attempt=attempt), now)


def _stayed(job: Job, signal: Stayed, now: float) -> Job:
    """It stops because of its failure; the time for which its place is kept is its grace."""
    attempt = _current(job)
    task = _task_in(job, signal.task, Phase.GOING)
    if task is None or signal.outcome.cause is None:
        return job
    failed = replace(task, outcome=signal.outcome)
    attempt = replace(attempt, tasks=_with(attempt.tasks, failed), exit_code=signal.outcome.exit_code)
    job = replace(job, attempt=attempt)
    return _begin_stop(job, _cause_of(signal.outcome), _told(attempt, failed), now, signal.left_s)


def place_kept(job: Job) -> bool:
    """Whether it has failed, and its place is kept for a look."""
    kept = job.state is State.STOPPING and job.attempt is not None
    return kept and any(task.outcome is not None and task.phase is Phase.GOING for task in _current(job).tasks)


def only_saves(job: Job) -> bool:
    """Whether nothing of it runs any more, and what it wrote is not all in storage yet."""
    return bool(job.alive) and not job.seated


def _told(attempt: Attempt, task: Task) -> str:
    """What is said of a task's end; in a gang, with the node on which it was."""
    outcome = task.outcome
    assert outcome is not None
    said = _with_labels(outcome)
    if len(attempt.tasks) == 1 or not said:
        return said
    rank = f"rank {outcome.rank}"
    before, found, after = said.rpartition(f"({rank}, ")
    if found:
        return f"{before}({rank} on {task.node}, {after}"
    return said.replace(rank, f"{rank} on {task.node}", 1) if said.startswith(f"{rank} ") else f"{task.node}: {said}"


def _first_to_fail(job: Job) -> Job:
    """A gang fails together, and reports come in any order: the one that failed first names the cause."""
    attempt = _current(job)
    failed = [task for task in attempt.tasks if task.outcome and task.outcome.failed_at and task.outcome.cause]
    named = [task for task in failed if (task.outcome and _cause_of(task.outcome), _told(attempt, task)) == _why(job)]
    lost = next((task for task in attempt.tasks if _is_lost(task)), None)
    if named and lost is not None:
        # A rank whose peer is gone fails with it; the news of the loss only travels more slowly.
        cause = Cause.NODE_LOST if lost.outcome is None else Cause.OUTCOME_LOST
        return replace(job, cause=cause, detail=f"its task on {lost.node} was lost, and the others failed with it")
    if len(failed) < 2 or not named:
        return job  # Something else ended it: a limit, a lost node, somebody's wish.
    first = min(failed, key=lambda task: (task.outcome and task.outcome.failed_at, task.index))
    assert first.outcome is not None
    cause, detail = _cause_of(first.outcome), _told(attempt, first)
    return replace(job, cause=cause, detail=detail, attempt=replace(attempt, exit_code=first.outcome.exit_code))


def _is_lost(task: Task) -> bool:
    """Whether a task ended without an outcome of its own."""
    return task.phase is Phase.LOST if task.outcome is None else task.outcome.cause is Cause.OUTCOME_LOST


def _why(job: Job) -> tuple[Cause | None, str]:
    return job.cause, job.detail


def _cause_of(outcome: Outcome) -> Cause:
    assert outcome.cause is not None
    asked = outcome.cause is Cause.USER_CODE and outcome.exit_code == retry.REQUEUE_EXIT_CODE
    return Cause.REQUEUE_ASKED if asked else outcome.cause


def _with_labels(outcome: Outcome) -> str:
    """The detail, with what the user's log policies call it."""
    labels = ", ".join(dict.fromkeys(label for label, _ in outcome.policies))
    return f"{outcome.detail} ({labels})" if labels and outcome.detail else outcome.detail or labels


def _progressed(job: Job, signal: Progressed, now: float) -> Job:
    attempt = _current(job)
    steps = [step for step in (attempt.seen_step, signal.seen_step, signal.committed_step) if step is not None]
    seen, committed = max(steps, default=None), attempt.committed_step
    if signal.committed_step is not None:
        newest = signal.committed_step if committed is None else max(committed, signal.committed_step)
        saved_at = now if signal.saved_at is None else min(now, max(signal.saved_at, attempt.started_at or 0.0))
        at = max(saved_at, attempt.committed_at or 0.0)
        return replace(job, attempt=replace(attempt, seen_step=seen, committed_step=newest, committed_at=at))
    return job if seen == attempt.seen_step else replace(job, attempt=replace(attempt, seen_step=seen))


def _task_missing(job: Job, signal: TaskMissing, now: float) -> Job:
    attempt = _current(job)
    task = _task_in(job, signal.task, *ON_NODE)
    if task is None:
        return job
    lost = replace(attempt, tasks=_with(attempt.tasks, replace(task, phase=Phase.LOST)))
    return _lost(replace(job, attempt=lost), Cause.OUTCOME_LOST, f"{task.node} no longer knows it", now, ())


def _node_lost(job: Job, signal: NodeLost, now: float) -> Job:
    attempt = _current(job)
    phases = (Phase.GOING, Phase.BEHIND) if signal.started_anew else (*ON_NODE, Phase.BEHIND)
    here = [task for task in attempt.tasks if task.node == signal.node and task.index not in signal.over]
    hit = [task for task in here if task.phase in phases]
    if not hit:
        return job
    tasks = attempt.tasks
    for task in hit:
        tasks = _with(tasks, replace(task, phase=Phase.LOST))
    heard_at = max(now - signal.silent_s, attempt.started_at or 0.0)
    job = replace(job, attempt=replace(attempt, tasks=tasks, seen_at=min(heard_at, attempt.seen_at or heard_at)))
    return _lost(job, Cause.NODE_LOST, signal.detail or signal.node, now, (signal.node,))


def _cancel_running(job: Job, signal: CancelAsked, now: float) -> Job:
    if signal.drop_files and (dropped := _dropped(job)) is not job:
        return _begin_stop(dropped, Cause.CANCELLED, _by(signal), now, signal.grace_s)
    if only_saves(job) and job.state is State.RUNNING:
        return job  # Its work is done, and worth keeping.
    if place_kept(job):  # It has ended by itself already: only its place is given back.
        return _shorten_grace(job, replace(signal, grace_s=signal.grace_s or 0.0), now)
    if job.state is State.STOPPING and job.cause is Cause.CANCELLED:
        return _shorten_grace(job, signal, now)
    grace_s = job.spec.grace_s if signal.grace_s is None else signal.grace_s
    if job.stop_by is not None:
        grace_s = min(grace_s, max(0.0, job.stop_by - now))  # Its ranks were told when their grace ends.
    return _begin_stop(job, Cause.CANCELLED, _by(signal), now, grace_s)


def _dropped(job: Job) -> Job:
    """What has ended is over, whatever of it is not in storage yet."""
    attempt = _current(job)
    for task in attempt.tasks:
        if task.phase is Phase.SAVING and task.outcome is not None:
            outcome = replace(task.outcome, unkept="its files were dropped on request")
            attempt = replace(attempt, tasks=_with(attempt.tasks, replace(task, phase=Phase.LOST, outcome=outcome)))
    return job if attempt is job.attempt else replace(job, attempt=attempt)


def _shorten_grace(job: Job, signal: CancelAsked, now: float) -> Job:
    """A second, more impatient cancel makes the grace shorter, never longer."""
    if signal.grace_s is None or job.stop_by is None or now + signal.grace_s >= job.stop_by:
        return job
    return replace(job, grace_s=signal.grace_s, stop_by=now + signal.grace_s)


def _stop_decided(job: Job, signal: StopDecided, now: float) -> Job:
    return _begin_stop(job, signal.cause, signal.detail, now, signal.grace_s)


def _begin_stop(job: Job, cause: Cause, detail: str, now: float, grace_s: float | None = None) -> Job:
    """Enter `stopping` with its cause. First cause wins: what happens to the other tasks from here on is its echo."""
    grace_s = job.spec.grace_s if grace_s is None else grace_s
    stopping = replace(job, state=State.STOPPING, cause=cause, detail=detail, grace_s=grace_s, stop_by=now + grace_s)
    return _over(stopping, now)


def _lost(job: Job, cause: Cause, detail: str, now: float, avoid: Iterable[NodeId]) -> Job:
    if job.state is State.RUNNING:
        job = replace(job, avoid=_avoiding(job, avoid))
        return _begin_stop(job, cause, detail, now)
    return _over(job, now)


def _over(job: Job, now: float) -> Job:
    """Settle the attempt once no task of it can be alive; until then nothing changes."""
    attempt = _current(job)
    if any(not task.over for task in attempt.tasks):
        return job
    if job.state is State.RUNNING or _was_done(job):
        done = replace(job, attempt=replace(attempt, ended_at=now, exit_code=0))
        return _end(done, State.SUCCEEDED, None, "", now)
    job = _first_to_fail(job) if len(attempt.tasks) > 1 else job
    settled = replace(_current(job), ended_at=now, cause=job.cause, detail=job.detail)
    return _settle(replace(job, attempt=settled), now, ())


def _was_done(job: Job) -> bool:
    """Whether its work was done before anybody told its ranks to make room: the news of both crossed on the way."""
    outcomes = [task.outcome if task.phase is Phase.ENDED else None for task in _current(job).tasks]
    return job.cause is not Cause.CANCELLED and all(each and each.ok and each.unasked for each in outcomes)


def _settle(job: Job, now: float, avoid: Iterable[NodeId]) -> Job:
    """Nothing of the attempt is alive: go back to the queue, or end."""
    assert job.cause is not None
    if job.cause is Cause.CANCELLED:
        return _end(job, State.CANCELLED, Cause.CANCELLED, job.detail, now)
    verdict = retry.decide(job, job.cause, now)
    if not verdict.again:
        return _end(job, State.FAILED, job.cause, _given_up(job, verdict), now)
    return replace(
        job,
        state=State.QUEUED,
        retries=verdict.retries,
        quick_ends=verdict.quick_ends,
        losses=verdict.losses,
        not_before=verdict.not_before,
        avoid=_avoiding(job, (*_excluded(job), *avoid)),
        stop_by=None,
        grace_s=None,
    )


def _given_up(job: Job, verdict: retry.Verdict) -> str:
    """The detail, with the reason for not trying again where it is news to the user."""
    if not verdict.worth_saying:
        return job.detail
    return f"{job.detail}; not tried again: {verdict.reason}" if job.detail else f"not tried again: {verdict.reason}"


def _excluded(job: Job) -> list[NodeId]:
    """Nodes that a log policy of the user excludes."""
    return [
        task.node
        for task in _current(job).tasks
        if task.outcome and any(action == "exclude_node" for _, action in task.outcome.policies)
    ]


def _end(job: Job, state: State, cause: Cause | None, detail: str, now: float) -> Job:
    return replace(
        job, state=state, cause=cause, detail=detail, ended_at=now, stop_by=None, grace_s=None, not_before=0.0
    )


def _avoiding(job: Job, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
    kept = [node for node in job.avoid if node not in set(nodes)]
    return tuple([*kept, *dict.fromkeys(nodes)][-AVOID_MOST:])


def _current(job: Job) -> Attempt:
    assert job.attempt is not None, f"{job.id} is {job.state.value} without an attempt"
    return job.attempt


def _task_in(job: Job, index: int, *phases: Phase) -> Task | None:
    """The task with this index, if there is one and it is in one of these phases."""
    tasks = _current(job).tasks
    return tasks[index] if 0 <= index < len(tasks) and tasks[index].phase in phases else None


def _with(tasks: tuple[Task, ...], task: Task) -> tuple[Task, ...]:
    return (*tasks[: task.index], task, *tasks[task.index + 1 :])


def _by(signal: CancelAsked) -> str:
    return f"asked by {signal.by}" if signal.by else ""


def charged(job: Job) -> bool:
    """Whether the newest end was the user's own, so that it cost one of the user's retries."""
    return job.cause is not None and TABLE[job.cause].whose is Whose.USER


_BY_NAME: dict[str, tuple[type, Callable[[Job, Any, float], Job]]] = {
    "Placed": (Placed, _placed),
    "MovedUp": (MovedUp, _moved_up),
    "Refused": (Refused, _refused),
    "ClaimOverdue": (ClaimOverdue, _claim_overdue),
    "PrepareFailed": (PrepareFailed, _prepare_failed),
    "ResumeSpoiled": (ResumeSpoiled, _resume_spoiled),
    "Progressed": (Progressed, _progressed),
    "TaskEnded": (TaskEnded, _task_ended),
    "RanksOver": (RanksOver, _ranks_over),
    "Stayed": (Stayed, _stayed),
    "TaskMissing": (TaskMissing, _task_missing),
    "StopDecided": (StopDecided, _stop_decided),
    "RetryAsked": (RetryAsked, _retry_now),
    "CanNeverRun": (CanNeverRun, _can_never_run),
    "SpecChanged": (SpecChanged, _spec_changed),
    "Tagged": (Tagged, _tagged),
    "PendingOver": (PendingOver, _pending_over),
}
_BY_STATE: dict[tuple[State, str], tuple[type, Callable[[Job, Any, float], Job]]] = {
    (State.STARTING, "Claimed"): (Claimed, _claimed),
    (State.STOPPING, "Claimed"): (Claimed, _begun_after_all),
    (State.QUEUED, "CancelAsked"): (CancelAsked, _cancel_queued),
    (State.STARTING, "CancelAsked"): (CancelAsked, _cancel_starting),
    (State.RUNNING, "CancelAsked"): (CancelAsked, _cancel_running),
    (State.STOPPING, "CancelAsked"): (CancelAsked, _cancel_running),
    (State.STARTING, "NodeLost"): (NodeLost, _lost_while_starting),
    (State.STARTING, "StopDecided"): (StopDecided, _stop_starting),
    (State.RUNNING, "NodeLost"): (NodeLost, _node_lost),
    (State.STOPPING, "NodeLost"): (NodeLost, _node_lost),
}


def _handlers() -> dict[State, dict[type, Callable[[Job, Any, float], Job]]]:
    return {
        state: dict(_BY_STATE.get((state, name)) or _BY_NAME[name] for name in names) for state, names in HEARS.items()
    }


_HANDLERS = _handlers()
