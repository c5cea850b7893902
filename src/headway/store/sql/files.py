"""Checkpoints, artifacts and what jobs use in SQL: what a group commit writes of them, and how they are read.

Statements are compiled with their first use: most batches bring none of this. The rest of a commit is in commit.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sqlalchemy as sa

from headway.core.files.checkpoints import Checkpoint
from headway.core.model import JobId, Phase
from headway.store.protocol import Artifact, Files, SharesUsed
from headway.store.sql import rows, schema
from headway.store.sql.rows import Row
from headway.store.sql.statements import CHUNK, Statements

FENCED = (Phase.LOST.value, Phase.RELEASED.value)
TaskRef = tuple[JobId, int, int]


def jobs_of(files: Files) -> Iterable[JobId]:
    """Every job that the files belong to."""
    for part in (files.checkpoints, files.changed, files.dropped, files.artifacts, files.uses):
        yield from (entry.job for entry in part)


@dataclass
class FileWriter:
    """Writes the files of one batch: `look` before the batch's job changes are written, `save` after."""

    cursor: Any  # The driver's own, as in commit.py.
    statements: FileStatements
    files: Files

    def look(self) -> None:
        """Read which tasks may write: those of newest attempts that go on, as they stood before this batch."""
        self._before: dict[JobId, int] = {}
        self._open: set[TaskRef] = set()
        asked = sorted({entry.job for part in (self.files.checkpoints, self.files.artifacts) for entry in part})
        for at in range(0, len(asked), CHUNK):
            chunk = asked[at : at + CHUNK]
            self.cursor.execute(self.statements.newest_tasks(chunk), chunk)
            for id, number, index, phase, ended_at in self.cursor.fetchall():
                self._before[id] = number
                if index is not None and ended_at is None and phase not in FENCED:
                    self._open.add((id, number, index))

    def save(self, seqs: Mapping[JobId, int]) -> set[JobId]:
        """Write everything that may be written; returns the jobs of which something was left out."""
        fenced: set[JobId] = set()
        files = self.files
        checkpoints: list[Row] = []
        for entry in files.checkpoints:
            if entry.job in seqs and self._may_write(entry):
                checkpoints.append(rows.checkpoint_row(entry, seqs[entry.job]))
            else:
                fenced.add(entry.job)
        artifacts: list[Row] = []
        for kept in files.artifacts:
            if kept.job in seqs and (kept.job, kept.attempt, kept.task) in self._open:
                artifacts.append(rows.artifact_row(kept, seqs[kept.job]))
            else:
                fenced.add(kept.job)
        statements = self.statements
        self._run(statements.put_checkpoint, checkpoints)
        self._run(statements.put_artifact, artifacts)
        changed = [
            (each.state, int(each.pinned), rows.to_json(each.savers), seqs[each.job], *each.id[1:])
            for each in files.changed
            if each.job in seqs
        ]
        self._run(statements.change_checkpoint, changed)
        self._run(
            statements.drop_checkpoint, [(seqs[each.job], *each.id[1:]) for each in files.dropped if each.job in seqs]
        )
        uses = dict.fromkeys((seqs[use.job], use.kind, use.name) for use in files.uses if use.job in seqs)
        self._run(statements.put_use, list(uses))
        return fenced

    def _may_write(self, entry: Checkpoint) -> bool:
        if entry.attempt == 0:
            return self._before.get(entry.job, 0) == 0
        return (entry.job, entry.attempt, entry.task) in self._open

    def _run(self, statement: str, many: list[Any]) -> None:
        if many:
            self.cursor.executemany(statement, many)


class FileReads:
    """The reading half, for the store to inherit."""

    def _reading(self) -> AbstractContextManager[sa.Connection]:
        raise NotImplementedError

    def checkpoints(self, job: JobId) -> list[Checkpoint]:
        table = schema.checkpoints
        query = sa.select(table).where(table.c.job == seq_of(job))
        with self._reading() as connection:
            found = connection.execute(query.order_by(table.c.attempt, table.c.step, table.c.task))
            return [rows.read_checkpoint(row, job) for row in found]

    def checkpoints_under(self, prefix: str) -> list[Checkpoint]:
        table = schema.checkpoints
        query = sa.select(schema.jobs.c.id, table).join(schema.jobs, schema.jobs.c.seq == table.c.job)
        begins = sa.and_(table.c.key >= prefix, table.c.key < prefix + "\U0010ffff")
        order = (table.c.key, table.c.job, table.c.attempt)
        with self._reading() as connection:
            found = connection.execute(query.where(begins).order_by(*order))
            return [rows.read_checkpoint(row[1:], row[0]) for row in found]

    def artifacts(self, job: JobId, attempt: int | None = None) -> list[Artifact]:
        table = schema.artifacts
        query = sa.select(table).where(table.c.job == seq_of(job)).order_by(*table.primary_key.columns)
        if attempt is not None:
            query = query.where(table.c.attempt == attempt)
        with self._reading() as connection:
            return [rows.read_artifact(row, job) for row in connection.execute(query)]

    def uses(self, job: JobId) -> list[SharesUsed]:
        uses = schema.uses.c
        query = sa.select(uses.kind, uses.name).where(uses.job == seq_of(job)).order_by(uses.kind, uses.name)
        with self._reading() as connection:
            return [SharesUsed(job, kind, name) for kind, name in connection.execute(query)]

    def users(self, kind: str, name: str) -> list[JobId]:
        jobs, uses = schema.jobs.c, schema.uses.c
        query = sa.select(jobs.id).join(schema.uses, uses.job == jobs.seq).order_by(jobs.seq)
        with self._reading() as connection:
            return list(connection.execute(query.where(uses.kind == kind, uses.name == rows.plain(name))).scalars())


def seq_of(job: JobId) -> sa.ScalarSelect[Any]:
    return sa.select(schema.jobs.c.seq).where(schema.jobs.c.id == rows.plain(job)).scalar_subquery()


class FileStatements:
    """SQL text of the writes, in the words of one database."""

    def __init__(self, statements: Statements) -> None:
        self._made = statements

    def newest_tasks(self, jobs: Sequence[JobId]) -> str:
        return self._made.many(self._made.newest_tasks, jobs)

    @cached_property
    def put_checkpoint(self) -> str:
        return self._made.upsert(schema.checkpoints)

    @cached_property
    def put_artifact(self) -> str:
        return self._made.upsert(schema.artifacts)

    @cached_property
    def put_use(self) -> str:
        return self._made.insert_new(schema.uses)

    @cached_property
    def change_checkpoint(self) -> str:
        return self._made.update(schema.checkpoints, ["state", "pinned", "savers"], ["job", "attempt", "task", "step"])

    @cached_property
    def drop_checkpoint(self) -> str:
        return self._made.delete(schema.checkpoints, ["job", "attempt", "task", "step"])
