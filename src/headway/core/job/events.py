"""The recorded facts: what is written beside a job whenever it changes.

Events are derived from the job before and after a step, so state and story cannot disagree. Names are facts in the
past tense. The store gives each its number; the numbers have no gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.core.model import Cause, Job, JobId, State
from headway.core.spec.job import JobSpec, show_spec


@dataclass(frozen=True, slots=True)
class Event:
    """One fact about one job (or, with no job, about the server or a node)."""

    kind: str
    at: float
    job: JobId = ""
    attempt: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)
    seq: int = 0
    request: str = ""  # The call, or the leader's turn, that brought it about (control/state/requests.py).


KINDS: dict[str, str] = {  # Features write kinds of their own.
    "JobSubmitted": "the job was accepted and is on disk",
    "AttemptPlaced": "places were taken for every task; agents are told",
    "AttemptStarted": "every task was claimed and `go` was given, or the only one has begun",
    "AttemptStopping": "an end was decided; what still runs is being ended",
    "AttemptEnded": "nothing of the attempt is alive any more",
    "JobChanged": "the description of a waiting job was changed: each word with its old and new value",
    "JobQueuedAgain": "the job will be tried again",
    "JobSucceeded": "every rank ended with exit code 0",
    "JobFailed": "the job ended without success and will not be tried again",
    "JobCancelled": "the job ended because somebody asked for it",
    "JobForgotten": "the record of the job was deleted",
    "NodeJoined": "an agent called home for the first time, or with a new boot id",
    "NodeSilent": "a node has not been heard for a while; nothing is placed there",
    "NodeLost": "a node was given up: proof of death, or a whole lease of silence",
    "NodeClosed": "a node was cordoned or is being drained: nothing more is placed there",
    "NodeOpened": "a node takes tasks again",
    "QueueChanged": "a queue was made, changed or removed",
    "PoolChanged": "a pool was made, changed or removed",
    "LogTrimmed": "the log outgrew its limit; its middle was dropped",
    "CheckpointCommitted": "every task has that step in storage: the next attempt can go on from it",
    "CheckpointSetAside": "a checkpoint failed its hash when it was restored; the one before, if any, is used instead",
    "ArtifactStored": "files that the job keeps were stored",
    "NoticeGiven": "a node said that its machine will go; nothing more is placed there",
    "StackDumped": "the stacks of all ranks were written down",
    "LeaderChanged": "another server leads from now on, or the same one anew; every lease begins anew",
    "DatabaseBack": "the database could not be reached for a while, and can be again",
    "LimitNear": "a task comes near a limit (memory, output, time without a sign of progress); nothing is ended yet",
    "LimitReached": "a task went beyond a limit: it is told to stop, and killed after its grace",
    "StorageFailed": "something could not be written; it is kept on the node and tried again",
}


def because(event: Event, request: str) -> Event:
    """The same fact, with the id of the call that brought it about."""
    return Event(event.kind, event.at, event.job, event.attempt, event.data, event.seq, request)


def record(before: Job | None, after: Job, now: float) -> tuple[Event, ...]:
    """The facts that lie between two versions of a job."""
    if before is None:
        spec = after.spec
        data = {"name": spec.name, "project": spec.project, "queue": spec.queue, "user": after.user}
        return (Event("JobSubmitted", now, after.id, 0, data),)
    facts: list[Event] = []
    if after.spec is not before.spec:
        facts.append(Event("JobChanged", now, after.id, after.number, _changes(before.spec, after.spec)))
    if after.number != before.number:
        nodes = list(after.attempt.nodes) if after.attempt else []
        facts.append(Event("AttemptPlaced", now, after.id, after.number, {"nodes": nodes}))
    if after.state is State.RUNNING and before.state is not State.RUNNING:
        facts.append(Event("AttemptStarted", now, after.id, after.number))
    facts.extend(_ends(before, after, now))
    return tuple(facts)


def _ends(before: Job, after: Job, now: float) -> list[Event]:
    facts: list[Event] = []
    cause = {"cause": _value(after.cause), "detail": after.detail}
    if after.state is State.STOPPING and (before.state is not State.STOPPING or before.cause is not after.cause):
        facts.append(Event("AttemptStopping", now, after.id, after.number, {**cause, "grace_s": after.grace_s}))
    attempt = after.attempt
    was_over = before.attempt is not None and before.attempt.ended_at is not None
    if attempt is not None and attempt.ended_at is not None and not (was_over and before.number == after.number):
        data = {"cause": _value(attempt.cause), "detail": attempt.detail, "exit_code": attempt.exit_code}
        facts.append(Event("AttemptEnded", now, after.id, after.number, data))
    if after.state is before.state:
        return facts
    if after.state is State.QUEUED:
        facts.append(Event("JobQueuedAgain", now, after.id, after.number, {**cause, "not_before": after.not_before}))
    elif after.state is State.SUCCEEDED:
        facts.append(Event("JobSucceeded", now, after.id, after.number))
    elif after.state is State.FAILED:
        code = attempt.exit_code if attempt else None
        facts.append(Event("JobFailed", now, after.id, after.number, {**cause, "exit_code": code}))
    elif after.state is State.CANCELLED:
        facts.append(Event("JobCancelled", now, after.id, after.number, cause))
    return facts


def _changes(before: JobSpec, after: JobSpec) -> dict[str, Any]:
    """What was changed in a description, in the words of a job file."""
    old, new = show_spec(before), show_spec(after)
    return {key: [old.get(key), new.get(key)] for key in {**old, **new} if old.get(key) != new.get(key)}


def _value(cause: Cause | None) -> str | None:
    return cause.value if cause else None
