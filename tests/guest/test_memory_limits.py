"""Memory limits by control groups of version 2, with a real kernel: what the guest's checks said, one test for each."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.guest import inside, lab

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One boot for all, also where workers share out these tests: the first boots, the others wait for it."""
    base = tmp_path_factory.getbasetemp()
    folder: Path = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "guest"
    folder.mkdir(exist_ok=True)
    kept = folder / "said.json"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_text(json.dumps(lab.run(lab.need())))
    return json.loads(kept.read_text())


@pytest.mark.parametrize("name", [name for part in inside.PARTS for name in inside.checks(part)])
def test_in_a_guest(name: str, said: Any) -> None:
    checks, console = said
    assert name in checks, f"the guest ended before this check did:\n{console}"
    assert not checks[name]["wrong"], checks[name]["wrong"]
