"""What a command costs before it does anything: only what it needs is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.client.fake_server import FakeServer

HEAVY = {
    "alembic", "asyncio", "email", "fastapi", "headway.cli.commands.run", "headway.wiring", "http.client", "httpx",
    "pydantic",
    "rich", "sqlalchemy", "ssl", "starlette", "structlog", "subprocess", "uvicorn", "yaml",
}  # fmt: skip
# Of the core only words: its model and its descriptions of jobs were a third of what `headway ps` cost.
CORE = {"headway.core", "headway.core.errors", "headway.core.steps", "headway.core.units"}


def loaded_by(program: str) -> set[str]:
    shown = f"{program}; import sys; print('\\nLOADED', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("LOADED ")[2].split())


@pytest.mark.parametrize("words", [["ps"], ["ps", "--json"], ["why", "j1"], ["logs", "j1"], ["describe", "j1"]])
def test_looking_at_jobs_loads_nothing_heavy(fake: FakeServer, words: list[str]) -> None:
    fake.add("j1", state="succeeded")
    loaded = loaded_by(f"from headway.cli.main import main; assert main({words!r}) == 0")
    assert not loaded & HEAVY
    assert {name for name in loaded if name.split(".")[:2] == ["headway", "core"]} <= CORE


def test_importing_headway_loads_nothing_of_it() -> None:
    loaded = loaded_by("import headway")
    assert {name for name in loaded if name.startswith("headway")} == {"headway"}


def test_the_sdk_is_there_when_asked_for() -> None:
    assert "headway.client.sdk" in loaded_by("import headway; assert headway.submit and headway.Client")
