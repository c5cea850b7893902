"""Where there is no Linux: the command line works with a server elsewhere, and says why it has none of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headway.client.connection import embedded
from tests.client.fake_server import FakeServer


@pytest.fixture(autouse=True)
def mac(monkeypatch: pytest.MonkeyPatch, headway_home: object) -> None:
    monkeypatch.setattr(embedded, "PLATFORM", "darwin")


def test_a_server_elsewhere_is_worked_with(fake: FakeServer, headway: Callable) -> None:
    fake.add("j1")
    assert headway("ps", "-q").out == "j1\n"


@pytest.mark.parametrize(
    "words",
    [("ps",), ("run", "--", "true"), ("server", "start"), ("server", "start", "--foreground"), ("server", "enable")],
)
def test_without_one_it_is_said_what_is_missing(headway: Callable, words: tuple[str, ...]) -> None:
    said = headway(*words)
    assert said.code == 1
    assert said.err == (
        "error: jobs and their server need Linux; on macOS only the command line and the SDK work\n"
        "hint: work with a server elsewhere: headway login --server URL\n"
    )


def test_doctor_says_it_among_its_findings(headway: Callable) -> None:
    said = headway("doctor")
    assert said.code == 1
    assert "fail  servers: jobs and their server need Linux" in said.out
    assert "no server runs here" in headway("server", "status").out
    assert headway("server", "stop").out == "no server runs here\n"
