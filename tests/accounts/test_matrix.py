"""Every route of the schema against everybody who must not pass. New routes are covered by being in the schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headway.core.access.actor import Right
from tests.accounts.people import RIGHTS, Shared, bearer
from tests.api.serving import Answer

SHA = "a" * 64
# What a route's own words may be; a part that is not here is asked for by the job of the project "vision".
PARTS = {
    "sha256": SHA, "digest": SHA, "name": "night", "node": "n1", "how": "cordon", "step": "1", "key": "logs/n2/1",
    "project": "vision", "user": "mel", "prefix": "0123456789",
}  # fmt: skip
# Bodies that are good, so that what refuses is the right and not the shape.
SPEC = {"command": ["true"], "project": "vision"}
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/api/v1/jobs"): {"job": SPEC},
    ("POST", "/api/v1/jobs/batch"): {"jobs": [SPEC]},
    ("POST", "/api/v1/plan"): {"job": SPEC},
    ("PUT", "/api/v1/schedules/{name}"): {"cron": "0 3 * * *", "job": SPEC},
    ("POST", "/api/v1/bundles/missing"): {"files": [SHA]},
    ("POST", "/api/v1/tokens"): {"project": "vision", "label": "ci"},
    ("PUT", "/api/v1/projects/{project}/members/{user}"): {"role": "viewer"},
    ("POST", "/api/v1/users"): {"name": "eve"},
    ("PUT", "/api/v1/projects/{project}/references"): {"references": ["vault://kv/vision/"]},
}
# Where a user of another project is served: what is everybody's, filtered, or about nobody's things.
HARMLESS = {("POST", "/api/v1/bundles/missing")}
HARMLESS |= {("POST", "/api/v1/session"), ("DELETE", "/api/v1/session")}
HARMLESS |= {("PUT", f"/api/v1/bundles/{rest}") for rest in ("files", "files/{sha256}", "{digest}")}
STREAMS = {("GET", "/api/v1/events")}
ROUTES = sorted((method, path) for method, path in RIGHTS if RIGHTS[method, path] is not Right.OPEN)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with Shared(tmp_path_factory.mktemp("shared")) as server:
        server.job = server.job_of("mel", array=2)  # type: ignore[attr-defined]
        server.ok("PUT", "/schedules/night", {"cron": "0 3 * * *", "job": SPEC})
        yield server


def call(server: Shared, route: tuple[str, str], headers: dict[str, str]) -> Answer:
    method, path = route
    job: str = server.job  # type: ignore[attr-defined]
    for part in [word.split("}")[0] for word in path.split("{")[1:]]:
        name = part.partition(":")[0]
        value = PARTS.get(name, job.rpartition("-")[0] if name == "array" else job)
        path = path.replace("{" + part + "}", value)
    if path.endswith("/raw"):
        path += "?path=x&attempt=1"
    return server.ask(method, path, BODIES.get(route), headers)


def refused(answer: Answer, *statuses: int) -> None:
    assert answer.status in statuses, f"{answer.status} {answer.data[:300]!r}"
    problem = answer.json
    assert answer.headers["content-type"] == "application/problem+json"
    assert (problem["status"], bool(problem["detail"])) == (answer.status, True)
    assert problem["type"] == {404: "not-found"}.get(answer.status, "not-allowed")


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
class TestEveryRoute:
    def test_without_a_token(self, server: Shared, route: tuple[str, str]) -> None:
        refused(call(server, route, {"Authorization": ""}), 401)

    def test_with_tokens_that_are_not_good(self, server: Shared, route: tuple[str, str]) -> None:
        good = server.tokens["mel"]
        for wrong in (bad(server, "revoked"), bad(server, "expired"), good[:-1], good + "x", "hw_", "secre"):
            refused(call(server, route, bearer(wrong)), 401)

    def test_with_an_agents_token(self, server: Shared, route: tuple[str, str]) -> None:
        token = server.services.signer.token_for("n1")
        if RIGHTS[route] is not Right.AGENT:
            refused(call(server, route, bearer(token)), 403)
        elif "objects" in route[1]:
            refused(call(server, route, bearer(token)), 403)  # It is the other node's.

    def test_by_a_user_of_another_project(self, server: Shared, route: tuple[str, str]) -> None:
        if route in STREAMS or route in HARMLESS:
            return
        answer = call(server, route, bearer(server.tokens["sam"]))
        if RIGHTS[route] is Right.KNOWN and route[0] == "GET":
            assert answer.status == 200
            for word in (server.job, "vision", "night"):  # type: ignore[attr-defined]
                assert word.encode() not in answer.data, f"{route} shows {word!r} to somebody of another project"
        elif route == ("PUT", "/api/v1/schedules/{name}"):
            assert answer.status == 409, "a name is taken, and no more is said of it"
        else:
            refused(answer, 403, 404)

    def test_by_a_viewer(self, server: Shared, route: tuple[str, str]) -> None:
        if route not in STREAMS and RIGHTS[route] in (Right.CHANGE, Right.MANAGE, Right.SERVE, Right.AGENT):
            refused(call(server, route, bearer(server.tokens["vera"])), 403)

    def test_by_a_user_without_any_project(self, server: Shared, route: tuple[str, str]) -> None:
        if RIGHTS[route] is not Right.KNOWN:
            refused(call(server, route, bearer(server.tokens["nobody"])), 403)


def bad(server: Shared, how: str) -> str:
    if how not in server.tokens:
        words = {"user": "mel", "expires_in_s": 1} if how == "expired" else {"user": "mel"}
        made = server.ok("POST", "/tokens", words)
        server.tokens[how] = made["token"]
        if how == "revoked":
            server.ok("DELETE", f"/tokens/{made['prefix']}")
        else:
            token = server.store.token(made["prefix"].removeprefix("hw_"))
            assert token is not None
            assert not token.good(token.created_at + 1.0)
            age(server, made["prefix"])
    return server.tokens[how]


def age(server: Shared, prefix: str) -> None:
    """Let a token's time be over."""
    from dataclasses import replace

    from headway.core.access.accounts import Accounts
    from headway.store.protocol import Batch

    token = server.store.token(prefix.removeprefix("hw_"))
    assert token is not None
    server.store.commit(Batch(accounts=Accounts(tokens=[replace(token, expires_at=1.0)])))
