"""The nouns: jobs, attempts, tasks, nodes, pools, and the states they can be in.

Only data and questions about that data. What changes a job is in job/lifecycle.py; what a user may ask for is in
spec/job.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.core.spec.job import JobSpec

JobId = str
NodeId = str
PoolName = str


class State(StrEnum):
    """Where a job is. Why it is there is its cause (ends, stopping) or its waiting reason (queued)."""

    QUEUED = "queued"  # Nothing of it runs. The scheduler moves it on.
    STARTING = "starting"  # Places are taken, agents are told. A single task may have begun, of several none has.
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

    BEHIND = "behind"  # Its node has it, and begins it when the task before it has ended; it holds no place yet.
    PLACED = "placed"  # The node is asked to claim it.
    CLAIMED = "claimed"  # The node holds it and waits for `go`.
    GOING = "going"  # `go` was given: from here on its ranks may be alive.
    SAVING = "saving"  # Its ranks are over and its place is free; what they wrote is not all in storage yet.
    ENDED = "ended"  # The agent reported its end.
    LOST = "lost"  # It ended without a report: proof of death, or a whole lease of silence.
    RELEASED = "released"  # It was given back before `go`; no user code of it ever ran.


OVER = frozenset({Phase.ENDED, Phase.LOST, Phase.RELEASED})


class Cause(StrEnum):
    """Why an attempt ended. Whose fault it is and what follows stands in job/causes.py."""

    USER_CODE = "user_code"
    COMMAND_MISSING = "command_missing"
    NOT_EXECUTABLE = "not_executable"
    SYNTAX_ERROR = "syntax_error"
    CRASHED = "crashed"
    KILLED = "killed"
    OUT_OF_MEMORY = "out_of_memory"
    GPU_OUT_OF_MEMORY = "gpu_out_of_memory"
    NOT_A_NUMBER = "not_a_number"
    IMPORT_ERROR = "import_error"
    DATA_MISSING = "data_missing"
    PERMISSION_DENIED = "permission_denied"
    DISK_FULL = "disk_full"
    SHARED_MEMORY = "shared_memory"
    COLLECTIVE_TIMEOUT = "collective_timeout"
    IMAGE_REFUSED = "image_refused"
    ENVIRONMENT_FAILED = "environment_failed"
    INPUT_MISSING = "input_missing"
    BUNDLE_MISSING = "bundle_missing"
    SECRET_MISSING = "secret_missing"
    WORKDIR_MISSING = "workdir_missing"
    STALLED = "stalled"
    OUTPUT_LIMIT = "output_limit"
    TIME_LIMIT = "time_limit"
    PENDING_LIMIT = "pending_limit"
    CANCELLED = "cancelled"
    NOT_NEEDED = "not_needed"
    BAD_SPEC = "bad_spec"
    OUTPUTS_UNKEPT = "outputs_unkept"
    REQUEUE_ASKED = "requeue_asked"
    PREEMPTED = "preempted"
    RECLAIMED = "reclaimed"
    NODE_LOST = "node_lost"
    NEVER_STARTED = "never_started"
    UNREACHABLE = "unreachable"
    OUTCOME_LOST = "outcome_lost"
    FILES_LOST = "files_lost"


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
    policies: tuple[tuple[str, str], ...] = ()  # The log policies that matched: label and action.
    failed_at: float | None = None  # When its first rank failed by itself, by our own clock.
    suggestion: str = ""  # What may help, where its node knows it better than the cause alone tells.
    hopeless: bool = False  # Its node saw in the output that trying again cannot help, whatever the cause allows.
    unasked: bool = False  # Its ranks ended well before they were told of any end: no echo of a notice.
    unkept: str = ""  # What of its files could not be kept, and why.
    over_at: float | None = None  # When its ranks were over, by our own clock, where that is known.
    idle: bool = False  # Of a gang: it was over before it had begun to write anything that is kept.
    cut_off: bool = False  # And its ranks were killed, or failed: they may have been about to.
    steps_told: bool = False  # Its job told how far it was, apart from what it saved: to the end, as its output is.

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
    address: str = ""  # Where it is reached; while it is behind another task, the key of that one.
    port: int = 0
    outcome: Outcome | None = None

    @property
    def over(self) -> bool:
        return self.phase in OVER

    @property
    def seated(self) -> bool:
        """Whether it holds its place: processors, memory, GPUs."""
        return self.phase not in OVER and self.phase not in (Phase.SAVING, Phase.BEHIND)

    @property
    def behind(self) -> str:
        """The key of the task whose place it takes when that has ended; empty once it has one of its own."""
        return self.address if self.phase is Phase.BEHIND else ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a job. Its number is the fence: whatever an older number sends is refused."""

    number: int
    tasks: tuple[Task, ...]
    placed_at: float
    started_at: float | None = None  # When `go` was given, or a single task had begun.
    ended_at: float | None = None
    cause: Cause | None = None
    detail: str = ""
    exit_code: int | None = None
    resumed_step: int | None = None
    seen_step: int | None = None
    committed_step: int | None = None
    committed_at: float | None = None  # When the newest committed step was saved.
    first_step: int | None = (
        None  # The first that it said; where it was restored and says an earlier one, it began anew.
    )
    seen_at: float | None = None  # When the node was last heard that was lost: until then it is known to have worked.

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return tuple(task.node for task in self.tasks)

    @property
    def over_at(self) -> float | None:
        """When the last of its ranks was over; what was left to be saved then is not a time of its own."""
        times = [task.outcome.over_at if task.outcome else None for task in self.tasks]
        told = [at for at in times if at is not None]
        return max(told) if told and len(told) == len(times) else self.ended_at


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a job was tried again, counted by whose fault it was: three budgets, never mixed."""

    user: int = 0
    platform: int = 0
    capacity: int = 0


@dataclass(frozen=True, slots=True)
class Losses:
    """Ends since the newest step was committed, by whose fault they were, and those of a day. Kept by job/retry.py."""

    user: int = 0
    platform: int = 0
    capacity: int = 0
    hasty: int = 0  # Of the platform's, those in a row that came soon after the start: pauses grow by them.
    step: int | None = None  # The committed step that stood at the last of them.
    day_at: float = 0.0  # When the day began in which the next two are counted.
    platform_day: int = 0
    capacity_day: int = 0


NO_LOSSES = Losses()


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
    quick_ends: int = 0  # Attempts in a row that ended soon after their start, by their own doing, with no new step.
    losses: Losses = NO_LOSSES

    @property
    def number(self) -> int:
        """The number of the newest attempt; 0 before the first."""
        return self.attempt.number if self.attempt else 0

    @property
    def alive(self) -> tuple[Task, ...]:
        """Tasks that a node still has: their ranks may run, or their files are not all in storage."""
        if self.attempt is None or self.state in ENDS or self.state is State.QUEUED:
            return ()
        return tuple(task for task in self.attempt.tasks if not task.over)

    @property
    def lined(self) -> bool:
        """Whether it waits on its node behind another job: see scheduling/waiting_lines.py."""
        return self.attempt is not None and self.attempt.tasks[0].phase is Phase.BEHIND

    @property
    def seated(self) -> tuple[Task, ...]:
        """Tasks that hold their place on a node."""
        return tuple(task for task in self.alive if task.seated)


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
    draining: bool = False  # Cordoned for good: it is to become empty.


BESIDE_OPTIONS = ("hosts", "former_hosts", "lease_held_s")  # Kept with a pool's options, and no words for its engine.


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
    options: Mapping[str, Any] = field(default_factory=dict)  # Words for its engine: plain data.
    shape: Resources | None = None  # What one node of it grants; None: as its first node says.
    gpu_type: str = ""
    zone: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    state: str = "open"  # or "draining": nothing new is placed there; or "leaving": it goes when it is empty.

    @property
    def hosts(self) -> tuple[str, ...]:
        """The machines that it consists of, where an operator named them."""
        return tuple(self.options.get("hosts", ()))

    @property
    def former_hosts(self) -> tuple[str, ...]:
        """Machines that it had, on which something of ours may still be."""
        return tuple(self.options.get("former_hosts", ()))

    @property
    def lease_held_s(self) -> float:
        """The longest lease that a node of it may hold from before, where that is longer than what it grants now."""
        return float(self.options.get("lease_held_s", 0.0))


@dataclass(frozen=True, slots=True)
class Quota:
    """The most that may be held at once. None: no limit; zero: nothing at all."""

    gpus: int | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    jobs: int | None = None


UNLIMITED = Quota()


@dataclass(frozen=True, slots=True)
class Queue:
    """Where jobs wait: how they are ordered, what they may hold at once, and which pools they may use."""

    name: str = "default"
    priority: int = 0  # Goes before the jobs' own priority.
    weight: float = 1.0  # Its share beside other queues of the same priority.
    shares: tuple[tuple[str, float], ...] = ()  # Weights of projects within it; 1 where none is given.
    quota: Quota = UNLIMITED  # All of its jobs together.
    project_quota: Quota = UNLIMITED  # Each project, where none of its own is given.
    user_quota: Quota = UNLIMITED  # Each user, where none is given by name.
    project_quotas: tuple[tuple[str, Quota], ...] = ()
    user_quotas: tuple[tuple[str, Quota], ...] = ()
    borrow: bool = (
        False  # Quotas may be exceeded with what nobody else wants; what is borrowed is given back on demand.
    )
    pools: tuple[PoolName, ...] | None = None  # In the order in which they are tried. None: any; empty: none.
    wall_s_default: float | None = None
    wall_s_max: float | None = None
    policy: str = ""  # Empty: the policy of the house.
    preemptible: bool = True  # Whether its jobs may be ended for more important ones.
    allow_waiting: bool = False  # Takes jobs for which no present pool has room: they wait for one to come.


POLICIES = {
    "fair": "priority, then the smaller recent use (of the queue, the project, the user), then age",
    "fifo": "priority, then age",
    "throughput": "priority, then short and narrow jobs first, with a bonus for waiting",
    "las": "priority, then the least service had so far; preempts for it, and needs no run times",
}


@dataclass(frozen=True, slots=True)
class Policy:
    """The house's rules for scheduling."""

    name: str = "fair"
    half_life_s: float = 7 * 86400.0  # After this long, use counts half in the fair share.
    patience_s: float = 2 * 86400.0  # Who has waited longer goes before all others of the same priority (`fair`).
    cpus_per_gpu: float = 8.0  # What a GPU counts in the account of use, in cpus.
    backfill_depth: int = 1000  # How many kinds of waiting jobs are tried behind the first one. 0: strict order.
    estimates: str = "history"  # Run times from the history of like jobs; "limit": from their limits only.
    preemption: bool = False  # Whether a more important job may end less important ones.
    preemptions_most: int = 3  # How often one job may be preempted.
    repair_s: float = 300.0  # How long a gang that lost a node keeps its other places. 0: not at all.
    bonus_per_hour: float = 2.0  # What an hour of age counts in `throughput`.
    # `las`: after how many GPU-seconds (of CPU jobs: CPU-seconds) a job steps down to the next level.
    service_steps: tuple[float, ...] = (3600.0, 36000.0)
