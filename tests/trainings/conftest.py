"""A living Headway for each training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.living import Living


@pytest.fixture
def living(headway_home: Path, tmp_path: Path) -> Iterator[Living]:
    made = Living(headway_home, tmp_path)
    yield made
    made.end()
