"""The nouns: jobs, attempts, tasks, nodes, pools, and the states they can be in.

Only data and questions about that data. What changes a job is in lifecycle.py; what a user may ask for is in spec.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.core.spec import JobSpec

JobId = str
NodeId = str
PoolName = str


class State(StrEnum):
    """Where a job is. Why it is there is its cause (ends, stopping) or its waiting reason (queued)."""

    QUEUED = "queued"  # Nothing of it runs. The scheduler moves it on.
    STARTING = "starting"  # Places are taken, agents are asked to claim. No user code runs yet.
    RUNNING = "running"  # All tasks claimed and `go` was given: user code may be running.
    STOPPING = "stopping"  # An end was decided; tasks that may still run are being ended.
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in ENDS


ENDS = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})


class Phase(StrEnum):
    """Where one task is, as far as the server knows."""

    PLACED = "placed"  # The node is asked to claim it.
    CLAIMED = "claimed"  # The node holds it and waits for `go`.
    GOING = "going"  # `go` was given: from here on its ranks may be alive.
    ENDED = "ended"  # The agent reported its end.
    LOST = "lost"  # It ended without a report: proof of death, or a whole lease of silence.
    RELEASED = "released"  # It was given back before `go`; no user code of it ever ran.


OVER = frozenset({Phase.ENDED, Phase.LOST, Phase.RELEASED})


class Cause(StrEnum):
    """Why an attempt ended. Whose fault it is and what follows stands in causes.py."""

    USER_CODE = "user_code"
    COMMAND_MISSING = "command_missing"
    NOT_EXECUTABLE = "not_executable"
    SYNTAX_ERROR = "syntax_error"
    CRASHED = "crashed"
    KILLED = "killed"
    OUT_OF_MEMORY = "out_of_memory"
    STALLED = "stalled"
    TIME_LIMIT = "time_limit"
    COST_LIMIT = "cost_limit"
    CANCELLED = "cancelled"
    BAD_SPEC = "bad_spec"
    PREEMPTED = "preempted"
    RECLAIMED = "reclaimed"
    NODE_LOST = "node_lost"
    NEVER_STARTED = "never_started"
    OUTCOME_LOST = "outcome_lost"


@dataclass(frozen=True, slots=True)
class Resources:
    """An amount of what a node has and a task takes."""

    cpus: float = 0.0
    memory_bytes: int = 0
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended, as its agent saw it."""

    exit_code: int | None = None  # None when it was ended by a signal or never ran.
    signal: int | None = None
    rank: int | None = None  # The first rank that failed.
    cause: Cause | None = None  # None means success.
    detail: str = ""  # One line for people, such as the last line of a traceback.
    log_bytes: int = 0  # How many bytes of output there are in all.

    @property
    def ok(self) -> bool:
        return self.cause is None


@dataclass(frozen=True, slots=True)
class Task:
    """The share of an attempt that runs on one node."""

    index: int
    node: NodeId
    gpus: tuple[int, ...] = ()  # Indexes of the devices it was given.
    phase: Phase = Phase.PLACED
    address: str = ""
    port: int = 0
    outcome: Outcome | None = None

    @property
    def over(self) -> bool:
        return self.phase in OVER


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a job. Its number is the fence: whatever an older number sends is refused."""

    number: int
    tasks: tuple[Task, ...]
    placed_at: float
    started_at: float | None = None  # When `go` was given.
    ended_at: float | None = None
    cause: Cause | None = None
    detail: str = ""
    exit_code: int | None = None
    resumed_step: int | None = None
    seen_step: int | None = None
    committed_step: int | None = None

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return tuple(task.node for task in self.tasks)


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a job was tried again, counted by whose fault it was: three budgets, never mixed."""

    user: int = 0
    platform: int = 0
    capacity: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """What a user asked for, with its state and its newest attempt. Older attempts live in the store only."""

    id: JobId
    spec: JobSpec
    user: str
    submitted_at: float
    state: State = State.QUEUED
    attempt: Attempt | None = None
    cause: Cause | None = None
    detail: str = ""
    retries: Retries = Retries()
    not_before: float = 0.0  # Backing off until then.
    stop_by: float | None = None  # While stopping: when the grace of its ranks is over.
    grace_s: float | None = None  # While stopping: the grace that was asked for.
    avoid: tuple[NodeId, ...] = ()  # Nodes that lost an attempt of this job.
    ended_at: float | None = None
    retry_of: JobId | None = None
    array_id: str | None = None
    array_index: int | None = None
    version: int = 0  # Raised by every save; guards against a stale writer.
    seq: int = 0  # Order of submission, given by the store; ties of priority go to the smaller.

    @property
    def number(self) -> int:
        """The number of the newest attempt; 0 before the first."""
        return self.attempt.number if self.attempt else 0

    @property
    def alive(self) -> tuple[Task, ...]:
        """Tasks that still hold their place on a node."""
        if self.attempt is None or self.state in ENDS or self.state is State.QUEUED:
            return ()
        return tuple(task for task in self.attempt.tasks if not task.over)


@dataclass(frozen=True, slots=True)
class Node:
    """A machine with resources whose agent has called home. Granted is what it may use, not what the machine has."""

    id: NodeId
    pool: PoolName
    granted: Resources
    boot_id: str = ""
    agent_epoch: int = 0
    agent_version: str = ""
    address: str = ""
    image: str = ""
    zone: str = ""
    kind: str = "on-demand"
    labels: Mapping[str, str] = field(default_factory=dict)
    available_until: float | None = None
    cordoned: bool = False
    joined_at: float = 0.0
    gone_at: float | None = None


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes of one configured engine."""

    name: PoolName
    engine: str
    nodes_min: int = 0
    nodes_max: int = 1
    kind: str = "on-demand"
    price_per_hour: float = 0.0
    lease_s: float = 1800.0
    idle_s: float = 600.0
    options: Mapping[str, str] = field(default_factory=dict)


def task_key(job: JobId, attempt: int, index: int) -> str:
    """The name of a task on the wire: job, attempt and index. The attempt in it is the fence."""
    return f"{job}/{attempt}/{index}"


def split_key(key: str) -> tuple[JobId, int, int]:
    job, attempt, index = key.split("/")
    return job, int(attempt), int(index)
