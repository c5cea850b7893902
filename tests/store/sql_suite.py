"""What a SQL store must do beyond the law of all stores: last through a kill, and open what it finds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

from headway.core.errors import OperatorError
from headway.features.catalog import load
from headway.store.conformance.suite import StoreConformance, a_job, change, ids, numbers, save
from headway.store.conformance.tables import SPECIMENS
from headway.store.migrate import migrate
from headway.store.protocol import Batch, JobFilter, Store
from headway.store.sql import schema
from headway.store.sql.databases import Database
from headway.store.sql.statements import Statements
from headway.store.sql.store import SqlStore
from headway.store.sql.tables import KeptTables
from headway.store.tables import Layout, RowChange, Table

WRITER = """
import sys
from headway.store.conformance.suite import a_job, change
from headway.store.protocol import Batch
from headway.store.sql.store import SqlStore
store = SqlStore.open(sys.stdin.readline().strip())
for n in range(1_000_000):
    store.commit(Batch(jobs=[change(a_job(f"j{n}-{m}"), "A", "B") for m in range(5)]))
    print(n, flush=True)
"""


CUPS_0001 = """
import sqlalchemy as sa
from alembic import op

revision = "cups0001"
down_revision = None
branch_labels = ("cups",)


def upgrade():
    op.add_column("cups", sa.Column("size", sa.BigInteger(), nullable=False, server_default="0"))
    op.execute("UPDATE cups SET size = 3")
"""


@dataclass(frozen=True, slots=True)
class Cup:
    name: str


@dataclass(frozen=True, slots=True)
class SizedCup:
    name: str
    size: int = 0


class SqlConformance(StoreConformance):
    """Runs on any database: subclasses say at which URL."""

    def url(self, place: Path) -> str:
        raise NotImplementedError

    def open_store(self, place: Path) -> Store:
        return SqlStore.open(self.url(place), layouts=[SPECIMENS])

    @pytest.mark.real
    def test_what_was_acknowledged_is_there_after_a_kill(self, store: Store, place: Path) -> None:
        program = [sys.executable, "-c", WRITER]
        with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdin is not None
            assert writer.stdout is not None
            writer.stdin.write(self.url(place) + "\n")
            writer.stdin.flush()
            acknowledged = [int(writer.stdout.readline()) for _ in range(40)]
            os.kill(writer.pid, signal.SIGKILL)
            acknowledged += [int(line) for line in writer.stdout if line.endswith("\n")]
        there = set(ids(store.unfinished()))
        assert {f"j{n}-{m}" for n in acknowledged for m in range(5)} <= there
        assert len(there) % 5 == 0, "half of a batch was written"
        assert numbers(store) == list(range(1, len(there) * 2 + 1))
        assert store.commit(Batch(jobs=[change(a_job("after"), "A")])).first_job_seq == len(there) + 1

    def test_opening_again_finds_everything(self, store: Store, place: Path) -> None:
        saved = save(store, a_job())
        store.close()
        again = self.open_store(place)
        assert again.unfinished() == saved
        again.close()

    def test_a_database_of_a_newer_version_is_refused(self, store: Store, place: Path) -> None:
        database = Database(self.url(place))
        with database.writes.begin() as connection:
            connection.execute(schema.revision.update().values(version_num="r9999"))
        database.close()
        with pytest.raises(OperatorError, match="r9999") as refused:
            self.open_store(place)
        assert "newer" in refused.value.hint

    def test_an_older_database_is_migrated_by_a_process_of_its_own(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        database = Database(self.url(place))
        with database.writes.begin() as connection:
            schema.revision.create(connection)
            connection.execute(schema.revision.insert().values(version_num="r0000"))
        monkeypatch.setattr(schema, "KNOWN_REVISIONS", frozenset({"r0000", schema.REVISION}))
        with pytest.raises(OperatorError, match=r"could not be migrated.*r0000"):
            self.open_store(place)
        with database.writes.begin() as connection:
            connection.execute(schema.revision.delete())
        # An empty version table is what Alembic itself begins with.
        monkeypatch.setattr(schema, "KNOWN_REVISIONS", frozenset({None, schema.REVISION}))
        database.close()
        store = self.open_store(place)
        assert ids(save(store, a_job())) == ["j1"]
        store.close()

    def test_a_database_of_the_first_layout_is_brought_to_this_one(self, place: Path) -> None:
        migrate(self.url(place), "r0001")
        database = Database(self.url(place))
        with database.writes.begin() as connection:
            spec = '{"command":["true"],"name":"old","tags":[["team","vision"],["best","yes"]]}'
            connection.execute(
                sa.text("INSERT INTO jobs (seq, id, version, spec) VALUES (1, 'j0', 1, :spec)"), {"spec": spec}
            )
            connection.execute(sa.text("UPDATE counters SET job_seq = 1"))
        database.close()
        store = self.open_store(place)
        assert [(job.id, job.spec.name, job.quick_ends) for job in store.unfinished()] == [("j0", "old", 0)]
        assert ids(store.page(JobFilter(tags=(("team", "vision"), ("best", None))), None, 9)) == ["j0"]
        assert ids(save(store, a_job())) == ["j1"]
        store.close()

    def test_a_feature_changes_its_table_by_a_script_in_its_own_folder(self, place: Path, tmp_path: Path) -> None:
        folder = tmp_path / "migrations"
        folder.mkdir()
        (folder / "cups0001_size.py").write_text(CUPS_0001)
        older = Layout((Table("cups", Cup, key=("name",)),))
        newer = Layout((Table("cups", SizedCup, key=("name",)),), ("cups0001",), folder)
        store = SqlStore.open(self.url(place), layouts=[older])
        store.commit(Batch(rows=[RowChange(older.tables[0], ("blue",), Cup("blue"))]))
        store.close()
        with pytest.raises(OperatorError, match="cups0001"):
            SqlStore.open(self.url(place), migrating=False, layouts=[newer])
        for _ in range(2):
            store = SqlStore.open(self.url(place), layouts=[newer])
            assert store.rows(newer.tables[0]) == [SizedCup("blue", 3)]
            assert ids(store.unfinished()) == []
            store.close()
        with pytest.raises(OperatorError, match="cups0001"):
            SqlStore.open(self.url(place), layouts=[older])

    def test_a_feature_that_is_new_begins_with_its_newest_table(self, store: Store, place: Path) -> None:
        store.close()
        layout = Layout((Table("cups", SizedCup, key=("name",)),), ("cups0001",), place / "no-script-is-needed")
        again = SqlStore.open(self.url(place), migrating=False, layouts=[layout])
        assert again.rows(layout.tables[0]) == []
        again.close()
        SqlStore.open(self.url(place), migrating=False, layouts=[layout]).close()

    def test_migrations_lead_to_the_tables_that_are_made_at_once(self, place: Path) -> None:
        from alembic.autogenerate import compare_metadata
        from alembic.migration import MigrationContext

        migrate(self.url(place))
        SqlStore.open(self.url(place), layouts=load().layouts).close()  # It makes what is missing of features.
        database = Database(self.url(place))
        with database.reads.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            kept = KeptTables(load().layouts, lambda: Statements(database.reads.dialect))
            assert compare_metadata(context, [schema.metadata, kept.metadata]) == []
            assert connection.execute(sa.select(schema.counters)).all() == [(1, 0, 0)]
            assert connection.execute(sa.select(schema.revision)).scalar() == schema.REVISION
        database.close()
        store = self.open_store(place)
        assert ids(save(store, a_job())) == ["j1"]
        store.close()
