"""What users, projects, roles and tokens do on a shared server."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.api.web.token_cache import Badges
from headway.control.access.accounts import new_token
from headway.core.access.accounts import Accounts, Token, User
from headway.store.memory.store import MemoryStore
from headway.store.protocol import Batch
from tests.accounts.people import Shared
from tests.api.serving import Serving
from tests.waiting import wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Shared]:
    with Shared(tmp_path) as server:
        yield server


def test_a_job_is_its_submitters_and_their_projects(server: Shared) -> None:
    job = server.job_of("mel")
    shown = server.by("vera", "GET", f"/jobs/{job}").json
    assert (shown["user"], shown["project"]) == ("mel", "vision")
    assert [each["id"] for each in server.by("vera", "GET", "/jobs").json["jobs"]] == [job]
    assert server.by("sam", "GET", "/jobs").json["jobs"] == []
    assert server.by("sam", "GET", "/server").json["jobs"] == {}


def test_another_projects_job_is_as_if_it_were_not_there(server: Shared) -> None:
    job = server.job_of("mel", name="train")
    there, missing = server.by("sam", "GET", f"/jobs/{job}"), server.by("sam", "GET", "/jobs/nosuch")
    assert there.status == missing.status == 404
    assert there.json["detail"].replace(job, "X") == missing.json["detail"].replace("nosuch", "X")
    assert there.json["hint"] == missing.json["hint"] == "no job was submitted yet"
    assert server.by("sam", "GET", "/jobs/train").status == 404
    own = server.job_of("sam", name="train")
    assert server.by("sam", "GET", "/jobs/train").json["id"] == own


def test_roles_allow_what_they_say(server: Shared) -> None:
    job = server.job_of("mel")
    assert server.by("vera", "POST", f"/jobs/{job}/hold").status == 403
    assert server.by("ada", "POST", f"/jobs/{job}/hold").status == 200
    assert server.by("mel", "PATCH", f"/jobs/{job}", {"project": "speech"}).status == 403
    assert server.by("mel", "PUT", "/projects/vision/members/nobody", {"role": "viewer"}).status == 403
    assert server.by("ada", "PUT", "/projects/vision/members/nobody", {"role": "viewer"}).status == 204
    assert server.by("nobody", "GET", f"/jobs/{job}").status == 200
    assert server.by("ada", "DELETE", "/projects/vision/members/nobody").status == 204
    assert server.by("nobody", "GET", f"/jobs/{job}").status == 403


def test_only_an_admin_submits_for_somebody_else(server: Shared) -> None:
    words = {"job": {"command": ["true"], "project": "vision"}, "user": "mel"}
    assert server.by("ada", "POST", "/jobs", words).status == 403
    assert server.by("root1", "POST", "/jobs", words).json["job"]["user"] == "mel"


def test_no_job_leans_on_one_of_another_project(server: Shared) -> None:
    job = server.job_of("mel", name="first")
    for words in ({"after": [job]}, {"after": ["first"]}, {"resume_from": {"job": job}}):
        answer = server.by("sam", "POST", "/jobs", {"job": {"command": ["true"], **words}})
        assert answer.status in (404, 422), words
        assert "no job" in answer.json["detail"]
    own = server.job_of("sam", hold=True)
    assert server.by("sam", "PATCH", f"/jobs/{own}", {"after": ["first"]}).status == 422
    mine = server.job_of("mel", after=["first"])
    assert server.by("mel", "GET", f"/jobs/{mine}").json["spec"]["after"][0]["job"] == job


def test_idempotency_keys_are_their_users(server: Shared) -> None:
    words = {"job": {"command": ["true"]}, "key": "k"}
    made = server.by("mel", "POST", "/jobs", words).json["job"]["id"]
    assert server.by("mel", "POST", "/jobs", words).json["job"]["id"] == made
    assert server.by("sam", "POST", "/jobs", words).json["job"]["id"] != made


def test_code_that_others_uploaded_is_not_known_to_be_there(server: Shared) -> None:
    content = b"print('secret')"
    sha256 = hashlib.sha256(content).hexdigest()
    files = [{"path": "train.py", "sha256": sha256, "size": len(content), "mode": 0o644}]
    digest = hashlib.sha256(json.dumps(files, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    assert server.by("mel", "PUT", f"/bundles/files/{sha256}", content).status == 204
    assert server.by("mel", "PUT", f"/bundles/{digest}", {"files": files}).status == 201
    assert server.by("mel", "POST", "/bundles/missing", {"files": [sha256]}).json["missing"] == []
    # Who knows the hash alone learns nothing, and can make no bundle of it.
    assert server.by("sam", "POST", "/bundles/missing", {"files": [sha256]}).json["missing"] == [sha256]
    assert server.by("sam", "PUT", f"/bundles/{digest}", {"files": files}).status == 409
    assert server.by("sam", "GET", f"/bundles/{digest}").status == 404
    stolen = server.by("sam", "POST", "/jobs", {"job": {"command": ["true"], "bundle": digest}})
    assert stolen.status == 422
    # Who has the content uploads it, and is served; a colleague reads what a job of the project runs.
    assert server.by("sam", "PUT", f"/bundles/files/{sha256}", content).status == 204
    assert server.by("sam", "PUT", f"/bundles/{digest}", {"files": files}).status == 201
    assert server.by("vera", "GET", f"/bundles/{digest}").status == 404
    server.job_of("mel", bundle=digest)
    assert server.by("vera", "GET", f"/bundles/{digest}").status == 200


def test_a_token_is_shown_once_and_kept_as_a_hash(server: Shared) -> None:
    made = server.by("mel", "POST", "/tokens", {"label": "laptop"}).json
    assert made["token"].startswith(made["prefix"] + "_")
    listed = server.by("mel", "GET", "/tokens").json["tokens"]
    assert {each["label"] for each in listed} == {"", "laptop"}
    assert not any("hash" in each or "token" in each for each in listed)
    kept = server.store.token(made["prefix"].removeprefix("hw_"))
    assert kept is not None
    assert made["token"] not in repr(kept)
    assert kept.expires_at is not None


def test_last_use_is_noted_but_not_each_time(server: Shared) -> None:
    made = server.by("mel", "POST", "/tokens", {}).json
    prefix = made["prefix"].removeprefix("hw_")
    assert server.by(made["token"], "GET", "/whoami").json["token"] == prefix
    kept = server.store.token(prefix)
    assert kept is not None
    used = kept.used_at
    assert used is not None
    server.services.badges.forget()
    assert server.by(made["token"], "GET", "/whoami").status == 200
    again = server.store.token(prefix)
    assert again is not None
    assert again.used_at == used


def test_a_revoked_token_and_a_removed_user_are_out_at_once(server: Shared) -> None:
    assert server.by("mel", "GET", "/whoami").status == 200
    prefix = server.tokens["mel"].rpartition("_")[0][:13]
    assert server.by("sam", "DELETE", f"/tokens/{prefix}").status == 404
    assert server.by("mel", "DELETE", f"/tokens/{prefix}").status == 204
    assert server.by("mel", "GET", "/whoami").status == 401
    assert server.by("vera", "GET", "/whoami").status == 200
    server.ok("DELETE", "/users/vera")
    assert server.by("vera", "GET", "/whoami").status == 401
    server.user("vera")
    assert server.by("vera", "GET", "/whoami").json["roles"] == {}, "a namesake inherits no roles"


def test_a_service_token_belongs_to_its_project(server: Shared) -> None:
    assert server.by("mel", "POST", "/tokens", {"project": "vision", "label": "ci"}).status == 403
    assert server.by("sam", "POST", "/tokens", {"project": "vision", "label": "ci"}).status == 404
    made = server.by("ada", "POST", "/tokens", {"project": "vision", "label": "ci"}).json
    server.tokens["ci"] = made["token"]
    job = server.job_of("ci")
    shown = server.by("ci", "GET", f"/jobs/{job}").json
    assert (shown["user"], shown["project"]) == ("vision/ci", "vision")
    assert server.by("ci", "POST", "/tokens", {"user": "mel"}).status == 403
    assert server.by("ci", "GET", "/tokens").json["tokens"] == []


def test_streams_show_what_lists_show_and_end_with_the_token(server: Shared) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    connection.request("GET", "/api/v1/events", headers={"Authorization": f"Bearer {server.tokens['sam']}"})
    stream = connection.getresponse()
    assert stream.status == 200
    theirs, own = server.job_of("mel"), server.job_of("sam")
    seen = ""
    while own not in seen:
        seen += stream.readline().decode()
    assert theirs not in seen
    server.ok("DELETE", "/users/sam")
    server.job_of("mel")  # Something happens, so the stream looks up.
    rest = stream.read().decode()
    assert theirs not in rest
    connection.close()


def entries(server: Shared, **which: Any) -> list[dict[str, Any]]:
    found = server.ok("GET", "/audit")["entries"]
    return [each for each in found if all(each[word] == value for word, value in which.items())]


def test_every_change_is_in_the_audit_log_with_its_actor(server: Shared) -> None:
    job = server.job_of("mel")
    server.by("ada", "POST", f"/jobs/{job[:6]}/stop", {})  # By a part of its id: the log has the whole.
    (made,) = entries(server, what="jobs.submit")
    assert (made["actor"], made["kind"], made["target"], made["project"]) == ("mel", "user", job, "vision")
    assert made["token"] in server.tokens["mel"]
    (stopped,) = entries(server, what="jobs.stop")
    assert (stopped["actor"], stopped["target"], stopped["outcome"]) == ("ada", job, "done")
    assert {each["actor"] for each in entries(server, what="accounts.add_user")} == {"local"}
    server.by("vera", "POST", f"/jobs/{job}/retry")
    (refused,) = entries(server, actor="vera")
    assert (refused["what"], refused["outcome"]) == ("jobs.retry", "refused")
    server.by("hw_wrong_token", "GET", "/jobs")
    assert entries(server, what="door.enter")[0]["kind"] == "unknown"
    secrets = [token.split("_", 2)[2] for token in server.tokens.values()]  # Which may have such a line in them.
    assert not any(secret in json.dumps(entries(server)) for secret in secrets)


def test_refusals_do_not_fill_the_audit_log(server: Shared) -> None:
    for _ in range(150):
        server.by("hw_wrong_token", "GET", "/jobs")
    assert 0 < len(entries(server, what="door.enter")) <= 120, "sixty a minute, and a minute may end meanwhile"


def test_a_project_goes_when_nothing_goes_on_in_it(server: Shared) -> None:
    job = server.job_of("sam")
    assert server.by("root1", "DELETE", "/projects/speech").status == 409
    server.by("sam", "POST", f"/jobs/{job}/stop", {})
    wait_until(lambda: server.by("sam", "GET", f"/jobs/{job}").json["state"] == "cancelled")
    assert server.by("root1", "DELETE", "/projects/speech").status == 204
    assert server.by("sam", "GET", f"/jobs/{job}").status == 403


@pytest.mark.parametrize("name", ["", "Ada", "a b", "local", "../x", "a" * 64, "<b>", "\x1b[31m", None, 7])
def test_a_name_is_plain(server: Shared, name: Any) -> None:
    assert server.by("root1", "POST", "/users", {"name": name}).status == 422


def test_where_nobody_signs_in_there_are_no_accounts(tmp_path: Path) -> None:
    with Serving(tmp_path) as server:
        answer = server.ask("POST", "/api/v1/users", {"name": "ada"})
        assert (answer.status, answer.json["type"]) == (409, "conflict")
        assert "accounts" in answer.json["hint"]
        assert server.ok("GET", "/whoami") == {
            "kind": "house", "name": "local", "admin": True, "roles": {}, "token": "", "accounts": False,
        }  # fmt: skip
        server.submit()
        assert server.ok("GET", "/audit") == {"entries": []}


def test_a_token_that_was_good_a_moment_ago_is_not_good_beyond_its_time() -> None:
    store, clock = MemoryStore(), [100.0]
    text, prefix, kept = new_token()
    token = Token(prefix, kept, user="mel", created_at=100.0, expires_at=102.0)
    store.commit(Batch(accounts=Accounts([User("mel")], tokens=[token])))
    badges = Badges(store, True, 60.0, lambda: clock[0])

    def known() -> bool:
        return asyncio.run(badges.look(f"Bearer {text}".encode())) is not None

    assert known()
    clock[0] = 101.9
    assert known()
    clock[0] = 102.0
    assert not known()
