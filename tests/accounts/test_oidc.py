"""Signing in through an identity provider: a small real one, which can also lie."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.accounts.people import Shared
from tests.living import HEADWAY

KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
OTHER = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
CLIENT = "headway-test"
WHO = {"sub": "7", "email": "Lea@Example.org", "email_verified": True}


class Handler(BaseHTTPRequestHandler):
    """Discovery, keys, the page where one signs in (it asks nothing), and the exchange, with PKCE checked."""

    provider: Provider

    def do_GET(self) -> None:
        url, given = self.provider.url, {name: each[0] for name, each in parse_qs(urlsplit(self.path).query).items()}
        if self.path.startswith("/.well-known/"):
            words = {"authorization_endpoint": f"{url}/in", "token_endpoint": f"{url}/token", "jwks_uri": f"{url}/keys"}
            self._say({"issuer": url, **words})
        elif self.path == "/keys":
            self._say({"keys": [KEY.as_dict(private=False)]})
        else:
            code = f"code-{len(self.provider.codes)}"
            self.provider.codes[code] = given
            self.send_response(302)
            self.send_header(
                "Location", given["redirect_uri"] + "?" + urlencode({"code": code, "state": given["state"]})
            )
            self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: each[0] for name, each in parse_qs(body).items()}
        asked = self.provider.codes.pop(form["code"], None)
        proof = hashlib.sha256(form["code_verifier"].encode()).digest()
        if asked is None or asked["code_challenge"] != base64.urlsafe_b64encode(proof).decode().rstrip("="):
            self._say({"error": "invalid_grant"}, 400)
            return
        self._say({"access_token": "x", "token_type": "Bearer", "id_token": self.provider.id_token(asked["nonce"])})

    def _say(self, said: Any, status: int = 200) -> None:
        data = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


class Provider:
    def __init__(self) -> None:
        self.codes: dict[str, dict[str, str]] = {}
        self.claims: dict[str, Any] = {}
        self.key, self.alg = KEY, "RS256"
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"provider": self}))
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def id_token(self, nonce: str) -> str:
        now = int(time.time())
        usual = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce, **WHO}
        claims = {name: value for name, value in {**usual, **self.claims}.items() if value is not None}
        if self.alg == "none":
            parts = [json.dumps(each).encode() for each in ({"alg": "none"}, claims)]
            return ".".join(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts) + "."
        return jwt.encode({"alg": self.alg, "kid": "one"}, claims, self.key)


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.server.shutdown()
    provider.server.server_close()


@pytest.fixture
def server(provider: Provider, tmp_path: Path) -> Iterator[Shared]:
    words = {"oidc_issuer": provider.url, "oidc_client_id": CLIENT, "oidc_domains": "example.org"}
    with Shared(tmp_path, **words) as server:
        yield server


def enter(server: Shared, provider: Provider, **other: str) -> Any:
    """What the command line does, without a browser."""
    verifier = "v" * 43
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    provider.codes["c"] = {"nonce": "n", "code_challenge": challenge}
    words = {"code": "c", "code_verifier": verifier, "nonce": "n", "redirect_uri": "http://127.0.0.1:1/", **other}
    return server.ask("POST", "/api/v1/login/oidc", words, {"Authorization": ""})


def test_whom_the_provider_vouches_for_comes_in(server: Shared, provider: Provider) -> None:
    made = enter(server, provider)
    assert made.status == 201, made.data
    who = server.by(made.json["token"], "GET", "/whoami").json
    assert (who["kind"], who["name"], who["roles"]) == ("user", "lea@example.org", {})
    assert made.json["expires_at"] > time.time()
    assert enter(server, provider).json["user"] == "lea@example.org"
    entries = server.ok("GET", "/audit")["entries"]
    assert [each["actor"] for each in entries if each["what"] == "login.enter"] == ["lea@example.org"] * 2


LIES: dict[str, dict[str, Any]] = {
    "another audience": {"aud": "somebody-else"},
    "another issuer": {"iss": "https://evil.example"},
    "expired": {"exp": int(time.time()) - 3600},
    "not yet": {"iat": int(time.time()) + 3600, "nbf": int(time.time()) + 3600},
    "another nonce": {"nonce": "other"},
    "no nonce": {"nonce": None},
    "no subject": {"sub": None},
    "no expiry": {"exp": None},
    "an address that was not verified": {"email_verified": False},
    "a domain of others": {"email": "x@evil.example"},
    "another party": {"aud": [CLIENT, "other"], "azp": "other"},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_who_lies_does_not(server: Shared, provider: Provider, lie: dict[str, Any]) -> None:
    provider.claims = lie
    answer = enter(server, provider)
    assert (answer.status, answer.json["type"]) == (403, "not-allowed"), answer.data
    assert [each["outcome"] for each in server.ok("GET", "/audit")["entries"] if each["what"] == "login.enter"] == [
        "refused"
    ]


def test_a_wrong_signature_is_none(server: Shared, provider: Provider) -> None:
    provider.key = OTHER
    assert enter(server, provider).status == 403
    provider.key, provider.alg = KEY, "none"
    assert enter(server, provider).status == 403


def test_a_code_is_worth_nothing_without_its_secret(server: Shared, provider: Provider) -> None:
    assert enter(server, provider, code_verifier="w" * 43).status == 403
    assert enter(server, provider, nonce="other").status == 403
    assert enter(server, provider, redirect_uri="https://evil.example/").status == 422


def test_a_known_address_is_bound_to_the_first_who_shows_it(server: Shared, provider: Provider) -> None:
    server.ok("PATCH", "/users/mel", {"email": "lea@example.org"})
    assert enter(server, provider).json["user"] == "mel"
    provider.claims = {"sub": "8"}
    assert enter(server, provider).status == 403, "another account with the same address is another person"


def test_the_command_line_goes_through_the_browser(server: Shared, provider: Provider) -> None:
    home = Path(tempfile.mkdtemp(prefix="headway-"))
    url = f"http://127.0.0.1:{server.port}"
    words = [*HEADWAY, "login", "--server", url, "--oidc", "--no-browser"]
    env = {"HEADWAY_HOME": str(home), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as command:
        assert command.stderr is not None
        address = next(line.strip() for line in command.stderr if line.startswith("http"))
        stray = urllib.request.Request(parse_qs(urlsplit(address).query)["redirect_uri"][0] + "?code=x&state=guessed")
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(stray, timeout=120)
        with urllib.request.urlopen(address, timeout=120) as page:
            assert b"signed in" in page.read()
        said, _ = command.communicate(timeout=300)
    assert command.returncode == 0
    assert "as lea@example.org" in said
    assert json.loads((home / "config/logins.json").read_text())[url].startswith("hw_")
    shutil.rmtree(home)
