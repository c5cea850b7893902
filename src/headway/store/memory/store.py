"""The store in memory: what the simulator runs on, and the plainest reading of the protocol.

It keeps the very objects that it is given and forgets all of them with the process. The durable sibling is
sql/store.py.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice

from headway.core.job.events import Event
from headway.core.model import ENDS, Attempt, Job, JobId, Node, NodeId, Phase, Task
from headway.store.memory.accounts import MemoryAccounts
from headway.store.memory.files import MemoryFiles
from headway.store.memory.setup import MemorySetup
from headway.store.memory.tables import MemoryTables
from headway.store.protocol import (
    ALL_JOBS,
    Batch,
    Committed,
    Forget,
    Glance,
    JobChange,
    JobFilter,
    Lead,
    LeaderLost,
    LogRange,
    ServerSeen,
    Stream,
    SubmitKey,
    repeated_jobs,
    wrong_version,
)
from headway.store.tables import without_stale

FENCED = frozenset({Phase.LOST, Phase.RELEASED})


class MemoryStore(MemoryFiles, MemorySetup, MemoryAccounts, MemoryTables):
    """Everything in dictionaries under one lock."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock  # The store's own, by which the lead's lease is counted.
        MemoryFiles.__init__(self)
        MemorySetup.__init__(self)
        MemoryAccounts.__init__(self)
        MemoryTables.__init__(self)
        self._lock = threading.RLock()
        self._jobs: dict[JobId, Job] = {}  # In order of `seq`.
        self._open: dict[JobId, Job] = {}
        self._attempts: dict[JobId, dict[int, Attempt]] = {}
        self._nodes: dict[NodeId, Node] = {}
        self._events: list[Event | None] = []  # Number n stands at n - 1; None once its job is forgotten.
        self._events_of: dict[JobId, list[int]] = {}
        self._logs: dict[JobId, dict[tuple[Stream, int], LogRange]] = {}
        self._log_ends: dict[JobId, dict[Stream, int]] = {}
        self._keys: dict[str, SubmitKey] = {}
        self._last_job_seq = 0
        self._lead = Lead("", 0, 0.0)
        self._held_until = 0.0
        self._servers: dict[str, ServerSeen] = {}

    # --- leader ---
    def take_lead(self, server: str, address: str, now: float | None, lease_s: float) -> Lead | None:
        now = self._clock() if now is None else now
        with self._lock:
            if self._lead.until > now and self._lead.server != server:
                return None
            self._lead = Lead(server, self._lead.epoch + 1, now + lease_s, address)
            return self._lead

    def keep_lead(self, server: str, epoch: int, now: float | None, lease_s: float) -> bool:
        with self._lock:
            if (self._lead.server, self._lead.epoch) != (server, epoch):
                return False
            self._lead = replace(self._lead, until=(self._clock() if now is None else now) + lease_s)
            return True

    def drop_lead(self, server: str, epoch: int) -> None:
        with self._lock:
            if (self._lead.server, self._lead.epoch) == (server, epoch):
                self._lead = Lead("", epoch, 0.0)

    def lead(self) -> Lead | None:
        return self._lead if self._lead.server else None

    # --- servers ---
    def glance(self) -> Glance:
        with self._lock:
            return Glance(self.lead(), len(self._events), self._clock())

    def saw_server(self, server: ServerSeen) -> None:
        with self._lock:
            self._servers[server.name] = replace(server, seen_at=self._clock())

    def drop_server(self, name: str) -> None:
        with self._lock:
            self._servers.pop(name, None)

    def servers(self) -> list[ServerSeen]:
        with self._lock:
            return [self._servers[name] for name in sorted(self._servers)]

    def hold_deletions(self, for_s: float) -> None:
        self._held_until = self._clock() + for_s

    def deletions_held(self) -> bool:
        return self._clock() < self._held_until

    def happenings(self, limit: int) -> list[Event]:
        with self._lock:
            loose = (event for event in reversed(self._events) if event is not None and not event.job)
            return list(islice(loose, limit))

    # --- writing ---
    def commit(self, batch: Batch, epoch: int | None = None) -> Committed:
        with self._lock:
            if epoch is not None and epoch != self._lead.epoch:
                raise LeaderLost(f"this server led in epoch {epoch}; the store is in epoch {self._lead.epoch}")
            for change in batch.jobs:
                if change.job.version != change.expected_version + 1:
                    raise wrong_version(change)
            stale = repeated_jobs(batch.keys, self._keys)
            open_tasks = self._open_tasks(batch.files) if batch.files is not None else set()
            first_job_seq = self._save_jobs(batch.jobs, stale)
            for forget in batch.forget:
                self._forget(forget, stale)
            for event in batch.events:
                self._record(event)
            for node in batch.nodes:
                self._nodes[node.id] = node
            for key in batch.keys:
                self._keys.setdefault(key.key, key)
            log_ends = self._save_logs(batch)
            fenced = self._save_files(batch.files, open_tasks) if batch.files is not None else ()
            if batch.setup is not None:
                self._save_setup(batch.setup)
            if batch.accounts is not None:
                self._save_accounts(batch.accounts)
            self._save_rows(without_stale(batch.rows, stale))
            self.add_audit(batch.audit_without(stale))
            return Committed(len(self._events), frozenset(stale), first_job_seq, log_ends, frozenset(fenced))

    def _save_jobs(self, changes: Iterable[JobChange], stale: set[JobId]) -> int:
        first_job_seq = 0
        for change in changes:
            job = change.job
            saved = self._jobs.get(job.id)
            if (saved.version if saved else 0) != change.expected_version or (saved is None and job.id in stale):
                stale.add(job.id)
                continue
            if saved is None:
                self._last_job_seq += 1
                first_job_seq = first_job_seq or self._last_job_seq
            elif not change.respecified and job.spec is not saved.spec:
                job = replace(job, spec=saved.spec)
            seq = saved.seq if saved else self._last_job_seq
            self._save_job(job if job.seq == seq else replace(job, seq=seq))
            for event in change.events:
                self._record(event)
        return first_job_seq

    def _save_job(self, job: Job) -> None:
        self._jobs[job.id] = job
        if job.attempt is not None:
            self._attempts.setdefault(job.id, {})[job.attempt.number] = job.attempt
        if job.state in ENDS:
            self._open.pop(job.id, None)
        else:
            self._open[job.id] = job

    def _record(self, event: Event) -> None:
        seq = len(self._events) + 1
        self._events.append(Event(event.kind, event.at, event.job, event.attempt, event.data, seq, event.request))
        if event.job:
            self._events_of.setdefault(event.job, []).append(seq)

    def _forget(self, forget: Forget, stale: set[JobId]) -> None:
        job = self._jobs.get(forget.job)
        if job is None or job.state not in ENDS:
            stale.add(forget.job)
            return
        for kept in (self._jobs, self._attempts, self._logs, self._log_ends):
            kept.pop(job.id, None)
        self._forget_files(job.id)
        self._forget_rows(job.id)
        for seq in self._events_of.pop(job.id, ()):
            self._events[seq - 1] = None
        self._record(forget.event)

    def _save_logs(self, batch: Batch) -> dict[Stream, int]:
        for entry in batch.drop_logs:
            of_job = self._logs.get(entry.job, {})
            there = of_job.get((entry.of, entry.start))
            if there is not None and (there.end, there.key) == (entry.end, entry.key):
                del of_job[entry.of, entry.start]
        for entry in batch.move_logs:
            if self._task(entry) is not None:
                self._save_log(entry)
        log_ends: dict[Stream, int] = {}
        for entry in batch.logs:
            end = self._log_ends.get(entry.job, {}).get(entry.of, 0)
            task = self._task(entry)
            if entry.start == end < entry.end and task is not None and task.phase not in FENCED:
                self._save_log(entry)
                end = entry.end
            log_ends[entry.of] = end
        return log_ends

    def _save_log(self, entry: LogRange) -> None:
        self._logs.setdefault(entry.job, {})[entry.of, entry.start] = entry
        ends = self._log_ends.setdefault(entry.job, {})
        ends[entry.of] = max(entry.end, ends.get(entry.of, 0))

    def _task(self, entry: LogRange) -> Task | None:
        attempt = self._attempts.get(entry.job, {}).get(entry.attempt)
        return next((task for task in attempt.tasks if task.index == entry.task), None) if attempt else None

    # --- reading ---
    def jobs(self, ids: Sequence[JobId]) -> list[Job]:
        with self._lock:
            return [self._jobs[id] for id in dict.fromkeys(ids) if id in self._jobs]

    def unfinished(self) -> list[Job]:
        with self._lock:
            return sorted(self._open.values(), key=lambda job: job.seq)

    def page(self, which: JobFilter, before_seq: int | None, limit: int) -> list[Job]:
        with self._lock:
            wanted = self._matcher(which)
            newest_first = reversed(self._jobs.values())
            older = (job for job in newest_first if before_seq is None or job.seq < before_seq)
            return list(islice((job for job in older if wanted(job)), limit))

    def find(self, prefix_or_name: str, limit: int = 10, projects: frozenset[str] | None = None) -> list[Job]:
        with self._lock:
            newest_first = reversed(self._jobs.values())
            hits = (job for job in newest_first if _is_called(job, prefix_or_name) and _within(job, projects))
            return list(islice(hits, limit))

    def counts(self, which: JobFilter = ALL_JOBS) -> dict[str, int]:
        with self._lock:
            wanted = self._matcher(which)
            return dict(Counter(job.state.value for job in self._jobs.values() if wanted(job)))

    def _matcher(self, which: JobFilter) -> Callable[[Job], bool]:
        wanted = _matcher(which)
        if not which.unretried:
            return wanted
        retried = {job.retry_of for job in self._jobs.values()}
        return lambda job: job.id not in retried and wanted(job)

    def attempts(self, job: JobId) -> list[Attempt]:
        with self._lock:
            return list(self._attempts.get(job, {}).values())

    def events(self, after: int, limit: int, job: JobId | None = None) -> list[Event]:
        with self._lock:
            if job is not None:
                hits = (self._events[seq - 1] for seq in self._events_of.get(job, ()) if seq > after)
            else:
                hits = (self._events[at] for at in range(max(after, 0), len(self._events)))
            return list(islice((event for event in hits if event is not None), limit))

    def last_seq(self) -> int:
        return len(self._events)

    def nodes(self) -> list[Node]:
        with self._lock:
            return [self._nodes[id] for id in sorted(self._nodes)]

    def node(self, node: NodeId) -> Node | None:
        return self._nodes.get(node)

    def logs(self, job: JobId, attempt: int | None = None) -> list[LogRange]:
        with self._lock:
            index = self._logs.get(job, {})
            return [index[at] for at in sorted(index) if attempt is None or index[at].attempt == attempt]

    def attempts_with_output(self, streams: Sequence[str]) -> list[tuple[JobId, int]]:
        with self._lock:
            found = {
                (self._jobs[job].seq, job, entry.attempt)
                for job, index in self._logs.items()
                for entry in index.values()
                if entry.stream in streams
            }
            return [(job, attempt) for _, job, attempt in sorted(found)]

    def log_ends(self, job: JobId, attempt: int, task: int) -> dict[tuple[int, str], int]:
        with self._lock:
            ends = self._log_ends.get(job, {})
            return {of[3:]: end for of, end in sorted(ends.items()) if of[1:3] == (attempt, task)}

    def key_in_use(self, keys: Sequence[str]) -> set[str]:
        with self._lock:
            asked = set(keys)
            return {entry.key for index in self._logs.values() for entry in index.values() if entry.key in asked}

    def submitted(self, key: str) -> SubmitKey | None:
        return self._keys.get(key)

    def ended_before(self, when: float, limit: int) -> list[JobId]:
        with self._lock:
            ended = [
                (job.ended_at, job.seq, job.id)
                for id, index in self._logs.items()
                if index and (job := self._jobs[id]).ended_at is not None and job.ended_at < when
            ]
            return [id for _, _, id in sorted(ended)[:limit]]

    def close(self) -> None:
        """Nothing to let go of."""


def _within(job: Job, projects: frozenset[str] | None) -> bool:
    return projects is None or job.spec.project in projects


def _is_called(job: Job, prefix_or_name: str) -> bool:
    return job.id.startswith(prefix_or_name) or job.spec.name == prefix_or_name


def _tagged(job: Job, key: str, value: str | None) -> bool:
    tags = dict(job.spec.tags)
    return key in tags and value in (None, tags[key])


def _matcher(which: JobFilter) -> Callable[[Job], bool]:
    """A test that a job must pass to be on the page: one check per field that was asked for."""
    checks: list[Callable[[Job], bool]] = []
    if which.states:
        checks.append(lambda job: job.state.value in which.states)
    if which.projects is not None:
        checks.append(lambda job: _within(job, which.projects))
    if which.project:
        checks.append(lambda job: job.spec.project == which.project)
    if which.user:
        checks.append(lambda job: job.user == which.user)
    if which.queue:
        checks.append(lambda job: job.spec.queue == which.queue)
    if which.name:
        shape = re.compile(".*".join(map(re.escape, which.name.split("*"))), re.DOTALL)
        checks.append(lambda job: shape.fullmatch(job.spec.name) is not None)
    for key, value in which.tags:
        checks.append(lambda job, key=key, value=value: _tagged(job, key, value))  # type: ignore[misc]
    if which.before is not None:
        since = which.before
        checks.append(lambda job: (job.submitted_at if job.ended_at is None else job.ended_at) < since)
    if which.array:
        checks.append(lambda job: job.array_id == which.array)
    if which.ids:
        checks.append(lambda job: job.id in which.ids)
    return lambda job: all(check(job) for check in checks)
