"""An agent's token is good for the calls of its own node, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.core.tokens import Signer
from tests.api.serving import Answer, Serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path) as server:
        server.join("n1")
        server.join("n2")
        yield server


def call(server: Serving, node: str, method: str, path: str, body: Any = None) -> Answer:
    token = server.services.signer.token_for(node)
    return server.ask(method, path, body, {"Authorization": f"Bearer {token}"})


def a_sync(node: str, **more: Any) -> dict[str, Any]:
    return {"protocol": 1, "node": node, "pool": "local", "boot_id": "b", "agent_epoch": 1, "wait_s": 0, **more}


def running(server: Serving, **words: Any) -> tuple[str, str, str]:
    """A job that runs, the node that it runs on, and the other one."""
    job = server.submit(**words)
    where = [node for node in ("n1", "n2") if any(key.startswith(job) for key in server.duties(node))]
    while not where:
        where = [node for node in ("n1", "n2") if any(key.startswith(job) for key in server.duties(node))]
    server.start(f"{job}/1/0", where[0])
    return job, where[0], "n2" if where[0] == "n1" else "n1"


def test_it_speaks_for_its_own_node_alone(server: Serving) -> None:
    assert call(server, "n1", "POST", "/agent/sync", a_sync("n1")).status == 200
    refused = call(server, "n1", "POST", "/agent/sync", a_sync("n2"))
    assert (refused.status, refused.json["type"]) == (403, "not-allowed")
    assert "n2" in refused.json["detail"]


def test_it_does_not_open_the_rest_of_the_api(server: Serving) -> None:
    for path in ("/api/v1/jobs", "/api/v1/server", "/api/v1/openapi.json", "/api/v1/events/page"):
        assert call(server, "n1", "GET", path).status == 403
    assert call(server, "n1", "POST", "/api/v1/jobs", {"job": {"command": ["true"]}}).status == 403
    assert call(server, "n1", "GET", "/agent.pyz").status == 200


def test_objects_are_those_of_attempts_that_live_there(server: Serving) -> None:
    job, here, other = running(server)
    key = f"/agent/objects/jobs/{job}/1/parts/0"
    assert call(server, other, "PUT", key, b"x").status == 403
    assert call(server, here, "PUT", key, b"x").status == 204
    assert call(server, here, "GET", key).data == b"x"
    assert call(server, other, "GET", key).status == 403
    server.end(f"{job}/1/0", here)
    assert call(server, here, "PUT", key, b"y").status == 403
    assert call(server, here, "GET", key).status == 403


def test_output_lies_in_the_folder_of_its_own_node(server: Serving) -> None:
    assert call(server, "n1", "PUT", "/agent/objects/logs/n1/1-1", b"x").status == 204
    assert call(server, "n1", "PUT", "/agent/objects/logs/n2/1-1", b"x").status == 403
    assert call(server, "n1", "GET", "/agent/objects/logs/n1/1-1").data == b"x"
    assert call(server, "n2", "GET", "/agent/objects/logs/n1/1-1").status == 403
    piece = {"task": "j1/1/0", "rank": 0, "stream": "out", "start": 0, "end": 1, "key": "logs/n2/1", "key_offset": 0}
    assert call(server, "n1", "POST", "/agent/sync", a_sync("n1", logs=[piece])).status == 403


def test_output_of_a_task_elsewhere_is_not_taken(server: Serving) -> None:
    job, here, other = running(server)
    piece = {"task": f"{job}/1/0", "rank": 0, "stream": "out", "start": 0, "end": 1, "key_offset": 0}
    assert call(server, other, "POST", "/agent/sync", a_sync(other, logs=[{**piece, "key": f"logs/{other}/1"}]))
    assert server.store.logs(job) == []
    server.sync(here, logs=[{**piece, "key": f"logs/{here}/1"}])
    assert [each.key for each in server.store.logs(job)] == [f"logs/{here}/1"]


def test_a_bundle_is_read_by_nodes_that_run_it(server: Serving) -> None:
    assert call(server, "n1", "GET", f"/agent/objects/bundles/{'a' * 64}.json").status == 403
    assert call(server, "n1", "GET", f"/agent/objects/bundles/files/{'a' * 64}").status == 403


def test_a_token_that_was_tampered_with_is_none() -> None:
    signer = Signer(b"k" * 32)
    token = signer.token_for("n1")
    assert signer.bearer(token) == ("hwn", "n1")
    assert Signer(b"l" * 32).bearer(token) is None
    seal = token.partition(".")[2]
    other = signer.token_for("n2").partition(".")[0]
    for wrong in (
        f"{other}.{seal}",
        token[:-1],
        token + "A",
        "hwn_",
        "hwn_.",
        "",
        "hwn_\xff.x",
        token.replace("n", "s"),
    ):
        assert signer.bearer(wrong) is None
