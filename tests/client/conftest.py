"""A fake server, and a client that is told to use it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headway.client.sdk import Client
from tests.client.fake_server import TOKEN, FakeServer


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    server = FakeServer()
    monkeypatch.setenv("HEADWAY_SERVER_URL", server.url)
    monkeypatch.setenv("HEADWAY_TOKEN", TOKEN)
    yield server
    server.stop()


@pytest.fixture
def client(fake: FakeServer) -> Iterator[Client]:
    made = Client(patience_s=60.0)
    yield made
    made.close()
