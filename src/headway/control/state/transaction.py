"""One batch of work: what commands changed, collected for one commit, and undone if the commit fails.

Commands read and write jobs only through a transaction. It keeps the first version of each job (for the guard and the
undo), the facts in between, and which command touched which job (so that a stale one is done again alone).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headway.control.state.working_copy import WorkingCopy
from headway.core.access.accounts import Accounts, AuditEntry
from headway.core.errors import NotFound
from headway.core.job import lifecycle
from headway.core.job.events import Event, because, record
from headway.core.job.signals import CancelAsked, ClaimOverdue, MovedUp, Progressed, Signal
from headway.core.model import Job, JobId, Node, Pool, State
from headway.core.records import replace
from headway.core.scheduling import waiting_lines
from headway.store.protocol import Batch, Files, Forget, JobChange, LogRange, Setup, Store, SubmitKey
from headway.store.tables import Key, R, RowChange, Table


@dataclass
class _Changed:
    before: Job
    after: Job
    events: list[Event] = field(default_factory=list)
    earlier: list[JobChange] = field(default_factory=list)  # Attempts that ended and were followed in this very batch.

    @property
    def newest(self) -> JobChange:
        before = self.earlier[-1].job if self.earlier else self.before
        return JobChange(self.after, before.version, tuple(self.events), self.after.spec is not before.spec)


def replace_job(event: Event, job: JobId) -> Event:
    """The same fact about another job: elements of an array share their description, and so what is told of it."""
    return Event(event.kind, event.at, job, event.attempt, event.data, request=event.request)


@dataclass
class Transaction:
    book: WorkingCopy
    store: Store
    now: float
    new: list[JobChange] = field(default_factory=list)
    changed: dict[JobId, _Changed] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    nodes_before: dict[str, Node | None] = field(default_factory=dict)
    logs: list[LogRange] = field(default_factory=list)
    drop_logs: list[LogRange] = field(default_factory=list)
    move_logs: list[LogRange] = field(default_factory=list)
    loose_keys: set[str] = field(default_factory=set)  # Storage objects that fewer ranges name after this commit.
    keys: list[SubmitKey] = field(default_factory=list)
    forget: list[Forget] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    files: Files | None = None
    setup: Setup | None = None
    accounts: Accounts | None = None
    audit: list[AuditEntry] = field(default_factory=list)
    audit_jobs: list[set[JobId]] = field(default_factory=list)  # What the command of each entry touched.
    touched: set[JobId] = field(default_factory=set)  # By the command that is at work.
    request: str = ""  # The id of that command's call, which every event repeats.
    pools_before: Mapping[str, Pool] | None = None  # Where this batch changes some.
    rows: dict[tuple[str, Key], RowChange] = field(default_factory=dict)  # Of features' tables.
    tables_before: dict[str, Mapping[Key, Any]] = field(default_factory=dict)  # Held ones that this batch changes.
    undoing: list[Callable[[], None]] = field(default_factory=list)  # What features take back with the rest.
    seen_job: JobId = ""  # The job whose change features are being told of.
    must_lead: bool = (
        False  # What is answered may be done only by who leads: the store is asked, even if nothing changed.
    )

    def find(self, job: JobId) -> Job | None:
        """The job as it stands in this transaction: not ended ones from the book, ended ones from the store."""
        self.touched.add(job)
        held = self.changed.get(job)
        if held is not None:
            return held.after
        known = self.book.jobs.get(job)
        if known is not None:
            return known
        stored = self.store.jobs([job])
        return stored[0] if stored else None

    def get(self, job: JobId) -> Job:
        found = self.find(job)
        if found is None:
            raise NotFound(f'no job "{job}"')
        return found

    def step(self, job: Job, signal: Signal) -> Job:
        """Let a fact happen to a job. The only way in which a job changes."""
        if self.book.untold and isinstance(signal, CancelAsked | ClaimOverdue) and job.id in self.book.untold:
            signal = replace(signal, told=False)
        seen = self.book.trail.seen
        if seen and job.id in seen:
            job = self._step(job, Progressed(job.number, seen.pop(job.id)))
        return self._step(job, signal)

    def _step(self, job: Job, signal: Signal) -> Job:
        after = lifecycle.step(job, signal, self.now)
        if after is job:
            return job
        held = self.changed.get(job.id)
        if held is None:
            held = self.changed[job.id] = _Changed(job, job)
            after = replace(after, version=job.version + 1)
        elif after.number != held.after.number and held.after.attempt is not None:
            # A job is saved with its newest attempt only: the one before must be written down as it ended.
            held.earlier.append(held.newest)
            held.events = []
            after = replace(after, version=held.after.version + 1)
        held.events.extend(self._because(record(held.after, after, self.now)))
        held.after = after
        self.touched.add(job.id)
        self.book.saw(job, after)
        if self.book.features.who_saw and not job.state.ended:
            self._tell_features(job, after)
        if self.book.behind and waiting_lines.out_of_the_way(job, after):
            self._move_up(job)
        return after

    def _move_up(self, job: Job) -> None:
        """Who is behind a task that is out of the way has its place, or its place in line."""
        heir = self.book.behind.get(waiting_lines.key_of(job))
        if heir is not None and job.attempt is not None:
            follower = self.book.jobs[heir]
            self._step(follower, MovedUp(follower.number, job.attempt.tasks[0].behind))

    def add(self, job: Job) -> None:
        """A new job. It enters the book once the store has given it its place in the order."""
        job = job if job.version == 1 else replace(job, version=1)
        before = self.new[-1] if self.new else None
        if before is not None and before.job.spec is job.spec and before.job.user == job.user and before.events:
            facts: tuple[Event, ...] = (replace_job(before.events[0], job.id),)
        else:
            facts = self._because(record(None, job, self.now))
        self.new.append(JobChange(job, 0, facts))
        if self.book.features.who_saw:
            self._tell_features(None, job)

    def _tell_features(self, before: Job | None, after: Job) -> None:
        outer, self.seen_job = self.seen_job, after.id
        for feature in self.book.features.who_saw:
            feature.saw(before, after, self)
        self.seen_job = outer

    # --- features' tables -------------------------------------------------------------------------------------------

    def row(self, table: Table[R], *key: Any) -> R | None:
        """A row as it stands in this transaction."""
        changed = self.rows.get((table.name, key))
        if changed is not None:
            found: R | None = changed.row
            return found
        return self.book.held(table).get(key) if table.held else self.store.row(table, *key)

    def put(self, table: Table[R], row: R) -> None:
        """Write a row, in place of what has its key."""
        self._change(table, table.key_of(row), row)

    def drop(self, table: Table[R], *key: Any) -> None:
        self._change(table, key, None)

    def _change(self, table: Table[R], key: Key, row: R | None) -> None:
        self.rows[table.name, key] = RowChange(table, key, row, self.seen_job)
        if table.held:
            before = self.book.held(table)
            self.tables_before.setdefault(table.name, before)
            kept = {other: each for other, each in before.items() if other != key}
            self.book.tables[table.name] = kept if row is None else {**kept, key: row}

    def undo_with(self, take_back: Callable[[], None]) -> None:
        """Have something taken back, should this transaction not be saved."""
        self.undoing.append(take_back)

    def save_node(self, node: Node, open_: bool = True, because: str = "") -> None:
        self.nodes_before.setdefault(node.id, self.book.nodes.get(node.id))
        self.nodes[node.id] = node
        if node.gone_at is None:
            self.book.saw_node(node, open_, because)
        else:
            self.book.lost_node(node.id)

    def drop_log(self, pieces: Iterable[LogRange]) -> None:
        """Let pieces leave the log index. Their objects may be nobody's afterwards."""
        for piece in pieces:
            self.drop_logs.append(piece)
            self.loose_keys.add(piece.key)

    def forget_job(self, forget: Forget) -> None:
        self.forget.append(replace(forget, event=because(forget.event, self.request)))
        self.loose_keys.update(piece.key for piece in self.store.logs(forget.job))

    @property
    def keep(self) -> Files:
        """What this batch writes about checkpoints, artifacts and what jobs use."""
        if self.files is None:
            self.files = Files()
        return self.files

    @property
    def arrange(self) -> Setup:
        """What this batch writes about queues, pools, licences and use."""
        if self.setup is None:
            self.setup = Setup()
        return self.setup

    @property
    def admit(self) -> Accounts:
        """What this batch writes about users, projects and tokens."""
        if self.accounts is None:
            self.accounts = Accounts()
        return self.accounts

    def say(self, event: Event) -> None:
        self.events.append(because(event, self.request) if self.request else event)

    def _because(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        return tuple(because(event, self.request) for event in events) if self.request else events

    @property
    def makes_room(self) -> bool:
        """Whether what ended in this transaction makes room that others may take in the same commit.

        Not where a job goes back to the queue: what it would begin from has to be saved first.
        """
        after = [each.after for each in self.changed.values()]
        return any(job.state.ended for job in after) and not any(job.state is State.QUEUED for job in after)

    @property
    def empty(self) -> bool:
        return not (
            self.new
            or self.changed
            or self.nodes
            or self.logs
            or self.drop_logs
            or self.move_logs
            or self.keys
            or self.forget
            or self.events
            or self.files
            or self.setup
            or self.accounts
            or self.audit
            or self.rows
            or self.must_lead
        )

    def batch(self) -> Batch:
        changes = [change for each in self.changed.values() for change in (*each.earlier, each.newest)]
        return Batch(
            jobs=[*self.new, *changes],
            nodes=list(self.nodes.values()),
            logs=self.logs,
            drop_logs=self.drop_logs,
            move_logs=self.move_logs,
            keys=self.keys,
            forget=self.forget,
            events=self.events,
            files=self.files,
            setup=self.setup,
            accounts=self.accounts,
            rows=list(self.rows.values()),
            audit=self.audit,
            audit_jobs=[frozenset(jobs) for jobs in self.audit_jobs],
        )

    def undo(self) -> None:
        """The commit failed: the book goes back to what the store still says."""
        for each in self.changed.values():
            self.book.saw(each.after, each.before)
            attempt = each.after.attempt
            if attempt is not None and attempt.seen_step is not None and not each.before.state.ended:
                self.book.trail.seen[each.before.id] = attempt.seen_step
        for entry in (*self.files.checkpoints, *self.files.changed, *self.files.dropped) if self.files else ():
            self.book.trail.forget(entry.job)
        for piece in self.logs:
            self.book.log_ends.ends.pop((piece.job, piece.attempt, piece.task), None)
        for name, node in self.nodes_before.items():
            if node is None:
                self.book.lost_node(name)
            else:
                self.book.saw_node(node)
        if self.pools_before is not None:
            # A longer lease that is not saved is not granted: who starts next would not count it.
            self.book.house.pools = self.pools_before
        self.book.tables.update(self.tables_before)
        for take_back in reversed(self.undoing):
            take_back()

    def take_over_stale(self, stale: frozenset[JobId]) -> None:
        """Somebody else changed these jobs meanwhile: put what the store has into the book."""
        fresh = {job.id: job for job in self.store.jobs(sorted(stale))}
        for job in stale:
            held = self.changed.get(job)
            if held is not None:
                self.book.saw(held.after, fresh.get(job))


class Command(Protocol):
    def apply(self, tx: Transaction) -> Any: ...
