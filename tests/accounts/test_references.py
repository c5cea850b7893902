"""Secrets kept elsewhere on a shared server: a project has what an admin of the server allowed; reads are recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.accounts.people import Shared
from tests.accounts.vaults import a_vault

REFERENCE = "vault://kv/vision/hf#token"
FOREIGN = "vault://kv/finance/prod-db#password"


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The paths that a Vault, which has everything, is asked for."""
    with a_vault() as (env, asked):
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        yield asked


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with Shared(tmp_path_factory.mktemp("shared")) as made:
        made.join()
        yield made


def allow(server: Shared, *references: str) -> None:
    assert server.ok("PUT", "/projects/vision/references", {"references": references})["project"]["allowed"] == [
        *references
    ]


def set_(server: Shared, who: str, reference: str) -> Any:
    return server.by(who, "PUT", "/projects/vision/secrets/hf", {"reference": reference})


def values(server: Shared, task: str) -> Any:
    return server.by(server.services.signer.token_for("n1"), "POST", "/agent/secrets", {"task": task})


def entries(server: Shared) -> list[dict[str, Any]]:
    return [each for each in server.ok("GET", "/audit")["entries"] if each["what"] == "secrets.read"]


def test_nobody_refers_to_what_no_admin_of_the_server_has_allowed(server: Shared, vault: list[str]) -> None:
    for who in ("mel", "ada", "root1"):
        answer = set_(server, who, REFERENCE)
        assert answer.status == 403
        assert "headway project references vision --allow vault://kv/vision/hf" in answer.json["hint"]
    for who in ("mel", "ada", "sam"):
        refused = server.by(who, "PUT", "/projects/vision/references", {"references": ["vault://kv/"]})
        assert refused.status == 403, "only admins of the server allow anything"
    allow(server, "vault://kv/vision/")
    assert set_(server, "mel", REFERENCE).status == 200
    assert set_(server, "mel", FOREIGN).status == 403
    for way_out in ("vault://kv/vision/../finance/prod-db#password", "vault://kv/vision/hf?version=1#token"):
        assert set_(server, "mel", way_out).status == 422
    assert vault == []


def test_what_was_read_for_whom_is_written_down(server: Shared, vault: list[str]) -> None:
    allow(server, "vault://kv/vision/")
    set_(server, "mel", REFERENCE)
    job = server.job_of("mel", secrets={"HF": "hf"})
    server.until("n1", lambda duties: f"{job}/1/0" in duties)
    answer = values(server, f"{job}/1/0")
    assert answer.json["secrets"] == {"hf": "hf_12345678"}
    assert vault == ["/v1/kv/data/vision/hf"]
    (entry,) = entries(server)
    assert (entry["actor"], entry["project"], entry["outcome"]) == ("n1", "vision", "done")
    assert entry["target"] == f"hf, version 1: {REFERENCE}"
    assert entry["detail"] == f"for job {job} of mel, attempt 1"
    assert "hf_12345678" not in json.dumps(server.ok("GET", "/audit"))


def test_what_is_no_longer_allowed_is_no_longer_read(server: Shared, vault: list[str]) -> None:
    allow(server, "vault://kv/vision/")
    set_(server, "mel", REFERENCE)
    allow(server)
    job = server.job_of("mel", secrets={"HF": "hf"})
    server.until("n1", lambda duties: f"{job}/1/0" in duties)
    answer = values(server, f"{job}/1/0")
    assert answer.status == 404, "the job ends with the cause secret_missing"
    assert vault == []
    (entry,) = entries(server)
    assert entry["outcome"] == "refused"
    assert f"for job {job} of mel" in entry["detail"]


def test_members_see_what_is_allowed(server: Shared) -> None:
    allow(server, "vault://kv/vision/")
    shown = {each["name"]: each["allowed"] for each in server.by("mel", "GET", "/projects").json["projects"]}
    assert shown == {"vision": ["vault://kv/vision/"]}
