"""Signing in with a browser: its way to the identity provider, and back to a listener on this machine.

Authorization code with PKCE: what comes back is worth nothing without the secret that never left this process.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from headway.client.connection.http import ServerLink
from headway.core.errors import NotAllowed, NotFound, Unavailable

PATIENCE_S = 300.0
READ_S_MAX = 10.0
HEAD_BYTES_MAX = 1 << 16
PAGE = b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"


def token(link: ServerLink, show: Callable[[str], None]) -> str:
    """Let the user sign in, and return the server's token."""
    ways: dict[str, Any] = link.call("GET", "/login").json()
    if not ways.get("oidc"):
        raise NotFound("no identity provider vouches for users of this server", "headway login with a token")
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        redirect = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code",
            "client_id": ways["oidc"]["client_id"],
            "redirect_uri": redirect,
            "scope": "openid email profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = str(ways["oidc"]["authorization_endpoint"])
        show(endpoint + ("&" if urlsplit(endpoint).query else "?") + urlencode(asked))
        code = _code(listener, state)
    words = {"code": code, "code_verifier": verifier, "nonce": nonce, "redirect_uri": redirect}
    return str(link.call("POST", "/login/oidc", words, once=True).json()["token"])


def _code(listener: socket.socket, state: str) -> str:
    """Wait for the browser to come back with our state; whatever else knocks is sent away."""
    give_up_at = time.monotonic() + PATIENCE_S
    while (left_s := give_up_at - time.monotonic()) > 0:
        listener.settimeout(left_s)
        try:
            caller, _ = listener.accept()
        except TimeoutError:
            break
        with caller:
            said = _asked(caller)
            if not hmac.compare_digest(said.get("state", "").encode(), state.encode()):
                _answer(caller, b"404 Not Found", b"this is not the sign-in that headway waits for")
                continue
            if "code" in said:
                _answer(caller, b"200 OK", b"signed in; this page can be closed")
                return said["code"]
            _answer(caller, b"200 OK", b"not signed in; this page can be closed")
            raise NotAllowed(f"the identity provider refused: {said.get('error', 'no reason given')[:200]}")
    raise Unavailable(f"nobody signed in within {PATIENCE_S:g} s", "headway login --oidc again")


def _asked(caller: socket.socket) -> dict[str, str]:
    caller.settimeout(READ_S_MAX)
    head = b""
    try:
        while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES_MAX:
            more = caller.recv(4096)
            if not more:
                break
            head += more
        target = head.split(b" ")[1].decode("latin-1")
        return {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
    except (OSError, IndexError, ValueError):
        return {}


def _answer(caller: socket.socket, status: bytes, said: bytes) -> None:
    try:
        caller.sendall(PAGE % (status, len(said), said))
    except OSError:
        pass  # The browser has gone; what it brought is here.
