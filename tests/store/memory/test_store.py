"""The memory store keeps the law of all stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.store.conformance.suite import StoreConformance
from headway.store.memory.store import MemoryStore
from headway.store.protocol import Store


class TestMemoryStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _places(self) -> None:
        self.places: dict[Path, Store] = {}

    def open_store(self, place: Path) -> Store:
        return self.places.setdefault(place, MemoryStore())
