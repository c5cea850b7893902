"""What can happen to a job: facts and wishes, each in a type of its own. lifecycle.py says what they make of it."""

from __future__ import annotations

from dataclasses import dataclass

from headway.core.model import Cause, NodeId, Outcome
from headway.core.spec.job import JobSpec


@dataclass(frozen=True, slots=True)
class Seat:
    """A place for one task: a node, and the indexes of its GPUs."""

    node: NodeId
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """The scheduler took places for every task. Raises the attempt's number."""

    seats: tuple[Seat, ...]
    resumed_step: int | None = None  # The checkpoint from which it goes on.
    behind: str = ""  # The task whose place it takes when that has ended: see scheduling/waiting_lines.py.


@dataclass(frozen=True, slots=True)
class Claimed:
    """An agent holds the task: it waits for `go`, or, where it is the only one of its attempt, has begun it."""

    attempt: int
    task: int
    address: str = ""
    port: int = 0
    began_ago_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MovedUp:
    """The task before it is out of the way: it has that one's place now, or is behind the one before that."""

    attempt: int
    behind: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """An agent cannot take the task (no room, wrong resources). After a claim it changes nothing.

    With a cause, it is the job that is in the way (its directory is not there), and asking the same node again is vain.
    """

    attempt: int
    task: int
    detail: str = ""
    called_back: bool = False  # It gave it back because it was asked to, before it began.
    cause: Cause | None = None
    elsewhere: bool = True  # Whether other nodes could take it, which have not lost or refused it before.


@dataclass(frozen=True, slots=True)
class ClaimOverdue:
    """Some agent did not claim within the limit: everything is given back and nobody is charged."""

    attempt: int
    told: bool = True  # False: its node was not even told of it, so nothing of it can have begun.


@dataclass(frozen=True, slots=True)
class PrepareFailed:
    """An agent could not make ready what the task needs (environment, inputs, bundle), and another could not either."""

    attempt: int
    task: int
    cause: Cause
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ResumeSpoiled:
    """The checkpoint that was to be restored is damaged; `step` is the one before it, if there is one."""

    attempt: int
    step: int | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Progressed:
    """Steps that ranks were seen to make, or that are safe now because a checkpoint of them was committed."""

    attempt: int
    seen_step: int | None = None
    committed_step: int | None = None
    saved_at: float | None = None  # When what was committed was saved, which may be a while before.


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """The agent's report of how a task ended."""

    attempt: int
    task: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class RanksOver:
    """All ranks of a task are over, as its agent saw it; what they wrote is still on its way to storage."""

    attempt: int
    task: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Stayed:
    """The ranks of a task have failed; its place is kept for a look, so that it has not ended yet."""

    attempt: int
    task: int
    outcome: Outcome
    left_s: float


@dataclass(frozen=True, slots=True)
class TaskMissing:
    """The node answered and does not have this task. (A node that did not answer says nothing.)"""

    attempt: int
    task: int


@dataclass(frozen=True, slots=True)
class NodeLost:
    """Proof that a node is dead, or a whole lease of silence heard by a server that was listening."""

    attempt: int
    node: NodeId
    detail: str = ""
    started_anew: bool = False  # It is there again: what its tasks left on its disk may be too.
    silent_s: float = 0.0  # For how long nothing had been heard of it; 0 where its death was seen as it came.
    over: frozenset[int] = frozenset()  # Tasks whose ranks had ended before, as it says itself.


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """Somebody wants it to end. Outranks every other cause."""

    by: str = ""
    grace_s: float | None = None
    drop_files: bool = False  # Also what has ended and is not all in storage yet.
    told: bool = True  # False: its node was not told of this attempt yet, so nothing of it can have begun.


@dataclass(frozen=True, slots=True)
class StopDecided:
    """Headway ends the attempt: a limit was reached, or its place is needed."""

    attempt: int
    cause: Cause
    detail: str = ""
    grace_s: float | None = None


@dataclass(frozen=True, slots=True)
class RetryAsked:
    """Somebody wants a backing-off job to go now."""


@dataclass(frozen=True, slots=True)
class CanNeverRun:
    """No pool could ever hold it, or what it waits for can never come."""

    detail: str
    needless: bool = False  # Nothing went wrong: what it was to follow has ended otherwise, or was cancelled.


@dataclass(frozen=True, slots=True)
class SpecChanged:
    """Somebody changed the description of a job that waits: its priority, queue, limits, or whether it is held."""

    spec: JobSpec


@dataclass(frozen=True, slots=True)
class Tagged:
    """Somebody changed its tags. They say nothing about its course: a job that has ended hears it too."""

    tags: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PendingOver:
    """It has waited longer than its description allows."""

    detail: str = ""


Signal = (
    Placed
    | Claimed
    | MovedUp
    | Refused
    | ClaimOverdue
    | PrepareFailed
    | ResumeSpoiled
    | Progressed
    | TaskEnded
    | RanksOver
    | Stayed
    | TaskMissing
    | NodeLost
    | CancelAsked
    | StopDecided
    | RetryAsked
    | CanNeverRun
    | SpecChanged
    | Tagged
    | PendingOver
)
