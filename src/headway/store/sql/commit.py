"""One group commit on its way into a SQL database: which changes count, and what is written for them.

It runs inside a transaction that holds the counters' lock, so nobody else writes meanwhile: what it reads stays true.
The transaction itself, and what becomes of errors, is in store.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import sqlalchemy as sa

from headway.core.job.events import Event
from headway.core.model import ENDS, Attempt, Job, JobId, Phase
from headway.store.protocol import (
    Batch,
    Committed,
    LeaderLost,
    LogRange,
    Stream,
    repeated_jobs,
)
from headway.store.sql import rows
from headway.store.sql.accounts import write_accounts, write_audit
from headway.store.sql.files import FileStatements, FileWriter, jobs_of
from headway.store.sql.rows import Row
from headway.store.sql.setup import write_setup
from headway.store.sql.statements import CHUNK, Statements
from headway.store.sql.tables import KeptTables
from headway.store.tables import without_stale

END_STATES = frozenset(state.value for state in ENDS)
FENCED = frozenset({Phase.LOST.value, Phase.RELEASED.value})
LOG_CHUNK = 200

Written = tuple[int, Attempt]
"""The version of a job that this store wrote last, and its attempt: what lies on disk as long as the version agrees."""


def in_chunks(values: Sequence[Any], size: int = CHUNK) -> Iterable[tuple[Any, ...]]:
    for at in range(0, len(values), size):
        yield tuple(values[at : at + size])


class Commit:
    """A batch being written. Use it once: construct, `write`, and after the transaction is through, read `written`."""

    def __init__(
        self,
        connection: sa.Connection,
        statements: Statements,
        files: FileStatements,
        written: Mapping[JobId, Written],
        together: Callable[[sa.Connection], AbstractContextManager[None]],
        tables: KeptTables,
    ) -> None:
        self._connection = connection
        self._tables = tables
        self._together = together
        # The driver's own cursor: the statements are plain text already, and all else would cost more than they do.
        self._cursor: Any = connection.connection.cursor()
        self._sql = statements
        self._files = files
        self._before = written
        self.written: dict[JobId, Written | None] = {}  # None: nothing to remember any more.
        self._seqs: dict[JobId, int] = {}
        self._versions: dict[JobId, int] = {}
        self._ended: dict[JobId, bool] = {}
        self._stale: set[JobId] = set()
        self._events: list[Row] = []
        self._data: tuple[object, str, str] = (None, "", "")
        self._event_seq = 0
        self._job_seq = 0
        self._forgotten: list[JobId] = []

    def write(self, batch: Batch, epoch: int | None) -> Committed:
        with self._together(self._connection):
            event_seq, job_seq, _, _, led, *_ = self._rows(self._sql.lock)[0]
            if epoch is not None and epoch != led:
                raise LeaderLost(f"this server led in epoch {epoch}; the store is in epoch {led}")
            self._event_seq, self._job_seq = event_seq, job_seq
            self._look_up(batch)
        files = FileWriter(self._cursor, self._files, batch.files) if batch.files is not None else None
        if files is not None:
            files.look()
        with self._together(self._connection):
            log_ends = self._write_plain(batch)
            if (self._event_seq, self._job_seq) != (event_seq, job_seq):
                self._cursor.execute(self._sql.count, (self._event_seq, self._job_seq, 1))
        fenced = files.save(self._seqs) if files is not None else ()
        if self._forgotten:
            self._tables.forget(self._connection, self._forgotten)
        if batch.setup is not None:
            write_setup(self._connection, self._sql, batch.setup)
        if batch.accounts is not None:
            write_accounts(self._connection, self._sql, batch.accounts)
        if batch.rows:
            self._tables.write(self._connection, without_stale(batch.rows, self._stale), self._seqs)
        write_audit(self._connection, self._sql, batch.audit_without(self._stale))
        first_job_seq = job_seq + 1 if self._job_seq > job_seq else 0
        return Committed(self._event_seq, frozenset(self._stale), first_job_seq, log_ends, frozenset(fenced))

    def _write_plain(self, batch: Batch) -> dict[Stream, int]:
        """Jobs, events, nodes and logs: what nearly every batch brings."""
        self._save_jobs(batch)
        forgotten = self._forget(batch)
        for event in batch.events:
            self._record(event, self._seqs.get(event.job, 0))
        self._run(self._sql.insert_event, self._events)
        for statement in self._sql.forget:
            self._run(statement, forgotten)
        self._run(self._sql.put_node, [rows.node_row(node) for node in batch.nodes])
        return self._save_logs(batch)

    def _run(self, statement: str, many: list[Row]) -> None:
        if len(many) == 1:
            self._cursor.execute(statement, many[0])
        elif many:
            self._cursor.executemany(statement, many)

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        self._cursor.execute(statement, values)
        return list(self._cursor.fetchall())

    def _look_up(self, batch: Batch) -> None:
        """Read what is known of every job that the batch names, and drop submits that are here a second time."""
        asked = dict.fromkeys(change.job.id for change in batch.jobs)
        asked.update(dict.fromkeys(forget.job for forget in batch.forget))
        asked.update(dict.fromkeys(event.job for event in batch.events if event.job))
        for part in (batch.logs, batch.move_logs, batch.drop_logs):
            asked.update(dict.fromkeys(entry.job for entry in part))
        if batch.files is not None:
            asked.update(dict.fromkeys(jobs_of(batch.files)))
        asked.update(dict.fromkeys(each.row.job for each in batch.rows if each.table.of_job and each.row is not None))
        for chunk in in_chunks(list(asked)):
            for id, seq, version, state in self._rows(self._sql.many(self._sql.versions, chunk), chunk):
                self._seqs[id] = seq
                self._versions[id] = version
                self._ended[id] = state in END_STATES
        known: set[str] = set()
        for chunk in in_chunks([key.key for key in batch.keys]):
            known.update(key for (key,) in self._rows(self._sql.many(self._sql.known_keys, chunk), chunk))
        self._stale = repeated_jobs(batch.keys, known)
        new_keys = {key.key: key for key in reversed(batch.keys) if key.key not in known}
        self._run(self._sql.insert_key, [rows.key_row(key) for key in new_keys.values()])

    # --- jobs ---
    def _save_jobs(self, batch: Batch) -> None:
        latest: dict[JobId, Job] = {}
        new: set[JobId] = set()
        respecified: set[JobId] = set()
        tries: dict[tuple[JobId, int], Attempt] = {}
        on_disk: dict[JobId, Attempt] = {}
        versions, stale = self._versions, self._stale
        for change in batch.jobs:
            job = change.job
            id, expected = job.id, change.expected_version
            version = versions.get(id, 0)
            if version != expected or (version == 0 and id in stale):
                stale.add(id)
                continue
            if version == 0:
                self._job_seq += 1
                self._seqs[id] = self._job_seq
                new.add(id)
            elif id not in latest and (before := self._before.get(id)) is not None and before[0] == version:
                on_disk[id] = before[1]
            versions[id] = job.version
            latest[id] = job
            if job.attempt is not None:
                tries[id, job.attempt.number] = job.attempt
            if change.respecified:
                respecified.add(id)
            for event in change.events:
                self._record(event, self._seqs[id])
        self._write_jobs(latest, new)
        changed = [rows.respecified_row(latest[id], self._seqs[id]) for id in sorted(respecified - new)]
        self._run(self._sql.respecify_job, changed)
        self._run(self._sql.drop_tags, [(self._seqs[id],) for id in sorted(respecified - new)])
        tagged = [latest[id] for id in latest if latest[id].spec.tags and (id in new or id in respecified)]
        self._run(self._sql.insert_tag, [row for job in tagged for row in rows.tag_rows(job, self._seqs[job.id])])
        self._write_attempts(tries, on_disk)

    def _write_jobs(self, latest: dict[JobId, Job], new: set[JobId]) -> None:
        inserts: list[Row] = []
        updates: list[Row] = []
        spec, spec_json = None, ""
        for id, job in latest.items():
            if id in new:
                if job.spec is not spec:
                    spec, spec_json = job.spec, rows.to_json(job.spec)
                inserts.append(rows.new_job_row(job, self._seqs[id], spec_json))
            else:
                updates.append(rows.changed_job_row(job, self._seqs[id]))
            ended = self._ended[id] = job.state in ENDS
            self.written[id] = None if ended or job.attempt is None else (job.version, job.attempt)
        self._run(self._sql.insert_job, inserts)
        self._run(self._sql.update_job, updates)

    def _write_attempts(self, tries: dict[tuple[JobId, int], Attempt], on_disk: dict[JobId, Attempt]) -> None:
        """Write attempts and tasks, leaving out what is on disk already: one claim in a gang of 1,000 is one row."""
        attempt_rows: list[Row] = []
        task_rows: list[Row] = []
        for (id, number), attempt in tries.items():
            seq, there = self._seqs[id], on_disk.get(id)
            if there is attempt:
                continue
            attempt_rows.append(rows.attempt_row(attempt, seq))
            if there is None or there.number != number or len(there.tasks) != len(attempt.tasks):
                task_rows += [rows.task_row(task, number, seq) for task in attempt.tasks]
                continue
            for task, old in zip(attempt.tasks, there.tasks, strict=True):
                if task is not old and task != old:
                    task_rows.append(rows.task_row(task, number, seq))
        self._run(self._sql.put_attempt, attempt_rows)
        self._run(self._sql.put_task, task_rows)

    def _record(self, event: Event, job_seq: int) -> None:
        self._event_seq += 1
        # The elements of an array share what their events say.
        said, by, row = self._data
        shared = row if said is event.data and by == event.request else None
        made = rows.event_row(event, self._event_seq, job_seq, shared)
        self._data = (event.data, event.request, made[-1])
        self._events.append(made)

    def _forget(self, batch: Batch) -> list[Row]:
        """Record what is forgotten, and return the numbers of those jobs."""
        forgotten: list[Row] = []
        for forget in batch.forget:
            if not self._ended.pop(forget.job, False):
                self._stale.add(forget.job)
                continue
            forgotten.append((self._seqs.pop(forget.job),))
            self._forgotten.append(forget.job)
            self.written[forget.job] = None
            self._record(forget.event, 0)
        return forgotten

    # --- logs ---
    def _save_logs(self, batch: Batch) -> dict[Stream, int]:
        if not (batch.logs or batch.drop_logs or batch.move_logs):
            return {}
        phases, ends = self._fence([*batch.logs, *batch.move_logs])
        moved = [entry for entry in batch.move_logs if (entry.job, entry.attempt, entry.task) in phases]
        touched: set[Stream] = set()
        for entry in moved:
            ends[entry.of] = max(entry.end, ends.get(entry.of, 0))
            touched.add(entry.of)
        accepted: list[LogRange] = []
        log_ends: dict[Stream, int] = {}
        for entry in batch.logs:
            of = entry.of
            end = ends.get(of, 0)
            if entry.start == end < entry.end and phases.get(of[:3], Phase.LOST.value) not in FENCED:
                accepted.append(entry)
                touched.add(of)
                end = ends[of] = entry.end
            log_ends[of] = end
        dropped = [entry for entry in batch.drop_logs if entry.job in self._seqs]
        seqs = self._seqs
        self._run(self._sql.drop_log, [rows.log_row(entry, seqs[entry.job])[:8] for entry in dropped])
        self._run(self._sql.put_log, [rows.log_row(entry, seqs[entry.job]) for entry in moved])
        self._run(self._sql.insert_log, [rows.log_row(entry, seqs[entry.job]) for entry in accepted])
        self._run(self._sql.put_log_end, [(seqs[of[0]], *of[1:], ends[of]) for of in sorted(touched)])
        return log_ends

    def _fence(self, entries: list[LogRange]) -> tuple[dict[tuple[JobId, int, int], str], dict[Stream, int]]:
        """The phase of each task that exists, and where each of its streams ends."""
        ids = {self._seqs[entry.job]: entry.job for entry in entries if entry.job in self._seqs}
        asked = {(self._seqs[entry.job], entry.attempt, entry.task) for entry in entries if entry.job in self._seqs}
        phases: dict[tuple[JobId, int, int], str] = {}
        ends: dict[Stream, int] = {}
        for chunk in in_chunks(sorted(asked), LOG_CHUNK):
            values = tuple(value for task in chunk for value in task)
            for seq, attempt, task, phase, rank, stream, end in self._rows(self._sql.log_fence(len(chunk)), values):
                phases[ids[seq], attempt, task] = phase
                if rank is not None:
                    ends[ids[seq], attempt, task, rank, stream] = end
        return phases, ends
