"""A database filled from a dump: nobody leads there in an epoch that nodes have heard of."""

from __future__ import annotations

import time
from pathlib import Path

from headway.store.migrate import migrate
from headway.store.sql import schema
from headway.store.sql.databases import Database
from headway.store.sql.dump import load
from headway.store.sql.store import SqlStore


def test_a_restored_database_leads_with_a_larger_number_than_anybody_has_heard(tmp_path: Path) -> None:
    first = SqlStore.open(f"sqlite:///{tmp_path}/first.db")
    for _ in range(3):
        first.take_lead("s1", "", time.time(), 10.0)
    first.dump(tmp_path / "dump", lambda table, row: None)
    later = [first.take_lead("s1", "", time.time(), 10.0) for _ in range(500)][-1]
    assert later is not None
    first.close()
    began = int(time.time())
    for name in ("second", "third"):  # The same dump, once more.
        url = f"sqlite:///{tmp_path}/{name}.db"
        database = Database(url)
        load(database, tmp_path / "dump", schema.REVISION, lambda revision, url=url: migrate(url, revision))
        database.close()
        store = SqlStore.open(url)
        lead = store.take_lead("s1", "", time.time(), 10.0)
        store.close()
        assert lead is not None
        assert lead.epoch > max(later.epoch, began)
