"""What every store can do. Jobs, attempts, tasks, events, nodes, log index and the leader's lease live behind it.

A store decides nothing: it keeps what it is given, all of a change or nothing of it, guarded by version and epoch.
The suite in conformance/suite.py is the law; memory/store.py and sql/store.py both pass it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from headway.core.access.accounts import Accounts, AuditEntry, Membership, Project, Token, User
from headway.core.errors import HeadwayError
from headway.core.files.checkpoints import Checkpoint
from headway.core.files.storage_identity import Place
from headway.core.growth.node_orders import NodeOrder
from headway.core.job.events import Event
from headway.core.model import Attempt, Job, JobId, Node, NodeId, Pool, Queue
from headway.store.tables import ALL, R, RowChange, Table, Which


class LeaderLost(HeadwayError):
    """Another server leads: this one's epoch is older than the store's. Nothing of the batch was written."""

    status = 503
    kind = "leader-lost"


Stream = tuple[JobId, int, int, int, str]
"""One output: job, attempt, task, rank, and the stream's name."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """One job after a step, with the facts that lie between. A new job has `expected_version` 0.

    User, time of submission, array and `retry_of` are written with the new job and never again; the spec only where
    `respecified` says so. A batch may hold several changes of one job, each expecting the version before it.
    """

    job: Job  # With the version it shall have: expected_version + 1; anything else is a ValueError.
    expected_version: int
    events: tuple[Event, ...] = ()
    respecified: bool = False


@dataclass(frozen=True, slots=True)
class LogRange:
    """Bytes [start, end) of one rank's output, kept in storage object `key` from `key_offset` on.

    Accepted only if it begins where the indexed ranges of that (job, attempt, task, rank, stream) end; else it is
    left out, silently: it is a repetition, or something before it was lost on the way and will be sent again. The
    fence: so is a range of a task that is lost or released (after the job changes of this batch), or does not exist.
    """

    job: JobId
    attempt: int
    task: int
    rank: int
    stream: str
    start: int
    end: int
    key: str
    key_offset: int
    at: float = 0.0
    crc32: int | None = None  # Of these bytes, as the node had them when it stored them; None where nobody knows.
    times: str = ""  # Of one that was joined: when its parts were written (core/files/log_times.py).

    @property
    def of(self) -> Stream:
        return (self.job, self.attempt, self.task, self.rank, self.stream)


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file that a task keeps: whole in one object, or in numbered parts."""

    job: JobId
    attempt: int
    task: int
    path: str
    size: int
    sha256: str
    keys: tuple[str, ...]
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class SharesUsed:
    """That a job needs something beyond its own rows: a `bundle`, or the parts of an `origin` job's checkpoints."""

    job: JobId
    kind: str
    name: str


@dataclass
class Files:
    """What a batch writes about checkpoints, artifacts, and what jobs use.

    The fence: a checkpoint or artifact is left out, and its job named in `fenced`, unless, before this batch, its
    attempt was the job's newest, had not ended, and its task was neither lost nor released. (Within a batch the order
    of things is the writer's to respect.) A checkpoint of attempt 0 is one that a job without attempts begins from.
    """

    checkpoints: list[Checkpoint] = field(default_factory=list)  # The same id replaces what is there.
    changed: list[Checkpoint] = field(default_factory=list)  # Their state, pin and savers, where they are there.
    dropped: list[Checkpoint] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)  # The same task and path replaces what is there.
    uses: list[SharesUsed] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class UseAccount:
    """What a user has used in a queue for a project, as of a time: it fades from there."""

    queue: str
    project: str
    user: str
    amount: float
    at: float


@dataclass
class Setup:
    """What a batch writes about queues, pools, licences, use, orders and places. The same name replaces."""

    queues: list[Queue] = field(default_factory=list)
    dropped_queues: list[str] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)
    dropped_pools: list[str] = field(default_factory=list)
    licences: Mapping[str, int] | None = None  # All of them: what is not named goes.
    use: Sequence[UseAccount] | None = None  # All of it.
    orders: list[NodeOrder] = field(default_factory=list)
    dropped_orders: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)  # Of storage; the same turn replaces.


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete an ended job with its attempts, tasks, log index, checkpoints, artifacts and uses.

    Its events go, but a JobForgotten event is added.

    A job that has not ended, or does not exist, is left out with its event and named in `stale`.
    """

    job: JobId
    event: Event


@dataclass(frozen=True, slots=True)
class SubmitKey:
    """An idempotency key and the jobs that it made. It outlives them.

    The first one stays: where the key is known already, the new jobs that this one names are left out as stale.
    """

    key: str
    jobs: tuple[JobId, ...]
    digest: str  # Of what was submitted: the same key with other contents is an error of the caller.
    at: float


@dataclass(frozen=True, slots=True)
class Batch:
    """What one group commit writes. Everything is in one transaction; a stale job change is left out alone."""

    jobs: Sequence[JobChange] = ()
    nodes: Sequence[Node] = ()
    logs: Sequence[LogRange] = ()
    drop_logs: Sequence[LogRange] = ()  # Ranges that leave the index (trimmed, compacted, or too old).
    move_logs: Sequence[LogRange] = ()  # Ranges that enter regardless of what is there (compaction's result), after
    # the drops; left out only when the task does not exist any more.
    keys: Sequence[SubmitKey] = ()
    forget: Sequence[Forget] = ()
    events: Sequence[Event] = ()  # Events that belong to no job change.
    files: Files | None = None
    setup: Setup | None = None
    accounts: Accounts | None = None
    rows: Sequence[RowChange] = ()  # Of features' tables, after everything else.
    audit: Sequence[AuditEntry] = ()  # Numbered in their order; nothing ever changes or removes them.
    audit_jobs: Sequence[frozenset[JobId]] = ()  # What each entry hangs on: with a stale job, it is left out.

    def audit_without(self, stale: Collection[JobId]) -> Sequence[AuditEntry]:
        """The entries that are written: a change that is left out is tried again, and tells of itself then."""
        if not stale or not self.audit_jobs:
            return self.audit
        return [entry for entry, jobs in zip(self.audit, self.audit_jobs, strict=True) if jobs.isdisjoint(stale)]


@dataclass(frozen=True, slots=True)
class Committed:
    """What the store made of a batch."""

    last_seq: int  # Number of the newest event.
    stale: frozenset[JobId] = frozenset()  # Job changes that were left out: their version had moved on.
    first_job_seq: int = 0  # Number of the first new job; 0 when there is none.
    log_ends: Mapping[Stream, int] = field(default_factory=dict)  # Of each stream in `logs`; 0 behind the fence.
    fenced: frozenset[JobId] = frozenset()  # Jobs of which a checkpoint or artifact was left out.


@dataclass(frozen=True, slots=True)
class JobFilter:
    """A selection of jobs: those that are all of this. What is left out leaves nothing out."""

    states: frozenset[str] = frozenset()
    project: str = ""
    user: str = ""
    queue: str = ""
    name: str = ""  # `*` in it stands for anything.
    ids: tuple[JobId, ...] = ()
    array: str = ""
    projects: frozenset[str] | None = None  # Only of these; None means of all.
    tags: tuple[tuple[str, str | None], ...] = ()  # All of these; None: whatever its value is.
    before: float | None = None  # Ended before this time; of those that have not, submitted before it.
    unretried: bool = False  # Not those that another job is a retry of.


ALL_JOBS = JobFilter()


@dataclass(frozen=True, slots=True)
class Lead:
    """Who leads, since which epoch, and until when unless renewed."""

    server: str
    epoch: int
    until: float
    address: str = ""


@dataclass(frozen=True, slots=True)
class ServerSeen:
    """A server that works on this store, as it told itself when it was last seen."""

    name: str
    address: str
    version: str = ""
    host: str = ""
    pid: int = 0
    storage: str = ""  # Where it keeps files: servers of one store must agree on it.
    started_at: float = 0.0
    seen_at: float = 0.0  # By the store's clock.


@dataclass(frozen=True, slots=True)
class Glance:
    """What a server that does not lead looks at all the time: cheap to ask, and all of one moment."""

    lead: Lead | None
    last_seq: int
    now: float  # By the store's clock: clocks of servers may differ.


class Store(Protocol):
    """Every method may be called from any thread. Writes come from one writer thread; reads from many."""

    # --- leader ---
    def take_lead(self, server: str, address: str, now: float | None, lease_s: float) -> Lead | None:
        """Become leader: with a larger epoch than ever before, if nobody's lease is running (or it is one's own).

        Without a time (`now` is None) the store's own clock decides: the one clock that all its servers share.
        """
        ...

    def keep_lead(self, server: str, epoch: int, now: float | None, lease_s: float) -> bool: ...

    def drop_lead(self, server: str, epoch: int) -> None: ...

    def lead(self) -> Lead | None: ...

    # --- servers ---
    def glance(self) -> Glance: ...

    def saw_server(self, server: ServerSeen) -> None:
        """Take note of a server, now by the store's clock. The same name replaces. Needs no lead."""
        ...

    def drop_server(self, name: str) -> None: ...

    def servers(self) -> list[ServerSeen]:
        """In order of name."""
        ...

    def hold_deletions(self, for_s: float) -> None:
        """Ask all servers not to delete objects for so long (0: no longer), by the store's clock. Needs no lead."""
        ...

    def deletions_held(self) -> bool: ...

    def happenings(self, limit: int) -> list[Event]:
        """The newest events that belong to no job, newest first: what an operator reads."""
        ...

    # --- writing ---
    def commit(self, batch: Batch, epoch: int | None = None) -> Committed:
        """Write a batch in one transaction, durably. With an epoch: only if the store's leader epoch equals it
        (raises LeaderLost, nothing written). New jobs get their `seq` in the order in which they stand in the batch:
        consecutive numbers from `first_job_seq` on. Events get gap-free numbers in the order: job changes, then
        forgets, then loose events.
        A job change whose version moved on is left out, with its events and nothing else. Raises Unavailable when the
        database cannot take it (disk full, connection gone); then nothing is written and the store stays usable.
        """
        ...

    # --- reading ---
    def jobs(self, ids: Sequence[JobId]) -> list[Job]:
        """The jobs of these ids that exist, each with its newest attempt."""
        ...

    def unfinished(self) -> list[Job]:
        """All jobs that have not ended, in order of `seq`."""
        ...

    def page(self, which: JobFilter, before_seq: int | None, limit: int) -> list[Job]:
        """Jobs by `seq`, newest first, older than `before_seq`."""
        ...

    def find(self, prefix_or_name: str, limit: int = 10, projects: frozenset[str] | None = None) -> list[Job]:
        """Jobs whose id begins with this, or whose name is exactly this; newest first."""
        ...

    def counts(self, which: JobFilter = ALL_JOBS) -> dict[str, int]:
        """How many of these jobs are in each state."""
        ...

    def attempts(self, job: JobId) -> list[Attempt]:
        """All attempts of a job with their tasks, oldest first."""
        ...

    def events(self, after: int, limit: int, job: JobId | None = None) -> list[Event]: ...

    def last_seq(self) -> int: ...

    def nodes(self) -> list[Node]: ...

    def node(self, node: NodeId) -> Node | None: ...

    def logs(self, job: JobId, attempt: int | None = None) -> list[LogRange]:
        """The index, in order of attempt, task, rank, stream, start."""
        ...

    def attempts_with_output(self, streams: Sequence[str]) -> list[tuple[JobId, int]]:
        """The attempts of which the index has a range of a stream of these names, oldest job first. For a start."""
        ...

    def log_ends(self, job: JobId, attempt: int, task: int) -> dict[tuple[int, str], int]:
        """Where the indexed output of each (rank, stream) of a task ends. Trimming the middle does not move it."""
        ...

    def key_in_use(self, keys: Sequence[str]) -> set[str]:
        """Which of these storage objects are still named by a range of the log index."""
        ...

    def submitted(self, key: str) -> SubmitKey | None: ...

    def checkpoints(self, job: JobId) -> list[Checkpoint]:
        """In order of attempt, step and task."""
        ...

    def checkpoints_under(self, prefix: str) -> list[Checkpoint]:
        """Those of any job whose manifest's key begins with this, in order of key."""
        ...

    def artifacts(self, job: JobId, attempt: int | None = None) -> list[Artifact]:
        """In order of attempt, task and path."""
        ...

    def uses(self, job: JobId) -> list[SharesUsed]:
        """What a job needs beyond its own rows, in order of kind and name."""
        ...

    def users(self, kind: str, name: str) -> list[JobId]:
        """The jobs that need this, in order of `seq`."""
        ...

    # --- features' tables ---
    def rows(self, table: Table[R], which: Which = ALL) -> list[R]:
        """The rows of a feature's table that were asked for, in order of their keys."""
        ...

    def row(self, table: Table[R], *key: Any) -> R | None: ...

    # --- reading the set-up: everything in order of name ---
    def queues(self) -> list[Queue]: ...

    def pools(self) -> list[Pool]: ...

    def licences(self) -> dict[str, int]: ...

    def use(self) -> list[UseAccount]: ...

    def orders(self) -> list[NodeOrder]: ...

    def places(self) -> list[Place]:
        """The storage places that this store's objects were in, in order of turn: the last one is where they are."""
        ...

    # --- accounts: everything in order of name ---
    def user_accounts(self) -> list[User]: ...

    def projects(self) -> list[Project]: ...

    def members(self, project: str = "", user: str = "") -> list[Membership]: ...

    def tokens(self) -> list[Token]: ...

    def token(self, prefix: str) -> Token | None: ...

    def note_use(self, prefix: str, at: float) -> None:
        """A token was used then. Any server may say so, leading or not."""
        ...

    def add_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Add entries that belong to no batch. Any server may do so, leading or not."""
        ...

    def audit(self, since: float, actor: str, limit: int) -> list[AuditEntry]:
        """The newest entries since a time, of one actor or of all, oldest first."""
        ...

    # --- keys ---
    def shared_key(self, name: str, fresh: str) -> str:
        """The value of this name that all servers of this store share; where there is none yet, `fresh` becomes it.

        Nothing that is kept here may open or sign anything: whoever has a copy of the store has it.
        """
        ...

    def shared_value(self, name: str) -> str:
        """The value of this name, or nothing."""
        ...

    def put_shared_value(self, name: str, value: str) -> None:
        """Have another value; an empty one takes the name away, and leaves no trace of what was there."""
        ...

    def ended_before(self, when: float, limit: int) -> list[JobId]:
        """Ended jobs whose end is older than `when` and that still have logs: for retention."""
        ...

    def close(self) -> None: ...


def wrong_version(change: JobChange) -> ValueError:
    """What a store raises for a change that does not say which version follows which."""
    job, expected = change.job, change.expected_version
    return ValueError(f"job {job.id} has version {job.version}; a change that expects {expected} makes {expected + 1}")


def repeated_jobs(keys: Sequence[SubmitKey], known: Container[str]) -> set[JobId]:
    """The jobs of keys that are known already, or stand in the batch before: a submit that is here a second time."""
    repeated: set[JobId] = set()
    first: dict[str, SubmitKey] = {}
    for key in keys:
        if key.key in known:
            repeated.update(key.jobs)
        elif first.setdefault(key.key, key) is not key:
            repeated.update(set(key.jobs) - set(first[key.key].jobs))
    return repeated
