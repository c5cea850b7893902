"""Every route has a right, and the table names no route that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import APIRouter

from headway.api.web import gate
from tests.api.serving import Serving

METHODS = {"get", "put", "post", "patch", "delete"}


def test_every_route_has_a_row_and_every_row_a_route(tmp_path: Path) -> None:
    with Serving(tmp_path) as server:
        schema = server.ask("GET", "/api/v1/openapi.json").json
    found = {
        (method.upper(), path) for path, methods in schema["paths"].items() for method in methods if method in METHODS
    }
    assert found == {(method, path.replace(":path", "")) for method, path in server.services.table.rights}


def test_a_route_without_a_row_is_refused_at_the_start(tmp_path: Path) -> None:
    router = APIRouter()
    router.add_api_route("/api/v1/forgotten", lambda: None, methods=["GET"])
    with Serving(tmp_path) as server, pytest.raises(LookupError, match="GET /api/v1/forgotten"):
        gate.guard(router, server.services)
