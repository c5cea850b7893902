"""Signing in through an identity provider: a code from the browser becomes a user, and a token with an end.

The command line runs the browser's side (authorization code with PKCE, back to its own loopback address); here the code
is exchanged and what the provider says is checked: issuer, audience, nonce, signature, times.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.content.bodies import read_object
from headway.api.content.schemas import ANY, OIDC_CODE
from headway.api.web.services import Services
from headway.control.access.accounts import AddUser, SaveToken, SetUser, new_token
from headway.control.access.audit import Recording
from headway.core.access.accounts import Token, User, check_name
from headway.core.access.actor import Actor
from headway.core.errors import BadInput, HeadwayError, NotAllowed, NotFound, Unavailable
from headway.core.fields import check_keys
from headway.settings import Settings, is_loopback

ALGORITHMS = ("RS256", "PS256", "ES256")
ANSWER_S_MAX = 10.0
ANSWER_BYTES_MAX = 1 << 20
KEPT_S = 3600.0
LEEWAY_S = 60
WORDS = ("code", "code_verifier", "nonce", "redirect_uri")


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["login"])
    provider = Provider(services.settings)

    @router.get("/login", responses=ANY)
    async def ways() -> Response:
        """How one can sign in here."""
        if not services.shared or not services.settings.oidc_issuer:
            return JSONResponse({"accounts": services.shared, "oidc": None})
        found = await run_in_threadpool(provider.discovered)
        endpoint, client = found["authorization_endpoint"], services.settings.oidc_client_id
        return JSONResponse({"accounts": True, "oidc": {"authorization_endpoint": endpoint, "client_id": client}})

    @router.post("/login/oidc", status_code=201, openapi_extra=OIDC_CODE, responses=ANY)
    async def enter(request: Request) -> Response:
        """Exchange a code of the identity provider for a token."""
        if not services.shared or not services.settings.oidc_issuer:
            raise NotFound("no identity provider vouches for users of this server", "headway login with a token")
        said = _words(await read_object(request, 1 << 16))
        unknown = Actor("unknown", "")
        try:
            claims = await run_in_threadpool(provider.claims, said)
            user = await _user_of(services, claims)
        except HeadwayError as error:
            await services.recorder.refused(Recording(unknown, "login.enter"), error.message)
            raise
        text, prefix, hash = new_token()
        token = Token(prefix, hash, label="oidc", user=user.name)
        saved = await services.do(SaveToken(token, services.settings.token_life_s))
        services.badges.forget()
        await services.recorder.write(Recording(Actor("user", user.name, token=prefix), "login.enter", f"hw_{prefix}"))
        return JSONResponse({"token": text, "user": user.name, "expires_at": saved.expires_at}, 201)

    return router


def _words(body: dict[str, Any]) -> dict[str, str]:
    check_keys(body, dict.fromkeys(WORDS, ""), "request")
    for word in WORDS:
        if not isinstance(body.get(word), str) or not 0 < len(body[word]) <= 4000:
            raise BadInput(f"{word}: expected a text")
    parts = urlsplit(body["redirect_uri"])
    if parts.scheme != "http" or not is_loopback(parts.hostname or ""):
        raise BadInput("redirect_uri: expected an address of the caller's own machine", "http://127.0.0.1:PORT/")
    return body


async def _user_of(services: Services, claims: dict[str, Any]) -> User:
    """The user whom the provider means: known by its subject, else by the address, else new where that is wished."""
    subject = f"{claims['iss']}|{claims['sub']}"
    email = str(claims.get("email") or "").lower()
    users = await run_in_threadpool(services.store.user_accounts)
    for user in users:
        if user.subject == subject:
            return user
    if not email or claims.get("email_verified") is not True:
        raise NotAllowed("the identity provider names no verified e-mail address", "an admin can make a user for you")
    for user in users:
        if user.email.lower() == email:
            if user.subject:
                raise NotAllowed(f'"{email}" belongs to another account of the identity provider', "ask an admin")
            known: User = await services.do(SetUser(user.name, subject=subject))
            return known
    domains = [each.strip().lower() for each in services.settings.oidc_domains.split(",") if each.strip()]
    if email.rpartition("@")[2] not in domains:
        raise NotAllowed(f'"{email}" is not a user of this server', "an admin adds one: headway user create --email …")
    made: User = await services.do(AddUser(User(check_name(email, "user"), email, subject, created_by="oidc")))
    return made


@dataclass
class Provider:
    """The identity provider, and what it said of itself lately."""

    settings: Settings
    _known: dict[str, tuple[float, Any]] = field(default_factory=dict)

    def discovered(self) -> dict[str, Any]:
        issuer = self.settings.oidc_issuer.rstrip("/")
        found = self._kept(f"{issuer}/.well-known/openid-configuration")
        if not isinstance(found, dict) or str(found.get("issuer", "")).rstrip("/") != issuer:
            raise Unavailable(f"oidc_issuer: {issuer} calls itself something else", "check the setting")
        for word in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            _check_url(str(found.get(word)), word)
        return found

    def claims(self, said: dict[str, str]) -> dict[str, Any]:
        """What the provider vouches for, after every check; NotAllowed when one fails."""
        found = self.discovered()
        form = {word: said[word] for word in ("code", "code_verifier", "redirect_uri")}
        form |= {"grant_type": "authorization_code", "client_id": self.settings.oidc_client_id}
        if self.settings.oidc_client_secret_file:
            form["client_secret"] = Path(self.settings.oidc_client_secret_file).read_text().strip()
        answer = _ask(found["token_endpoint"], urlencode(form).encode())
        text = answer.get("id_token") if isinstance(answer, dict) else None
        if not isinstance(text, str):
            raise NotAllowed("the identity provider gave no id token for this code", "headway login --oidc again")
        return self.checked(text, said["nonce"], str(found["issuer"]), str(found["jwks_uri"]))

    def checked(self, text: str, nonce: str, issuer: str, jwks_uri: str) -> dict[str, Any]:
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        client = self.settings.oidc_client_id
        try:
            try:
                token = jwt.decode(text, KeySet.import_key_set(self._kept(jwks_uri)), algorithms=list(ALGORITHMS))
            except (JoseError, ValueError):
                # Its keys may have been changed since: once more, with those of now.
                self._known.pop(jwks_uri, None)
                token = jwt.decode(text, KeySet.import_key_set(self._kept(jwks_uri)), algorithms=list(ALGORITHMS))
            options = {"iss": {"essential": True, "value": issuer}, "aud": {"essential": True, "value": client}}
            params = {"nonce": nonce, "client_id": client}
            claims = CodeIDToken(dict(token.claims), dict(token.header), options, params)
            claims.validate(now=int(time.time()), leeway=LEEWAY_S)
        except Exception as error:  # Of two libraries; whatever it is, nobody comes in.
            if isinstance(error, HeadwayError):
                raise
            why = str(error) or type(error).__name__
            raise NotAllowed(f"the identity provider's word is not good: {why[:200]}", "headway login --oidc") from None
        return dict(claims)

    def _kept(self, url: str) -> Any:
        known = self._known.get(url)
        if known is None or time.monotonic() - known[0] > KEPT_S:
            known = self._known[url] = (time.monotonic(), _ask(url))
        return known[1]


def _check_url(url: str, what: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise Unavailable(f'{what}: "{url[:200]}" is not an https address')


def _ask(url: str, form: bytes | None = None) -> Any:
    _check_url(url, "the identity provider")
    try:
        with urllib.request.urlopen(urllib.request.Request(url, form), timeout=ANSWER_S_MAX) as answer:
            return json.loads(answer.read(ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as error:
        if form is not None and error.code in (400, 401, 403):
            raise NotAllowed("the identity provider refused the code", "headway login --oidc again") from None
        raise Unavailable(f"the identity provider answered {error.code} at {url}") from None
    except (OSError, ValueError) as error:
        raise Unavailable(f"the identity provider does not answer at {url}: {error}") from None
