"""Every statement that a commit or a hot read sends, compiled once per database into plain SQL text.

Per execution SQLAlchemy then has nothing left to compile or to convert: parameters go in, and rows come out, as tuples
in the order of the columns. Seldom-used reads with varying filters are built where they are used, in store.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from headway.core.model import ENDS, State
from headway.store.sql import rows, schema

MANY = "__many__"
CHUNK = 500
"""How many values one IN list may have."""

NEWEST = schema.jobs.outerjoin(
    schema.attempts,
    sa.and_(schema.attempts.c.job == schema.jobs.c.seq, schema.attempts.c.number == schema.jobs.c.attempt),
)
JOBS = sa.select(schema.jobs, schema.attempts).select_from(NEWEST)
"""Jobs, each with the row of its newest attempt: what rows.read_job takes."""

# Written by hand: SQLite searches by a row of values only in a join, and SQLAlchemy names such a join awkwardly.
LOG_FENCE = f"""
WITH asked (job, attempt, task) AS (VALUES {MANY})
SELECT tasks.job, tasks.attempt, tasks."index", tasks.phase, log_ends.rank, log_ends.stream, log_ends."end"
FROM asked
JOIN tasks ON tasks.job = asked.job AND tasks.attempt = asked.attempt AND tasks."index" = asked.task
LEFT JOIN log_ends ON log_ends.job = asked.job AND log_ends.attempt = asked.attempt AND log_ends.task = asked.task
"""


class Statements:
    """SQL text in the words of one database."""

    def __init__(self, dialect: sa.Dialect) -> None:
        self._dialect = dialect
        self.mark = "?" if dialect.paramstyle == "qmark" else "%s"
        jobs, attempts, tasks, events = schema.jobs, schema.attempts, schema.tasks, schema.events
        ranges, ends, counters = schema.log_ranges, schema.log_ends, schema.counters

        # Both rows are locked: of a row that it joins without locking it, PostgreSQL would show what was there before
        # the wait, and a leader that was replaced meanwhile would go on writing.
        self.lock = self._text(
            sa.select(counters.c.event_seq, counters.c.job_seq, schema.leader)
            .select_from(counters.join(schema.leader, schema.leader.c.one == counters.c.one))
            .with_for_update()
        )
        self.count = self.update(counters, ["event_seq", "job_seq"], ["one"])
        self.lead = self.update(schema.leader, ["server", "epoch", "until", "address"], ["one"])

        self.insert_job = self.insert(jobs)
        self.update_job = self.update(jobs, rows.CHANGING, ["seq"])
        self.respecify_job = self.update(jobs, rows.RESPECIFIED, ["seq"])
        self.insert_tag = self.insert(schema.job_tags)
        self.drop_tags = self.delete(schema.job_tags, ["job"])
        self.put_attempt = self.upsert(attempts)
        self.put_task = self.upsert(tasks, rows.TASK)
        self.insert_event = self.insert(events)
        self.put_node = self.upsert(schema.nodes)
        self.insert_key = self.insert(schema.submit_keys)
        self.insert_log = self.insert(ranges)
        self.put_log = self.upsert(ranges)
        self.put_log_end = self.upsert(ends)
        self.drop_log = self.delete(ranges, ["job", "attempt", "task", "rank", "stream", "start", "end", "key"])
        of_job = (attempts, tasks, ranges, ends, schema.checkpoints, schema.artifacts, schema.uses, schema.job_tags)
        self.forget = [self.delete(table, ["job"]) for table in of_job]
        self.forget += [self.delete(events, ["job_seq"]), self.delete(jobs, ["seq"])]

        self.versions = self._text(
            sa.select(jobs.c.id, jobs.c.seq, jobs.c.version, jobs.c.state).where(_among(jobs.c.id))
        )
        self.known_keys = self._text(sa.select(schema.submit_keys.c.key).where(_among(schema.submit_keys.c.key)))
        self.jobs = self._text(JOBS.where(_among(jobs.c.id)))
        unfinished = [state.value for state in State if state not in ENDS]
        self.unfinished = self._text(
            JOBS.where(jobs.c.state.in_([sa.literal_column(f"'{state}'") for state in unfinished])).order_by(jobs.c.seq)
        )
        self.tasks = self._text(
            sa.select(*(tasks.c[name] for name in rows.TASK))
            .join(jobs, sa.and_(tasks.c.job == jobs.c.seq, tasks.c.attempt == jobs.c.attempt))
            .where(_among(jobs.c.seq))
            .order_by(tasks.c.job, tasks.c.index)
        )
        of_newest = sa.and_(tasks.c.job == jobs.c.seq, tasks.c.attempt == jobs.c.attempt)
        self.newest_tasks = self._text(
            sa.select(jobs.c.id, jobs.c.attempt, tasks.c.index, tasks.c.phase, attempts.c.ended_at)
            .select_from(NEWEST.outerjoin(tasks, of_newest))
            .where(_among(jobs.c.id))
        )

        self._prepare_small_reads()

    def _prepare_small_reads(self) -> None:
        """What is asked once or more for each job, or by everybody who follows the events."""
        events, ends, keys = schema.events, schema.log_ends, schema.submit_keys
        after = sa.select(events).where(events.c.seq > sa.bindparam("after"))
        limit = f" LIMIT {self.mark}"  # By hand: SQLAlchemy gives SQLite an offset too.
        self.events = self._text(after.order_by(events.c.seq), ["after"]) + limit
        of_job = after.where(events.c.job_seq == sa.bindparam("job_seq"), events.c.job == sa.bindparam("job"))
        self.events_of_job = self._text(of_job.order_by(events.c.seq), ["after", "job_seq", "job"]) + limit
        leader = schema.leader.c
        self.glance = self._text(
            sa.select(schema.counters.c.event_seq, leader.server, leader.epoch, leader.until, leader.address).join(
                schema.leader, leader.one == schema.counters.c.one
            )
        )
        self.last_seq = self._text(sa.select(schema.counters.c.event_seq))
        self.seq_of_job = self._text(sa.select(schema.jobs.c.seq).where(schema.jobs.c.id == sa.bindparam("id")), ["id"])
        self.log_ends = self._text(
            sa.select(ends.c.rank, ends.c.stream, ends.c.end)
            .join(schema.jobs, schema.jobs.c.seq == ends.c.job)
            .where(schema.jobs.c.id == sa.bindparam("id"))
            .where(ends.c.attempt == sa.bindparam("attempt"), ends.c.task == sa.bindparam("task"))
            .order_by(ends.c.rank, ends.c.stream),
            ["id", "attempt", "task"],
        )
        self.submitted = self._text(sa.select(keys).where(keys.c.key == sa.bindparam("key")), ["key"])

    def many(self, statement: str, values: Sequence[Any]) -> str:
        """The statement with as many marks in its list as there are values."""
        return statement.replace(MANY, ",".join([self.mark] * len(values)))

    def log_fence(self, tasks: int) -> str:
        """The phase of this many tasks, and where their streams end."""
        return LOG_FENCE.replace(MANY, ",".join([f"({self.mark},{self.mark},{self.mark})"] * tasks))

    def _text(self, statement: sa.ClauseElement, binds: Iterable[str] = ()) -> str:
        compiled = statement.compile(dialect=self._dialect)
        order = list(getattr(compiled, "positiontup", None) or ())
        if order != list(binds):
            raise AssertionError(f"the parameters of {compiled} stand in the order {order}, not {list(binds)}")
        return str(compiled)

    def insert(self, table: sa.Table, columns: Iterable[str] | None = None) -> str:
        names = list(columns or table.c.keys())
        return self._text(table.insert().values({name: sa.bindparam(name) for name in names}), names)

    def upsert(self, table: sa.Table, columns: Iterable[str] | None = None) -> str:
        """Insert, or overwrite what has the same key. Both databases spell it alike."""
        names = list(columns or table.c.keys())
        quote = self._dialect.identifier_preparer.quote
        keys = ", ".join(quote(column.name) for column in table.primary_key)
        rest = [quote(name) for name in names if not table.c[name].primary_key]
        update = ", ".join(f"{name} = excluded.{name}" for name in rest)
        return f"{self.insert(table, names)} ON CONFLICT ({keys}) DO UPDATE SET {update}"

    def insert_new(self, table: sa.Table) -> str:
        """Insert, or leave what has the same key."""
        return f"{self.insert(table)} ON CONFLICT DO NOTHING"

    def update(self, table: sa.Table, columns: Iterable[str], keys: Sequence[str]) -> str:
        names = list(columns)
        where = [table.c[key] == sa.bindparam(f"where_{key}") for key in keys]
        values: dict[str, Any] = {name: sa.bindparam(f"set_{name}") for name in names}
        binds = [f"set_{name}" for name in names] + [f"where_{key}" for key in keys]
        return self._text(table.update().where(*where).values(values), binds)

    def delete(self, table: sa.Table, keys: Sequence[str]) -> str:
        where = [table.c[key] == sa.bindparam(f"where_{key}") for key in keys]
        return self._text(table.delete().where(*where), [f"where_{key}" for key in keys])


def _among(column: sa.Column[Any]) -> sa.ColumnElement[bool]:
    return column.in_([sa.literal_column(MANY)])
