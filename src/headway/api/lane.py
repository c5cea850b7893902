"""The fast lane: the few routes that a flood of jobs goes through, called without the machinery around the others.

They are ordinary routes all the same: in the schema, with their rights, answered by the same functions. What is left
out is the search for a route and the reading of parameters that these do not have, which cost more than the work.
"""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from headway.api import problems
from headway.api.access import Handler, checked
from headway.api.services import Services
from headway.core.errors import HeadwayError

HOT = frozenset({("POST", "/api/v1/jobs"), ("POST", "/agent/sync")})
"""Routes whose functions take the request and nothing else."""


def hot_routes(routers: list[APIRouter], services: Services) -> dict[tuple[str, str], Handler]:
    """The functions of the hot routes, each behind its right."""
    found: dict[tuple[str, str], Handler] = {}
    for route in (route for router in routers for route in router.routes if isinstance(route, APIRoute)):
        for method in route.methods or ():
            if (method, route.path) in HOT:
                found[method, route.path] = checked(route, route.endpoint, services)
    return found


class FastLane:
    """Plain ASGI, within the gate: who calls is known already."""

    def __init__(self, app: ASGIApp, hot: Mapping[tuple[str, str], Handler]) -> None:
        self._app = app
        self._hot = hot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self._hot.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if handler is None:
            await self._app(scope, receive, send)
            return
        try:
            response = await handler(Request(scope, receive))
        except HeadwayError as error:
            response = problems.of(error)
        await response(scope, receive, send)
