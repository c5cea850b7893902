"""What differs between SQLite and PostgreSQL, all of it: connecting, beginning to write, and making tables alone.

Everything else about SQL in this package is the same for both.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

OUT_OF_ORDER = (exc.OperationalError, exc.InterfaceError, exc.InternalError, exc.TimeoutError)
BUSY_S = 15.0
TRUSTED_S = 0.5  # A writer's connection that was used within it needs no proof that it lives.
READERS_MOST = 24
SCHEMA_LOCK = 0x6865_6164_7761_79  # "headway": what servers that make or migrate the tables hold in PostgreSQL.


class Database:
    """Two views of one pool of connections: `reads` sees one moment per transaction, `writes` is alone."""

    def __init__(self, url: str) -> None:
        parsed = sa.make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.name = parsed.render_as_string(hide_password=True)
        kept = parsed.database if self.is_sqlite else None
        self.file = Path(kept) if kept and kept != ":memory:" else None  # Where it is a file of ours.
        pool = {"pool_size": 4, "max_overflow": READERS_MOST, "pool_timeout": BUSY_S}
        if self.is_sqlite:
            # The driver must not begin transactions by itself: it would begin to write too late.
            to_driver = {"isolation_level": None, "timeout": BUSY_S, "check_same_thread": False}
            self.reads = sa.create_engine(parsed, connect_args=to_driver, **pool)
            sa.event.listen(self.reads, "connect", _prepare_sqlite)
            sa.event.listen(self.reads, "begin", _begin_sqlite)
            self.writes = self.reads.execution_options(begin="BEGIN IMMEDIATE")
        else:
            base = sa.create_engine(
                parsed, paramstyle="format", pool_pre_ping=True, connect_args=_patience(parsed), **pool
            )
            self.reads = base.execution_options(isolation_level="REPEATABLE READ")
            # After the wait for the counters' lock, each statement must see what the writer before has written.
            self.writes = base.execution_options(isolation_level="READ COMMITTED")
        driver = self.reads.dialect.loaded_dbapi
        assert driver is not None
        # Raised when the database is away, full or broken: by SQLAlchemy, or by the driver itself.
        words = ("OperationalError", "InterfaceError", "InternalError")
        self.out_of_order: tuple[type[Exception], ...] = (
            *OUT_OF_ORDER,
            *(getattr(driver, word) for word in words),
        )
        self._writer: sa.Connection | None = None
        self._written_at = 0.0

    def now(self, connection: sa.Connection) -> float:
        """The time by the database's clock, which all servers on it share; SQLite has but this machine's."""
        if self.is_sqlite:
            return time.time()
        return float(connection.exec_driver_sql("SELECT extract(epoch FROM clock_timestamp())").scalar_one())

    def lock_schema(self, connection: sa.Connection) -> None:
        """Make other servers that want to make or migrate the tables wait until this transaction ends."""
        if not self.is_sqlite:
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))

    def writer(self) -> sa.Connection:
        """The connection of the one who writes. It is kept: to fetch and return one costs as much as a small commit."""
        if self._writer is not None and time.monotonic() - self._written_at > TRUSTED_S and not self._answers():
            self.drop_writer()
        if self._writer is None:
            self._writer = self.writes.connect()
        self._written_at = time.monotonic()
        return self._writer

    def _answers(self) -> bool:
        """Whether the writer's connection, unused for a while, still leads anywhere."""
        try:
            raw: Any = self._writer and self._writer.connection.dbapi_connection
            return self.is_sqlite or self.writes.dialect.do_ping(raw)
        except self.out_of_order:
            return False

    def drop_writer(self) -> None:
        """After an error nobody knows what the connection is good for."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(*self.out_of_order):
                writer.invalidate()
                writer.close()

    @contextmanager
    def together(self, connection: sa.Connection) -> Iterator[None]:
        """PostgreSQL is sent these statements one after another, and waited for only where an answer is read."""
        if self.is_sqlite:
            yield
            return
        raw: Any = connection.connection.driver_connection
        with raw.pipeline():
            yield

    def wipe_what_is_deleted(self, connection: sa.Connection) -> None:
        """Write zeros over what this connection deletes from now on; PostgreSQL wipes afterwards."""
        if self.is_sqlite:
            connection.exec_driver_sql("PRAGMA secure_delete=ON")

    def wipe_deleted(self, table: str) -> None:
        """Let the files of the database keep nothing of rows that are deleted; as far as others at work on it allow."""
        words = "PRAGMA wal_checkpoint(TRUNCATE)" if self.is_sqlite else f"VACUUM {table}"
        self.drop_writer()
        with suppress(*self.out_of_order), self.reads.connect() as connection:
            raw: Any = connection.connection.driver_connection
            if self.is_sqlite:
                raw.execute(words).close()
            else:
                connection.rollback()
                raw.autocommit = True
                raw.execute(words)
                connection.invalidate()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self.reads.dispose()


def _patience(url: sa.URL) -> dict[str, Any]:
    """How long a silent PostgreSQL is waited for: a server that is cut off from it must notice, not hang."""
    given = {"connect_timeout": 5, "tcp_user_timeout": 5000, "keepalives_idle": 3, "keepalives_interval": 1}
    return {name: value for name, value in given.items() if name not in url.query}


def _prepare_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    # FULL: a commit has reached the disk when it returns. In WAL mode NORMAL would lose the newest on a power cut.
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "temp_store=MEMORY", "cache_size=-4000"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: sa.Connection) -> None:
    raw: Any = connection.connection.driver_connection
    raw.execute(connection.get_execution_options().get("begin", "BEGIN")).close()
