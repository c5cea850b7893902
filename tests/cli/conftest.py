"""Commands are run in this process, with what they say caught; the fake server answers where a test needs the same
answer every time."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headway.cli.main import main
from tests.client.fake_server import TOKEN, FakeServer

GOLDEN = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    server = FakeServer()
    monkeypatch.setenv("HEADWAY_SERVER_URL", server.url)
    monkeypatch.setenv("HEADWAY_TOKEN", TOKEN)
    yield server
    server.stop()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The caller's directory, with a script in it."""
    (tmp_path / "train.py").write_text("print('hello')\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def headway(capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def run(*words: str) -> Said:
        capfd.readouterr()
        code = main(list(words))
        told = capfd.readouterr()
        return Said(code, told.out, told.err)

    return run


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare with a kept file; HEADWAY_TEST_GOLDEN=write keeps what is said now."""

    def check(name: str, text: str) -> None:
        file = GOLDEN / name
        if os.environ.get("HEADWAY_TEST_GOLDEN") == "write":
            file.write_text(text)
        assert text == file.read_text(), f"{name} differs; HEADWAY_TEST_GOLDEN=write keeps the new text"

    return check
