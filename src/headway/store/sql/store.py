"""The store in a SQL database: SQLite in WAL mode for one machine, PostgreSQL by another URL.

Here are transactions, errors and reads. What a group commit writes is in commit.py, the tables in schema.py, and what
differs between the two databases in databases.py.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from headway.core.errors import HeadwayError, Unavailable
from headway.core.job.events import Event
from headway.core.model import Attempt, Job, JobId, Node, NodeId, State, Task
from headway.store.protocol import ALL_JOBS, Batch, Committed, JobFilter, LogRange, SubmitKey, wrong_version
from headway.store.sql import rows, schema
from headway.store.sql.accounts import AccountTables
from headway.store.sql.commit import Commit, Written, in_chunks
from headway.store.sql.databases import Database
from headway.store.sql.dump import Dump, dump
from headway.store.sql.files import FileReads, FileStatements
from headway.store.sql.files import seq_of as _seq_of
from headway.store.sql.layout import bring_to_head
from headway.store.sql.rows import Row
from headway.store.sql.servers import Servers
from headway.store.sql.setup import SetupReads
from headway.store.sql.statements import JOBS, Statements
from headway.store.sql.tables import KeptTables, TableReads
from headway.store.tables import Layout

EVERY_STATE = [state.value for state in State]


class SqlStore(FileReads, SetupReads, Servers, AccountTables, TableReads):
    """Jobs, events, nodes and the log index in a database. Open it with `SqlStore.open(url)`."""

    def __init__(self, database: Database, layouts: Sequence[Layout] = ()) -> None:
        self._database = database
        self._sql = Statements(database.reads.dialect)
        self._tables = KeptTables(layouts, lambda: self._sql)
        self._files = FileStatements(self._sql)
        self._lock = threading.Lock()
        self._written: dict[JobId, Written] = {}

    @classmethod
    def open(cls, url: str, migrating: bool = True, layouts: Sequence[Layout] = ()) -> SqlStore:
        """Open the database at this URL; make its tables when it is empty, migrate them when they are older.

        Without `migrating` older tables are refused: other servers may be at work on them. `layouts` are the tables of
        the features that it shall keep.
        """
        database = Database(url)
        store = cls(database, layouts)
        try:
            bring_to_head(database, url, migrating, store._tables)
        except database.out_of_order as error:
            database.close()
            raise Unavailable(f"the database {database.name} cannot be opened: {_reason(error)}") from error
        except BaseException:
            database.close()
            raise
        return store

    def close(self) -> None:
        self._database.close()

    def dump(self, path: Path, saw: Callable[[str, Mapping[str, Any]], None]) -> Dump:
        """Write all tables, as they are at one moment, into a file."""
        with self._plainly("could not be read"):
            return dump(self._database, path, saw, self._tables)

    # --- writing ---
    def commit(self, batch: Batch, epoch: int | None = None) -> Committed:
        for change in batch.jobs:
            if change.job.version != change.expected_version + 1:
                raise wrong_version(change)
        with self._writing() as connection:
            commit = Commit(connection, self._sql, self._files, self._written, self._database.together, self._tables)
            done = commit.write(batch, epoch)
        for id, written in commit.written.items():
            if written is None:
                self._written.pop(id, None)
            else:
                self._written[id] = written
        return done

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """A transaction that is alone in writing, from its first statement on."""
        what = "could not be reached"
        with self._lock:
            try:
                connection = self._database.writer()
                what = "could not take the change; nothing of it was written"
                with connection.begin() as transaction:
                    yield connection
                    if not self._database.is_sqlite:
                        what = "broke off while it confirmed the change; it is written wholly, or not at all"
                    transaction.commit()
            except self._database.out_of_order as error:
                self._database.drop_writer()
                raise self._unavailable(what, error) from error
            except HeadwayError:
                raise
            except Exception:
                # Something that the database cannot hold. In the middle of what was sent together, nobody knows
                # what the connection still expects.
                self._database.drop_writer()
                raise

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        """A transaction in which all reads see one moment."""
        with self._plainly("could not be read"), self._database.reads.connect() as connection:
            yield connection

    @contextmanager
    def _plainly(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._database.out_of_order as error:
            raise self._unavailable(what, error) from error

    def _unavailable(self, what: str, error: Exception) -> Unavailable:
        inside = f"{self._database.name}: {_reason(error)}"
        if self._database.is_sqlite:
            hint = "free space on its disk; the request can be sent again"
            return Unavailable(f"the database {what} ({_reason(error)})", hint, inside)
        # PostgreSQL's own words name hosts and users: they are for those who run it.
        return Unavailable(f"the database {what}", "the request can be sent again; the server's log says more", inside)

    # --- reading jobs ---
    def jobs(self, ids: Sequence[JobId]) -> list[Job]:
        by_id: dict[JobId, Job] = {}
        asked = list(dict.fromkeys(map(rows.plain, ids)))
        with self._reading() as connection:
            for chunk in in_chunks(asked):
                found = connection.exec_driver_sql(self._sql.many(self._sql.jobs, chunk), chunk)
                by_id.update((job.id, job) for job in self._jobs(connection, found.fetchall()))
        return [by_id[id] for id in asked if id in by_id]

    def unfinished(self) -> list[Job]:
        with self._reading() as connection:
            return self._jobs(connection, connection.exec_driver_sql(self._sql.unfinished).fetchall())

    def page(self, which: JobFilter, before_seq: int | None, limit: int) -> list[Job]:
        jobs = schema.jobs.c
        wanted = self._wanted(which)
        wanted += [] if before_seq is None else [jobs.seq < before_seq]
        states = sorted(which.states) or (EVERY_STATE if which.array else [])
        if len(states) < 2:
            wanted += [jobs.state == state for state in states]
            return self._select_jobs(JOBS.where(*wanted).order_by(jobs.seq.desc()).limit(limit))
        # The newest of each state, and of those the newest: over several states at once, a database would sort all.
        return self._newest([sa.select(jobs.seq).where(jobs.state == state, *wanted) for state in states], limit)

    def _wanted(self, which: JobFilter) -> list[sa.ColumnElement[bool]]:
        """What a selection asks for, but for the states."""
        wanted = selected(schema.jobs, which, self._database.is_sqlite)
        if which.unretried:
            other = schema.jobs.alias()
            wanted.append(~sa.exists().where(other.c.retry_of == schema.jobs.c.id))
        return wanted

    def _newest(self, queries: list[sa.Select[Any]], limit: int) -> list[Job]:
        """The newest jobs of several queries for their numbers."""
        seq = schema.jobs.c.seq
        parts = [query.order_by(seq.desc()).limit(limit).subquery() for query in queries]
        found = sa.union(*(sa.select(part.c.seq) for part in parts)).subquery()
        return self._select_jobs(JOBS.where(seq.in_(sa.select(found.c.seq))).order_by(seq.desc()).limit(limit))

    def find(self, prefix_or_name: str, limit: int = 10, projects: frozenset[str] | None = None) -> list[Job]:
        jobs = schema.jobs.c
        text = rows.plain(prefix_or_name)
        begins = sa.and_(jobs.id >= text, jobs.id < text + "\U0010ffff")
        seen = [] if projects is None else [jobs.project.in_(sorted(projects))]
        queries = [sa.select(jobs.seq).where(begins, *seen), sa.select(jobs.seq).where(jobs.name == text, *seen)]
        return self._newest(queries, limit)

    def _select_jobs(self, query: sa.Select[Any]) -> list[Job]:
        with self._reading() as connection:
            return self._jobs(connection, connection.execute(query).fetchall())

    def _jobs(self, connection: sa.Connection, found: Sequence[Row]) -> list[Job]:
        """The jobs of these rows, with the tasks of their newest attempts."""
        tasks: dict[int, list[Task]] = {}
        for chunk in in_chunks([row[0] for row in found if row[4]]):
            of_chunk = connection.exec_driver_sql(self._sql.many(self._sql.tasks, chunk), chunk)
            for row in of_chunk.fetchall():
                tasks.setdefault(row[0], []).append(rows.read_task(row))
        return [rows.read_job(row, tuple(tasks.get(row[0], ()))) for row in found]

    def counts(self, which: JobFilter = ALL_JOBS) -> dict[str, int]:
        jobs = schema.jobs
        states = [jobs.c.state.in_(sorted(which.states))] if which.states else []
        wanted = [*selected(jobs, which, self._database.is_sqlite), *states]
        queries = [sa.select(jobs.c.state, sa.func.count()).where(*wanted).group_by(jobs.c.state)]
        if which.unretried:
            # Retries are few: those that they repeat are subtracted, rather than each job asked whether it is one.
            again = jobs.alias()
            some = sa.select(jobs.c.state, -sa.func.count(jobs.c.seq.distinct()))
            some = some.select_from(again.join(jobs, jobs.c.id == again.c.retry_of))
            queries.append(some.where(again.c.retry_of.is_not(None), *wanted).group_by(jobs.c.state))
        found: Counter[str] = Counter()
        with self._reading() as connection:
            for query in queries:
                for state, count in connection.execute(query):
                    found[state] += count
        return {state: count for state, count in found.items() if count}

    def attempts(self, job: JobId) -> list[Attempt]:
        attempts, tasks = schema.attempts, schema.tasks
        by_number: dict[int, list[Task]] = {}
        with self._reading() as connection:
            found = connection.execute(
                sa.select(attempts).where(attempts.c.job == _seq_of(job)).order_by(attempts.c.number)
            ).fetchall()
            columns = [tasks.c[name] for name in rows.TASK]
            order = (tasks.c.attempt, tasks.c.index)
            for row in connection.execute(sa.select(*columns).where(tasks.c.job == _seq_of(job)).order_by(*order)):
                by_number.setdefault(row[1], []).append(rows.read_task(row))
        return [rows.read_attempt(row[1:], tuple(by_number.get(row[1], ()))) for row in found]

    def ended_before(self, when: float, limit: int) -> list[JobId]:
        jobs = schema.jobs.c
        has_logs = sa.exists().where(schema.log_ranges.c.job == jobs.seq)
        query = sa.select(jobs.id).where(jobs.ended_at < when, has_logs).order_by(jobs.ended_at, jobs.seq).limit(limit)
        with self._reading() as connection:
            return list(connection.execute(query).scalars())

    # --- reading the rest ---
    def events(self, after: int, limit: int, job: JobId | None = None) -> list[Event]:
        with self._reading() as connection:
            if job is None:
                found = connection.exec_driver_sql(self._sql.events, (after, limit))
            else:
                id = rows.plain(job)
                seq = connection.exec_driver_sql(self._sql.seq_of_job, (id,)).scalar()
                found = connection.exec_driver_sql(self._sql.events_of_job, (after, seq or 0, id, limit))
            return [rows.read_event(row) for row in found.fetchall()]

    def last_seq(self) -> int:
        with self._reading() as connection:
            return int(connection.exec_driver_sql(self._sql.last_seq).scalar_one())

    def nodes(self) -> list[Node]:
        with self._reading() as connection:
            found = connection.execute(sa.select(schema.nodes).order_by(schema.nodes.c.id))
            return [rows.read_node(row) for row in found]

    def node(self, node: NodeId) -> Node | None:
        with self._reading() as connection:
            row = connection.execute(sa.select(schema.nodes).where(schema.nodes.c.id == rows.plain(node))).one_or_none()
        return rows.read_node(row) if row else None

    def logs(self, job: JobId, attempt: int | None = None) -> list[LogRange]:
        ranges = schema.log_ranges
        query = sa.select(ranges).where(ranges.c.job == _seq_of(job)).order_by(*ranges.primary_key.columns)
        if attempt is not None:
            query = query.where(ranges.c.attempt == attempt)
        with self._reading() as connection:
            return [rows.read_log(row, job) for row in connection.execute(query)]

    def attempts_with_output(self, streams: Sequence[str]) -> list[tuple[JobId, int]]:
        ranges, jobs = schema.log_ranges.c, schema.jobs.c
        found = sa.select(ranges.job, ranges.attempt).where(ranges.stream.in_(list(streams))).distinct().subquery()
        query = sa.select(jobs.id, found.c.attempt).join(found, jobs.seq == found.c.job)
        with self._reading() as connection:
            rows_ = connection.execute(query.order_by(found.c.job, found.c.attempt))
            return [(job, attempt) for job, attempt in rows_]

    def log_ends(self, job: JobId, attempt: int, task: int) -> dict[tuple[int, str], int]:
        with self._reading() as connection:
            found = connection.exec_driver_sql(self._sql.log_ends, (rows.plain(job), attempt, task))
            return {(rank, stream): end for rank, stream, end in found.fetchall()}

    def key_in_use(self, keys: Sequence[str]) -> set[str]:
        column = schema.log_ranges.c.key
        used: set[str] = set()
        with self._reading() as connection:
            for chunk in in_chunks(list(keys)):
                used.update(connection.execute(sa.select(column).where(column.in_(chunk)).distinct()).scalars())
        return used

    def submitted(self, key: str) -> SubmitKey | None:
        with self._reading() as connection:
            row = connection.exec_driver_sql(self._sql.submitted, (rows.plain(key),)).one_or_none()
        return rows.read_key(row) if row else None


def selected(jobs: sa.Table, which: JobFilter, is_sqlite: bool) -> list[sa.ColumnElement[bool]]:
    """The conditions of a selection on the columns of jobs, but for their states and retries."""
    columns = jobs.c
    wanted: list[sa.ColumnElement[bool]] = []
    for column in (columns.project, columns.user, columns.queue):
        if word := getattr(which, column.name):
            wanted.append(column == rows.plain(word))
    if which.name:
        wanted.append(_called(columns.name, rows.plain(which.name), is_sqlite))
    if which.projects is not None:
        wanted.append(columns.project.in_(sorted(which.projects)))
    if which.array:
        wanted.append(columns.array_id == rows.plain(which.array))
    if which.ids:
        wanted.append(columns.id.in_([rows.plain(id) for id in which.ids]))
    tags = schema.job_tags.c
    for key, value in which.tags:
        same = [] if value is None else [tags.value == rows.plain(value)]
        wanted.append(columns.seq.in_(sa.select(tags.job).where(tags.key == rows.plain(key), *same)))
    if which.before is not None:
        wanted.append(sa.func.coalesce(columns.ended_at, columns.submitted_at) < which.before)
    return wanted


def _called(name: sa.Column[Any], shape: str, is_sqlite: bool) -> sa.ColumnElement[bool]:
    if "*" not in shape:
        return name == shape
    if is_sqlite:  # Its LIKE does not tell capitals from small letters.
        return name.op("GLOB")(shape.replace("[", "[[]").replace("?", "[?]"))
    escaped = shape.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return name.like(escaped.replace("*", "%"), escape="\\")


def _reason(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip().split("\n")[0]
