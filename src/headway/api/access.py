"""Who calls, and whether they may: the check in front of all routes, and what routes ask about their caller.

`Gate` finds the actor of a token and puts it into the request's state; `guard` sees to it that no route is entered
without the right that rights.py names. Whose the things are that a route works on is asked by the functions below.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headway.api import problems
from headway.api.rights import RIGHTS
from headway.core.actor import HOUSE, Actor, Right
from headway.core.errors import NotAllowed
from headway.core.tokens import NODE, Signer

OPEN_PATHS = frozenset({"/api/v1/health"})
REMEMBERED_MOST = 20_000
Handler = Callable[[Request], Awaitable[Response]]

__all__ = ["Actor", "Gate", "Right", "actor_of", "guard"]


def actor_of(request: Request) -> Actor:
    """Who makes this call."""
    actor: Actor = request.scope["state"]["actor"]
    return actor


class Gate:
    """Lets nobody in without a token. Plain ASGI: it costs next to nothing per request."""

    def __init__(self, app: ASGIApp, token: str, signer: Signer) -> None:
        self._app = app
        self._house = f"Bearer {token}".encode()
        self._signer = signer
        self._signed: dict[bytes, Actor] = {}  # By the hash of what was shown; signatures do not go stale.

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            actor = self._actor(scope)
            if actor is None:
                await _refusal()(scope, receive, send)
                return
            if actor.kind == "agent" and not scope["path"].startswith(("/agent/", "/agent.pyz")):
                await _not_for_agents(scope["path"])(scope, receive, send)
                return
            scope.setdefault("state", {})["actor"] = actor
        await self._app(scope, receive, send)

    def _actor(self, scope: Scope) -> Actor | None:
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        if hmac.compare_digest(given, self._house):
            return HOUSE
        seen = hashlib.sha256(given).digest()
        known = self._signed.get(seen)
        if known is None and (known := self._signed_by_us(given)) is not None:
            if len(self._signed) >= REMEMBERED_MOST:
                self._signed.clear()
            self._signed[seen] = known
        return known

    def _signed_by_us(self, given: bytes) -> Actor | None:
        bearer = self._signer.bearer(given.removeprefix(b"Bearer ").decode("latin-1"))
        if bearer is None:
            return None
        kind, name = bearer
        return Actor("agent", name, node=name) if kind == NODE else Actor("server", name, admin=True)


def _refusal() -> Response:
    hint = "headway login; the embedded server's token is in its private token file"
    return problems.problem(401, "not-allowed", "no valid token", hint)


def _not_for_agents(path: str) -> Response:
    return problems.problem(403, "not-allowed", f"{path}: an agent's token is good for the calls of its node alone")


def guard(router: APIRouter) -> APIRouter:
    """See that every route of a router asks for its right first."""
    for route in router.routes:
        if not isinstance(route, APIRoute):
            raise TypeError(f"{route} is no route of ours, so nothing guards it")
        for method in route.methods or ():
            if (method, route.path) not in RIGHTS:
                raise LookupError(f"api/rights.py has no row for {method} {route.path}")
        # The documented place at which a route's handling can be wrapped; called once, when the router is included.
        setattr(route, "get_route_handler", _guarded(route, route.get_route_handler))  # noqa: B010
    return router


def _guarded(route: APIRoute, make: Callable[[], Any]) -> Callable[[], Handler]:
    rights = {method: RIGHTS[method, route.path] for method in route.methods or ()}

    def get_route_handler() -> Handler:
        handler: Handler = make()

        async def checked(request: Request) -> Response:
            right = rights[request.method]
            if right is not Right.OPEN and not actor_of(request).might(right):
                raise NotAllowed(_lacks(actor_of(request), right))
            request.scope["state"]["right"] = right
            return await handler(request)

        return checked

    return get_route_handler


def _lacks(actor: Actor, right: Right) -> str:
    if right is Right.SERVE:
        return f'"{actor.name}" is no admin of this server'
    if right is Right.AGENT:
        return "only agents make this call"
    return f'"{actor.name}" may not {right.value} anything here'


class _Task(Protocol):
    @property
    def node(self) -> str: ...


class Reach:
    """What the agent of a node may say and touch: what concerns that node, and nothing else."""

    def __init__(self, services: Any) -> None:
        self._services = services

    def check_sync(self, actor: Actor, said: dict[str, Any]) -> None:
        """A call is made for one's own node, and its output lies in that node's own folder."""
        if actor.kind != "agent":
            return
        node = said["node"]
        if node != actor.node:
            raise NotAllowed(f'the token of "{actor.node}" does not speak for "{node[:80]}"')
        logs = said.get("logs")
        for piece in logs if isinstance(logs, list) else ():
            if not isinstance(piece, dict) or not str(piece.get("key", "")).startswith(f"logs/{node}/"):
                raise NotAllowed(f'{node}: output is kept below "logs/{node}/" only')

    def check_write(self, actor: Actor, key: str) -> None:
        if not (self._own_log(actor, key) or self._of_living(actor, key)):
            raise NotAllowed(f'an agent may not write "{key[:80]}"', "only logs, and what belongs to a living attempt")

    def check_read(self, actor: Actor, key: str) -> None:
        if actor.kind != "agent":
            allowed = key.startswith(("jobs/", "logs/", "bundles/"))
        else:
            allowed = self._own_log(actor, key) or self._needed_by(actor.node, key)
        if not allowed:
            raise NotAllowed(f'an agent may not read "{key[:80]}"', "only what a task on its node needs")

    def _own_log(self, actor: Actor, key: str) -> bool:
        return key.startswith(f"logs/{actor.node}/" if actor.kind == "agent" else "logs/")

    def _of_living(self, actor: Actor, key: str) -> bool:
        """Whether a key lies in the folder of an attempt that goes on, there: the fence for objects."""
        top, job, attempt, *rest = [*key.split("/"), "", "", ""]
        held = self._services.control.cycle.book.active.get(job)
        if top != "jobs" or not rest[0] or held is None or attempt != str(held.number):
            return False
        return any(actor.kind != "agent" or task.node == actor.node for task in held.alive)

    def _needed_by(self, node: str, key: str) -> bool:
        """Whether a task on this node may ask for an object: of its job, of the job it began from, of its bundle."""
        book = self._services.control.cycle.book
        # Copied in one step: the control thread goes on changing it.
        here = {job for job, _ in list(book.on_node.get(node, {}).values())}
        top, name, *_ = [*key.split("/"), ""]
        if top == "jobs":
            store = self._services.store
            return name in here or any(
                use.kind == "origin" and use.name == name for job in here for use in store.uses(job)
            )
        if top == "bundles":
            held = [book.jobs.get(job) for job in here]
            digests = {job.spec.progress.bundle for job in held if job is not None} - {""}
            return (name == "files" and bool(digests)) or name.removesuffix(".json") in digests
        return False
