"""The SQL store on SQLite keeps the law of all stores, and survives a full disk."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from headway.core.errors import OperatorError, Unavailable
from headway.features.catalog import load
from headway.store.conformance.suite import a_job, change, ids, numbers, save
from headway.store.migrate import config, migrate
from headway.store.protocol import Batch, Store
from headway.store.sql import schema
from headway.store.sql.databases import Database
from headway.store.sql.store import SqlStore
from tests.store.sql_suite import SqlConformance


class TestSqliteStore(SqlConformance):
    def url(self, place: Path) -> str:
        return f"sqlite:///{place}/headway.db"

    def test_a_full_disk_loses_nothing_that_was_acknowledged(self, store: Store) -> None:
        assert isinstance(store, SqlStore)
        save(store, a_job())
        pages_max(store, 60)
        with pytest.raises(Unavailable, match=r"nothing of it was written.*full") as refused:
            for n in range(100):
                store.commit(Batch(jobs=[change(a_job(f"big{n}-{m}", detail="x" * 1000), "A") for m in range(20)]))
        assert "free space" in refused.value.hint
        written = ids(store.unfinished())
        assert len(written) % 20 == 1
        pages_max(store, 1 << 30)
        done = store.commit(Batch(jobs=[change(a_job("later"), "A")]))
        assert ids(store.unfinished()) == [*written, "later"]
        assert done.first_job_seq == len(written) + 1
        assert numbers(store) == list(range(1, len(written) + 2))

    def test_a_database_that_another_process_holds_is_unavailable(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("headway.store.sql.databases.BUSY_S", 0.05)
        store = self.open_store(place)
        holder = sqlite3.connect(f"{place}/headway.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked"):
            store.commit(Batch(jobs=[change(a_job())]))
        assert store.unfinished() == []
        holder.execute("ROLLBACK")
        holder.close()
        assert ids(save(store, a_job())) == ["j1"]
        store.close()

    def test_a_copy_is_kept_before_the_tables_change_and_said_to_who_goes_back(self, place: Path) -> None:
        file = place / "headway.db"
        migrate(self.url(place), "r0001")
        with closing(sqlite3.connect(file)) as older:
            older.execute("INSERT INTO jobs (seq, id, version, spec) VALUES (1, 'j0', 1, '{\"command\": [\"true\"]}')")
            older.commit()
        self.open_store(place).close()
        copy = place / "headway.db.before-r0001"
        with closing(sqlite3.connect(copy)) as kept:
            assert kept.execute("SELECT version_num FROM alembic_version").fetchall() == [("r0001",)]
            assert kept.execute("SELECT id FROM jobs").fetchall() == [("j0",)]
        assert copy.stat().st_mode & 0o077 == 0
        with closing(sqlite3.connect(file)) as newer:
            newer.execute("UPDATE alembic_version SET version_num = 'r9999' WHERE version_num LIKE 'r%'")
            newer.commit()
        with pytest.raises(OperatorError, match="r9999") as refused:
            self.open_store(place)
        assert f"mv {copy} {file}" in refused.value.hint

    def test_nothing_is_migrated_where_no_copy_can_be_made(self, place: Path) -> None:
        migrate(self.url(place), "r0001")
        (place / "headway.db.before-r0001.part").mkdir()
        with pytest.raises(OperatorError, match="no copy of it could be made"):
            self.open_store(place)
        with closing(sqlite3.connect(place / "headway.db")) as older:
            assert older.execute("SELECT version_num FROM alembic_version").fetchall() == [("r0001",)]

    def test_commits_are_synced_to_the_disk(self, store: Store) -> None:
        assert isinstance(store, SqlStore)
        with store._database.writes.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"

    def test_migrated_tables_are_spelled_like_those_that_are_made_at_once(self, tmp_path: Path) -> None:
        SqlStore.open(f"sqlite:///{tmp_path}/made.db", layouts=load().layouts).close()
        migrate(f"sqlite:///{tmp_path}/migrated.db")
        SqlStore.open(f"sqlite:///{tmp_path}/migrated.db", layouts=load().layouts).close()
        assert spelled(tmp_path / "made.db") == spelled(tmp_path / "migrated.db")


def test_a_place_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be opened"):
        SqlStore.open(f"sqlite:///{tmp_path}/no/such/folder/headway.db")


def test_the_known_revision_is_the_newest_migration() -> None:
    scripts = ScriptDirectory.from_config(config())
    assert scripts.get_current_head() == schema.REVISION
    assert {script.revision for script in scripts.walk_revisions()} == schema.KNOWN_REVISIONS


def test_a_store_loads_neither_migrations_nor_an_object_mapper_nor_the_other_database(tmp_path: Path) -> None:
    program = (
        "import sys; from headway.store.sql.store import SqlStore; SqlStore.open(sys.argv[1]);"
        "print([name for name in sys.modules if name in "
        "('alembic', 'mako', 'sqlalchemy.orm', 'sqlalchemy.dialects.postgresql')])"
    )
    done = subprocess.run([sys.executable, "-c", program, f"sqlite:///{tmp_path}/a.db"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def pages_max(store: SqlStore, pages: int) -> None:
    """Let the database grow to this many pages and no further, as a full disk would."""

    def limit(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count={pages}").close()

    sa.event.listen(store._database.reads, "checkout", limit)
    store._database.drop_writer()


def spelled(path: Path) -> dict[str, str]:
    database = Database(f"sqlite:///{path}")
    with database.reads.connect() as connection:
        found = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").all()
    database.close()
    return {name: " ".join(sql.split()) for name, sql in found}
