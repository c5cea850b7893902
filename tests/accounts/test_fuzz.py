"""Whatever comes in, the server answers: drawn requests for every operation of the schema, hostile ones by hand."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from tests.accounts.people import Shared
from tests.api.serving import TOKEN, Follower, Serving

EXAMPLES = 4
BUDGET_S = 30.0
# Streams that do not end by themselves.
ENDLESS = {("GET", "/api/v1/events"), ("GET", "/api/v1/visits/{visit}/out")}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with Shared(tmp_path_factory.mktemp("fuzzed")) as server:
        server.join("n1")
        server.job_of("mel", name="known", hold=True)
        yield server


def draw(operation: Any, mode: GenerationMode, examples: int) -> list[str]:
    """Make some requests of an operation; returns those that were answered with an error of the server's own."""
    troubles: list[str] = []

    @seed(7)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        if operation.path.endswith(("/wait", "/logs/raw")) and isinstance(case.query, dict):
            case.query.update(timeout_s=0, wait_s=0)  # Nobody is kept waiting.
        answer = case.call(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=300)
        if answer.status_code >= 500 and answer.status_code != 503:
            troubles.append(f"{case.as_curl_command()[:600]}\n  {answer.status_code} {answer.text[:300]}")

    try:
        ask()
    except Unsatisfiable:
        pass  # Where nothing can be wrong, nothing wrong is drawn.
    return troubles


@pytest.fixture(params=["the leader", "a follower"])
def asked(request: pytest.FixtureRequest, server: Shared) -> Iterator[Serving]:
    if request.param == "the leader":
        yield server
    else:
        with Follower(server) as follower:
            yield follower


@pytest.mark.long
def test_no_drawn_request_is_answered_with_500(server: Shared, asked: Serving) -> None:
    schema = schemathesis.openapi.from_dict(server.ask("GET", "/api/v1/openapi.json").json)
    schema.config.base_url = asked.url
    operations = [found.ok() for found in schema.get_all_operations()]
    give_up_at = time.monotonic() + BUDGET_S
    troubles: list[str] = []
    for operation in operations:
        if (operation.method.upper(), operation.path) not in ENDLESS:
            # Each is tried once at least, however slow the machine is.
            examples = EXAMPLES if time.monotonic() < give_up_at else 1
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                troubles += draw(operation, mode, examples)
    assert not troubles, "\n".join(troubles[:8])
    assert len(operations) > 60
    assert server.ok("GET", "/health")["ok"]


DEEP = "[" * 100_000 + "]" * 100_000
BODIES = {
    "NaN": '{"job": {"command": ["true"], "resources": {"cpus": NaN}}}',
    "Infinity": '{"job": {"command": ["true"], "max_duration": Infinity}}',
    "a huge number": '{"job": {"command": ["true"], "retries": 1' + "0" * 5000 + "}}",
    "a huge exponent": '{"job": {"command": ["true"], "resources": {"cpus": 1e999}}}',
    "negative": '{"job": {"command": ["true"], "nodes": -5}}',
    "deep": '{"job": ' + DEEP + "}",
    "deep objects": '{"job":' + '{"env":' * 50_000 + "1" + "}" * 50_000 + "}",
    "twice": '{"job": {"command": ["true"]}, "job": {"command": [7]}}',
    "half": '{"job": {"comm',
    "a list": "[1]",
    "not Unicode": b'{"job": {"command": ["\xff\xfe"]}}',
    "a lone surrogate": '{"job": {"command": ["true"], "name": "\\ud800"}}',
    "NUL": '{"job": {"command": ["tr\\u0000ue"]}}',
    "NUL in a name": '{"job": {"command": ["true"], "name": "a\\u0000b"}}',
    "NUL in a key": '{"job": {"command": ["true"]}, "key": "\\u0000"}',
    "a surrogate in a key": '{"job": {"command": ["true"]}, "key": "\\udfff"}',
    "null": "null",
}


@pytest.mark.parametrize("who", ["mel", "root1"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_hostile_bodies_are_refused_or_harmless(server: Shared, who: str, body: str | bytes) -> None:
    data = body.encode() if isinstance(body, str) else body
    for path in ("/jobs", "/plan"):
        answer = server.by(who, "POST", path, data)
        assert answer.status < 500, answer.data[:300]
        if answer.status >= 400:
            assert json.loads(answer.data)["detail"]


def test_every_route_takes_a_hostile_body(server: Shared) -> None:
    for text in ('{"a": NaN}', DEEP, "{", '{"\\ud800": "\\ud800"}', '{"name": "\\u0000", "label": "\\u0000"}'):
        for method, path in (
            ("PATCH", "/jobs/known"), ("PATCH", "/queues/x"), ("PATCH", "/pools/x"), ("PATCH", "/licences"),
            ("PUT", "/schedules/x"), ("POST", "/users"), ("POST", "/tokens"), ("POST", "/bundles/missing"),
            ("PUT", f"/bundles/{'a' * 64}"), ("POST", "/jobs/known/fork"), ("POST", "/jobs/known/visits"),
        ):  # fmt: skip
            try:
                answer = server.ask(method, f"/api/v1{path}", text.encode())
            except TimeoutError:
                raise AssertionError(f"no answer to {method} {path} with {text[:40]}") from None
            assert 400 <= answer.status < 500, (method, path, text[:40], answer.data[:300])


@pytest.mark.parametrize(
    "words",
    [
        {"logs": 7}, {"reports": [7]}, {"reports": "x"}, {"logs": [{}]}, {"protocol": "x"}, {"agent_epoch": "x"},
        {"agent_epoch": 10**400}, {"facts": 7, "full": True}, {"full": True, "facts": {"cpus": "NaN"}},
        {"full": True, "facts": {"memory_bytes": 10**30}}, {"seq": "x"}, {"wait_s": "x"}, {"wait_s": 1e308},
        {"pool": 7}, {"boot_id": {"a": 1}}, {"checkpoints": [7]}, {"artifacts": {"a": 1}}, {"notice": 7},
        {"reports": [{"task": "x", "phase": "claimed"}]},
        {"reports": [{"task": "j/1/99999999999999999999", "phase": "x"}]},
        {"full": True, "boot_id": "\ud800"}, {"full": True, "pool": "\ud800"}, {"full": True, "pool": "\x00"},
        {"full": True, "facts": {"address": "\ud800"}}, {"full": True, "agent_version": "\ud800\x00"},
        {"troubles": [{"what": "\ud800", "detail": "\x00"}]}, {"full": True, "agent_epoch": 2**70},
        {"full": True, "facts": {"cpus": float("nan")}}, {"full": True, "facts": {"cpus": float("inf")}},
        {"troubles": [7]}, {"boot_id": "\ud800"}, {"pool": "\x00"},
    ],
    ids=str,
)  # fmt: skip
def test_an_agent_that_talks_nonsense_does_no_harm(server: Shared, words: dict[str, Any]) -> None:
    said = {"protocol": 1, "node": "n9", "pool": "local", "boot_id": "b", "agent_epoch": 1, "wait_s": 0, **words}
    answer = server.by(server.services.signer.token_for("n9"), "POST", "/agent/sync", said)
    assert answer.status < 600
    assert answer.status != 500 or answer.json["type"] == "internal"
    assert server.ok("GET", "/health")["ok"], "the server lives on"
    server.job_of("mel", hold=True)


def test_odd_requests_are_answered(server: Shared, asked: Serving) -> None:
    auth = {"Authorization": f"Bearer {TOKEN}"}
    for path in (
        "/api/v1/jobs/%00", "/api/v1/jobs/%ff%fe", "/api/v1/jobs/..%2f..%2fetc", "/api/v1/jobs/" + "a" * 5000,
        "/api/v1/jobs?limit=-1", "/api/v1/jobs?limit=99999999999999999999", "/api/v1/jobs?before=1e5",
        "/api/v1/jobs?name=%00", "/api/v1/jobs?user=%ed%a0%80", "/api/v1/events/page?after=-5", "/api/v1/arrays/%00",
        "/api/v1/audit?since=nan", "/api/v1/audit?since=-1", "/api/v1/audit?actor=%00", "/api/v1/bundles/%00",
        "/api/v1/jobs/known/logs/raw?attempt=0", "/api/v1/jobs/known/checkpoints/99999999999999999999999/raw?path=x",
        "/api/v1/jobs/known/artifacts/raw?path=../../../etc/passwd", "/agent/objects/../../etc/passwd",
        "/agent/objects/logs/..%2f..%2fetc", "/agent/objects/logs/%00", "/api/v1/projects/%00/members",
        "/api/v1/events/page?job=%00", "/api/v1/jobs/%F0%9F%92%A3/why",
    ):  # fmt: skip
        for body in (None, b"{}"):
            answer = asked.ask("GET", path, body, auth)
            assert answer.status < 500, (path, answer.data[:300])
    for name in ("Authorization", "Range", "Last-Event-ID", "Content-Length", "X-Long"):
        with socket.create_connection(("127.0.0.1", asked.port), timeout=300) as raw:
            raw.sendall(f"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\n{name}: {'9' * 200_000}\r\n\r\n".encode())
            said = raw.recv(4096)
        assert b" 500 " not in said[:40], (name, said[:200])
    assert server.ok("GET", "/health")["ok"]


def test_what_names_hold_is_shown_harmlessly(server: Shared) -> None:
    nasty = "\x1b]0;owned\x07\x1b[31mred<script>alert(1)</script>"
    answer = server.by("mel", "POST", "/jobs", {"job": {"command": ["true"], "name": nasty}})
    if answer.status == 201:
        shown = server.by("mel", "GET", f"/jobs/{answer.json['job']['id']}")
        assert shown.headers["content-type"] == "application/json"
        assert b"\x1b" not in shown.data, "JSON escapes what a terminal would obey"
    refused = server.by("mel", "GET", "/jobs/%1b%5b31m%3Cscript%3E")
    assert refused.status == 404
    assert b"\x1b" not in refused.data


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.CRITICAL)
