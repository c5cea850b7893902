"""What every test gets: a home of its own, and nothing of the developer's environment."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine must not fail a property by its speed.
settings.register_profile("headway", deadline=None)
settings.load_profile("headway")


@pytest.fixture(autouse=True)
def headway_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A private, empty HEADWAY_HOME, with every other HEADWAY_* variable unset (HEADWAY_TEST_* is kept)."""
    for name in list(os.environ):
        if name.startswith("HEADWAY_") and not name.startswith("HEADWAY_TEST_"):
            monkeypatch.delenv(name)
    # Not tmp_path: the path of a Unix socket below it may have 107 bytes at most, and tmp_path takes most of them.
    home = Path(tempfile.mkdtemp(prefix="headway-"))
    monkeypatch.setenv("HEADWAY_HOME", str(home))
    yield home
    shutil.rmtree(home, ignore_errors=True)
