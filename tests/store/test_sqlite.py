"""The SQL store on SQLite keeps the law of all stores."""

from __future__ import annotations

from pathlib import Path

from headway.store.conformance import StoreConformance
from headway.store.protocol import Store
from headway.store.sql import SqlStore


class TestSqliteStore(StoreConformance):
    def open_store(self, place: Path) -> Store:
        return SqlStore.open(f"sqlite:///{place}/headway.db")
