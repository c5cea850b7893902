"""While the database is away nobody is known: people are asked to come again, and hear nothing of where it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.client.connection.http import Answer, error_from
from headway.core.errors import Unavailable
from headway.store.memory.store import MemoryStore
from tests.accounts.people import Shared

INSIDE = "postgresql://head:***@db.lab:5432/x: connection refused"


class Flaky(MemoryStore):
    """A store that knows no token for a while."""

    away = False

    def token(self, prefix: str) -> Any:
        if self.away:
            raise Unavailable("the database could not be read", "the request can be sent again", INSIDE)
        return super().token(prefix)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Shared]:
    with Shared(tmp_path, store=Flaky()) as made:
        made.services.badges.keep_s = 0.0
        yield made


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/jobs", None),
        ("GET", "/whoami", None),
        ("POST", "/tokens", {"label": "x"}),
        ("POST", "/jobs", {"job": {"command": ["true"]}}),  # In the fast lane.
    ],
)
def test_a_token_that_cannot_be_looked_up_is_neither_good_nor_refused(
    server: Shared, method: str, path: str, body: Any
) -> None:
    server.store.away = True  # type: ignore[attr-defined]
    answer = server.by("mel", method, path, body)
    assert (answer.status, answer.json["type"]) == (503, "unavailable")
    assert answer.json["detail"] == "the database could not be read"
    assert b"db.lab" not in answer.data
    error = error_from(Answer(answer.status, {}, answer.data), "")
    assert isinstance(error, Unavailable)
    assert error.untouched, "a client may send it again, whatever it was"
    server.store.away = False  # type: ignore[attr-defined]
    assert server.by("mel", method, path, body).status < 300
