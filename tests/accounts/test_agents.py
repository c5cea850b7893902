"""An agent's token is good for the calls of its own node, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.control.nodes import orders
from headway.control.state.transaction import Transaction
from headway.core.access.tokens import Signer
from headway.core.growth.node_orders import NodeOrder
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
    signer = Signer([b"k" * 32])
    token = signer.token_for("n1")
    assert signer.bearer(token) == ("hwn", "n1", True)
    assert Signer([b"l" * 32]).bearer(token) is None
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


def address(server: Serving, node: str, key: str) -> str:
    given = call(server, node, "POST", "/agent/urls", {"node": node, "method": "PUT", "keys": [key]}).json["urls"]
    return str(given[key])


def put(server: Serving, address: str, content: bytes) -> int:
    """As somebody who has nothing but the address."""
    return server.ask("PUT", address, content, {"Authorization": ""}).status


def test_an_address_for_an_upload_is_no_good_once_the_object_is_committed(server: Serving) -> None:
    job, here, _ = running(server)
    task, key = f"{job}/1/0", f"jobs/{job}/1/output/model.bin"
    old = address(server, here, key)
    assert put(server, old, b"model") == 204
    assert put(server, old, b"model") == 204, "said again, because the answer was lost"
    entry = {"task": task, "path": "model.bin", "size": 5, "sha256": "", "keys": [key]}
    server.sync(here, artifacts=[entry])
    assert put(server, old, b"other") == 403
    assert server.storage.get(key) == b"model"
    assert put(server, address(server, here, key), b"newer") == 204, "a living attempt may write it anew"


def test_an_address_for_a_checkpoint_is_no_good_once_that_is_committed(server: Serving) -> None:
    job, here, _ = running(server)
    keys = [f"jobs/{job}/1/checkpoints/5-0.json", f"jobs/{job}/1/parts/0-5-0"]
    old = [address(server, here, key) for key in keys]
    server.save(f"{job}/1/0", 5, {"a": b"weights"}, node=here)
    assert [put(server, each, b"other") for each in old] == [403, 403]
    assert server.storage.get(keys[1]) == b"weights"
    unused = address(server, here, f"jobs/{job}/1/parts/0-6-0")
    server.save(f"{job}/1/0", 7, {"a": b"weights"}, node=here)
    assert put(server, unused, b"next") == 204, "what is not there yet replaces nothing"


def test_an_address_for_an_upload_is_no_good_once_the_attempt_has_ended(server: Serving) -> None:
    job, here, _ = running(server)
    addresses = [address(server, here, f"jobs/{job}/1/{name}") for name in ("output/late", "parts/late", "dumps/late")]
    server.end(f"{job}/1/0", here)
    assert [put(server, each, b"late") for each in addresses] == [403, 403, 403]


def test_when_an_address_was_given_cannot_be_changed(server: Serving) -> None:
    job, here, _ = running(server)
    given = address(server, here, f"jobs/{job}/1/output/a")
    stamp = given.partition("&given=")[2].partition("&")[0]
    assert put(server, given.replace(stamp, str(int(stamp) + 10**7)), b"x") == 403
    assert put(server, given.replace(f"&given={stamp}", ""), b"x") == 403


def enrol(server: Serving, code: str) -> Answer:
    return server.ask("POST", "/agent/token", b"", {"Authorization": f"Bearer {code}"})


class Order:
    """Have an order, as the leader saves one before it asks its engine."""

    def apply(self, tx: Transaction) -> None:
        orders.put(tx, NodeOrder("lab-ab12", "lab", 1, 0.0))


def test_an_ordered_node_is_given_its_token_until_it_has_called(server: Serving) -> None:
    """What Slurm keeps of an order is a code that opens nothing else, and nothing at all once the node is there."""
    code = server.services.signer.code_for("lab-ab12-0")
    assert enrol(server, code).status == 403, "no such order, or it is over"
    server.control.do(Order()).result()
    token = enrol(server, code).json["token"]
    assert token == server.services.signer.token_for("lab-ab12-0")
    assert enrol(server, code).json["token"] == token, "the answer was lost"
    for method, path in (("POST", "/agent/sync"), ("GET", "/agent.pyz"), ("GET", "/api/v1/jobs")):
        assert server.ask(method, path, b"", {"Authorization": f"Bearer {code}"}).status == 401
    assert call(server, "n1", "POST", "/agent/token").status == 403
    body = a_sync("lab-ab12-0", full=True, facts={"cpus": 1, "memory_bytes": 2**30})
    assert server.ask("POST", "/agent/sync", body, {"Authorization": f"Bearer {token}"}).status == 200
    refused = enrol(server, code)
    assert (refused.status, "has not called yet" in refused.json["detail"]) == (403, True)
