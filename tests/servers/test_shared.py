"""Two servers of a team, over TLS with an authority of their own: accounts are one, and trust holds at a take-over."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.control.access.sealing import KeyRing
from headway.control.access.signing_keys import Signing
from tests.certificates import certified
from tests.servers.cluster import TOKEN, Cluster, OneServer
from tests.servers.test_takeover import follower_of
from tests.waiting import wait_until

CACHED_S = 1.0  # The bound within which another server must refuse a token that was revoked.


class Talk:
    """Requests to one very server, with whatever token."""

    def __init__(self, ca: Path) -> None:
        handler = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(ca)))
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), handler)

    def ask(self, server: OneServer, method: str, path: str, body: Any = None, token: str = TOKEN) -> tuple[int, Any]:
        url = server.url + (path if path.startswith("/agent") else f"/api/v1{path}")
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body is not None else None
        asked = urllib.request.Request(url, data, headers, method=method)
        try:
            with self._opener.open(asked, timeout=300) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def ok(self, *words: Any, **more: Any) -> Any:
        status, answer = self.ask(*words, **more)
        assert status < 300, answer
        return answer

    def entries(self, server: OneServer, what: str) -> list[dict[str, Any]]:
        return [each for each in self.ok(server, "GET", "/audit")["entries"] if each["what"].endswith(what)]


def test_people_tokens_and_trust_are_the_same_on_every_server(
    nodes_of_another: dict[str, str], cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    ours = certified(tmp_path)
    several = cluster(
        2, **nodes_of_another, accounts="on", token_cache_s=CACHED_S, lead_lease_s=10,  # Also when busy.
        tls_cert_file=ours.cert, tls_key_file=ours.key, ca_file=ours.ca,
    )  # fmt: skip
    leader, epoch = several.lead_of()
    follower = follower_of(several, leader)
    talk = Talk(ours.ca)
    assert leader.url.startswith("https://")

    # A user who is made on one is known on the other at once, whichever it was.
    tokens: dict[str, dict[str, Any]] = {}
    talk.ok(follower, "PUT", "/projects/vision")
    for name, made_on, used_on in (("mel", follower, leader), ("sam", leader, follower)):
        talk.ok(made_on, "POST", "/users", {"name": name})
        talk.ok(made_on, "PUT", f"/projects/vision/members/{name}", {"role": "member"})
        tokens[name] = talk.ok(made_on, "POST", "/tokens", {"user": name})
        assert talk.ok(used_on, "GET", "/whoami", token=tokens[name]["token"])["name"] == name
    # Each change stands in the record once, also where it was passed on.
    assert [each["target"] for each in talk.entries(leader, "accounts.add_user")] == ["mel", "sam"]

    # A job through the follower; its last use is noted, and its log is read from there.
    mel = tokens["mel"]["token"]
    job = talk.ok(follower, "POST", "/jobs", {"job": {"command": ["sleep", "600"], "project": "vision"}}, token=mel)
    job = job["job"]["id"]
    wait_until(lambda: talk.ok(follower, "GET", f"/jobs/{job}", token=mel)["state"] == "running", what="the job to run")
    assert talk.ask(follower, "GET", f"/jobs/{job}/logs", token=mel)[0] == 200
    assert [each["target"] for each in talk.entries(follower, "jobs.submit")] == [job]
    used = {each["prefix"]: each["used_at"] for each in talk.ok(follower, "GET", "/tokens")["tokens"]}
    assert used[tokens["mel"]["prefix"]]

    # Revoked on the leader: refused there at once, elsewhere within the bound; also by what a follower answers itself.
    assert talk.ask(follower, "GET", f"/jobs/{job}/logs", token=mel)[0] == 200
    talk.ok(leader, "DELETE", f"/tokens/{tokens['mel']['prefix']}")
    assert talk.ask(leader, "GET", "/whoami", token=mel)[0] == 401
    wait_until(lambda: talk.ask(follower, "GET", f"/jobs/{job}/logs", token=mel)[0] == 401, what="the refusal")
    assert talk.ask(follower, "GET", "/whoami", token=mel)[0] == 401
    # One that lives for a second dies everywhere.
    brief = talk.ok(follower, "POST", "/tokens", {"user": "sam", "expires_in_s": 1})["token"]
    for server in (leader, follower):
        wait_until(lambda each=server: talk.ask(each, "GET", "/events/page", token=brief)[0] == 401, what="its end")

    # A node's token is good for its node's calls alone, on either; the follower points to the leader.
    assert not list(Path(nodes_of_another["local_dir"]).rglob("token")), "its agent has taken it away"
    node = Signing(KeyRing(several.root / "secrets.keys")).signer.token_for("local-1")
    for server in (leader, follower):
        assert talk.ask(server, "GET", "/jobs", token=node)[0] == 403
    status, answer = talk.ask(follower, "POST", "/agent/sync", {"node": "local-1"}, token=node)
    assert (status, answer["leader"]) == (421, leader.url)

    leader.kill()
    new, _ = several.lead_of(epoch)
    assert new is follower
    goes_on(several, talk, new, job, tokens["sam"]["token"])


def goes_on(several: Cluster, talk: Talk, new: OneServer, job: str, token: str) -> None:
    """The leader has died: its node goes to the other by https, people and the command line go on."""
    assert talk.ok(new, "GET", f"/jobs/{job}", token=token)["state"] == "running"
    user = several.user()
    user.ok("stop", job, "--grace", "0")
    assert user.wait(job)["state"] == "cancelled"
    assert [each["number"] for each in talk.ok(new, "GET", f"/jobs/{job}", token=token)["attempts"]] == [1]
