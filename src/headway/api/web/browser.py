"""How a browser signs in: its token in a cookie that no script reads, and a word against requests that others forge.

The word is made from the token, so no server need remember it, and whoever has not seen the token cannot know it. A
page gets it with the cookie, and sends it with every change; what comes without it changes nothing.
"""

from __future__ import annotations

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import Scope

COOKIE = "headway_session"
CSRF = b"x-headway-csrf"
LASTS_S = 30 * 86400
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def token_in_cookie(scope: Scope) -> str:
    """The token that a browser shows; empty where it shows none."""
    for name, value in scope["headers"]:
        if name == b"cookie" and COOKIE.encode() in value:
            try:
                found = SimpleCookie(value.decode("latin-1")).get(COOKIE)
            except CookieError:
                return ""
            return found.value if found is not None else ""
    return ""


def csrf_of(token: str) -> str:
    """The word that goes with a session."""
    return hmac.new(token.encode(), b"headway csrf", hashlib.sha256).hexdigest()[:32]


def why_forged(scope: Scope, token: str) -> str:
    """Why a call with this cookie may be somebody else's doing; empty where it is the page's own."""
    headers = dict(scope["headers"])
    if scope["type"] == "websocket":
        return "" if _same_origin(headers) else "a page of another site may not open this socket"
    if scope["method"] in SAFE:
        return ""
    given = headers.get(CSRF, b"").decode("latin-1")
    if not hmac.compare_digest(given.encode(), csrf_of(token).encode()):
        return "a change with a cookie needs the header X-Headway-Csrf, which came with the session"
    return ""


def _same_origin(headers: dict[bytes, bytes]) -> bool:
    """Whether a socket is opened by a page of this server. Browsers always say where from."""
    origin = headers.get(b"origin", b"").decode("latin-1")
    return bool(origin) and urlsplit(origin).netloc == headers.get(b"host", b"").decode("latin-1")


def sign_in(answer: Response, token: str, secure: bool) -> None:
    answer.set_cookie(COOKIE, token, max_age=LASTS_S, path="/", secure=secure, httponly=True, samesite="strict")


def sign_out(answer: Response) -> None:
    answer.delete_cookie(COOKIE, path="/")
