"""Who calls, and whether they may: the check in front of all routes, and what routes ask about their caller.

`Gate` finds the actor of a token and puts it into the request's state; `guard` sees to it that no route is entered
without the right that rights.py names. Whose the things are that a route works on is asked by the functions below.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from headway.api.content import problems
from headway.api.web.browser import COOKIE, token_in_cookie, why_forged
from headway.api.web.connections import SIGNED_IN
from headway.api.web.feature_routes import Socket
from headway.api.web.sealed_calls import CHALLENGE, HELLO, SCHEME, STALE_TOKEN
from headway.api.web.services import Services
from headway.control.access.audit import Recording, recording
from headway.control.views import jobs as job_views
from headway.core.access.actor import HOUSE, NEEDED_ROLE, Actor, Right
from headway.core.access.tokens import NODE, Signer
from headway.core.errors import HeadwayError, NotAllowed
from headway.core.model import Job

REMEMBERED_MOST = 20_000
BEARER = Actor("agent", "a signed address")  # Of no node, so nothing else is within its reach.
Handler = Callable[[Request], Awaitable[Response]]

__all__ = ["Actor", "Gate", "Right", "actor_of", "check", "find_job", "guard"]


def actor_of(request: Request) -> Actor:
    """Who makes this call."""
    actor: Actor = request.scope["state"]["actor"]
    return actor


def check(request: Request, project: str) -> None:
    """See that the caller has the route's right in a project that they may see."""
    actor, right = actor_of(request), request.scope["state"]["right"]
    if (record := recording.get()) is not None:
        record.project = project
    if not actor.may(right, project):
        needed = NEEDED_ROLE.get(right, "admin of this server")
        held = actor.roles.get(project)
        having = f'is only {held} in "{project}"' if held else f'is not in the project "{project[:80]}"'
        raise NotAllowed(f'"{actor.name}" {having}; this needs {needed}', "headway whoami shows your roles")


async def find_job(services: Services, request: Request, ref: str) -> Job:
    """A job that the caller may see, and on which they have the route's right. Others are as if they were not there."""
    projects = actor_of(request).projects
    job = await run_in_threadpool(job_views.find_job, services.store, ref, projects)
    record = recording.get()
    if record is not None and record.target.startswith(ref):
        record.target = job.id + record.target.removeprefix(ref)  # Names are given again; ids are not.
    if projects is not None or record is not None:
        check(request, job.spec.project)
    return job


class Gate:
    """Lets nobody in without a token. Plain ASGI: it costs next to nothing per request."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services
        self._house = f"Bearer {services.token}".encode()
        self._signed: dict[bytes, Actor] = {}  # By the hash of what was shown; good as long as the keys are.
        self._signer: Signer | None = None
        self._calls = services.sealed_calls
        self._open = services.table.open_paths
        self._static = services.table.static

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in self._open or self._static.fullmatch(scope["path"]):
            pass
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
            return
        else:
            given, actor = _given(scope), None
            if scope["state"].get(COOKIE) and (forged := why_forged(scope, scope["state"][COOKIE])):
                await problems.problem(403, "not-allowed", forged)(scope, receive, send)
                return
            if given.startswith(SCHEME) and (call := self._calls.open(scope, given)) is not None:
                if call.problem:
                    await call.refuse(self._calls.challenge, scope, receive, send)
                    return
                actor, receive, send = call.actor, call.reading(receive), call.sealing(send)
                scope.setdefault("state", {}).update({STALE_TOKEN: call.stale, CHALLENGE: self._calls.challenge})
            try:
                actor = actor or self._actor(scope) or await self._services.badges.look(given)
            except HeadwayError as error:  # The store is away: nobody is known, so nothing is done, nor refused.
                error.untouched = True
                await problems.of(error)(scope, receive, send)
                return
            if actor is None:
                await self._services.recorder.turned_away(scope)
                await _refusal()(scope, receive, send)
                return
            if actor.kind == "agent" and not scope["path"].startswith(("/agent/", "/agent.pyz")):
                await _not_for_agents(scope["path"])(scope, receive, send)
                return
            if actor.kind == "newcomer" and scope["path"] not in ("/agent/token", HELLO):
                await _refusal()(scope, receive, send)
                return
            scope.setdefault("state", {})["actor"] = actor
            if actor is not BEARER:
                note_known(scope)
        await self._app(scope, receive, send)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A browser's socket, or a program's: whoever shows no good token is turned away before it is open."""
        given = _given(scope)
        forged = why_forged(scope, scope["state"][COOKIE]) if scope["state"].get(COOKIE) else ""
        try:
            actor = None if forged else self._actor(scope) or await self._services.badges.look(given)
        except HeadwayError as error:  # The store is away: nobody is known.
            await send({"type": "websocket.close", "code": 1013, "reason": error.message[:120]})
            return
        if actor is None or actor.kind in ("agent", "newcomer"):
            await send({"type": "websocket.close", "code": 1008, "reason": forged or "no valid token"})
            return
        scope["state"]["actor"] = actor
        await self._app(scope, receive, send)

    def _actor(self, scope: Scope) -> Actor | None:
        given = _given(scope)
        if hmac.compare_digest(given, self._house):
            return HOUSE
        seen = hashlib.sha256(given).digest()
        if self._signer is not self._services.signer:
            self._signed, self._signer = {}, self._services.signer
        known = self._signed.get(seen)
        if scope["path"].startswith("/agent/objects/") and b"signature=" in scope["query_string"]:
            return BEARER  # The address itself says what it opens; the routes of objects check it.
        if known is None and (known := self._signed_by_us(given)) is not None:
            if len(self._signed) >= REMEMBERED_MOST:
                self._signed.clear()
            self._signed[seen] = known
        return known

    def _signed_by_us(self, given: bytes) -> Actor | None:
        bearer = self._services.signer.bearer(given.removeprefix(b"Bearer ").decode("latin-1"))
        if bearer is None:
            return None
        return Actor("agent" if bearer.kind == NODE else "newcomer", bearer.name, node=bearer.name)


def note_known(scope: Scope) -> None:
    """Tell the connection that its caller is known. (Played requests have none.)"""
    note = scope["state"].get(SIGNED_IN)
    if note is not None:
        note()


def _given(scope: Scope) -> bytes:
    """What a caller shows: in a header, or, of a browser, in a cookie."""
    shown = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    state = scope.setdefault("state", {})
    if not shown and (token := token_in_cookie(scope)):
        state[COOKIE] = token
        shown = f"Bearer {token}".encode("latin-1", "replace")
    return shown


def given_token(request: Request) -> str:
    """The token of this call, however it was shown."""
    return _given(request.scope).removeprefix(b"Bearer ").decode("latin-1")


def _refusal() -> Response:
    hint = "headway login; the embedded server's token is in its private token file"
    return problems.problem(401, "not-allowed", "no valid token", hint)


def _not_for_agents(path: str) -> Response:
    return problems.problem(403, "not-allowed", f"{path}: an agent's token is good for the calls of its node alone")


def guard(router: APIRouter, services: Services) -> APIRouter:
    """See that every route of a router asks for its right first, and that changes are written down."""
    for route in router.routes:
        if not isinstance(route, APIRoute):
            raise TypeError(f"{route} is not a route of ours, so nothing guards it")
        for method in route.methods or ():
            if (method, route.path) not in services.table.rights:
                raise LookupError(
                    f"{method} {route.path} has no row among the rights (api/web/rights.py, or its feature's)"
                )
        # The documented place at which a route's handling can be wrapped; called once, when the router is included.
        setattr(route, "get_route_handler", _guarded(route, route.get_route_handler, services))  # noqa: B010
    return router


def _guarded(route: APIRoute, make: Callable[[], Any], services: Services) -> Callable[[], Handler]:
    return lambda: checked(route, make(), services)


def checked(route: APIRoute, handler: Handler, services: Services) -> Handler:
    """A handler of a route that is entered only with the route's right, and leaves its trace in the record."""
    (method,) = route.methods or {""}
    right = services.table.rights[method, route.path]
    changes = method != "GET" and right is not Right.AGENT and (method, route.path) not in services.table.unrecorded
    what = f"{route.tags[0] if route.tags else 'server'}.{route.name}"
    recorder = services.recorder

    async def check_first(request: Request) -> Response:
        if right is Right.OPEN:
            return await handler(request)
        actor = actor_of(request)
        request.scope["state"]["right"] = right
        if not recorder.on:
            if not actor.might(right):
                raise NotAllowed(_lacks(actor, right))
            return await handler(request)
        record = Recording(actor, what, "/".join(map(str, request.path_params.values())))
        with recorder.watching(record if changes else None):
            try:
                if not actor.might(right):
                    raise NotAllowed(_lacks(actor, right))
                answer = await handler(request)
            except NotAllowed as error:
                await recorder.refused(record, error.message)
                raise
        if changes and not record.written:
            await recorder.write(record)
        return answer

    return check_first


def socket_of(socket: Socket, services: Services) -> Callable[[WebSocket], Awaitable[None]]:
    """A socket that is served only to whoever has its right."""

    async def serve(opened: WebSocket) -> None:
        actor: Actor = opened.scope["state"]["actor"]
        if not actor.might(socket.right):
            await opened.close(1008, _lacks(actor, socket.right)[:120])
            return
        await socket.serve(services, opened)

    return serve


def _lacks(actor: Actor, right: Right) -> str:
    if right is Right.SERVE:
        return f'"{actor.name}" is not an admin of this server'
    if right is Right.AGENT:
        return "only agents make this call"
    return f'"{actor.name}" may not {right.value} anything here'
