"""The storage that docs/how-to/add-something.md makes keeps the law of all storages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headway.storage.conformance import StorageConformance
from headway.storage.protocol import Storage

PAGE = Path(__file__).parents[2] / "docs/how-to/add-something.md"
BLOCK = re.compile(r"`shelf_storage\.py`:\n\n```python\n(.*?)```", re.S)


class TestShelfStorage(StorageConformance):
    @pytest.fixture(autouse=True)
    def _from_the_page(self) -> None:
        (code,) = BLOCK.findall(PAGE.read_text())
        made: dict[str, Any] = {"__name__": "shelf_storage"}
        exec(compile(code, "shelf_storage.py", "exec"), made)
        self.made, self.places = made["ShelfStorage"], dict[Path, Storage]()

    def open_storage(self, place: Path) -> Storage:
        return self.places.setdefault(place, self.made())
