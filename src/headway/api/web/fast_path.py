"""The fast lane: the few routes that a flood of jobs goes through, called without the machinery around the others.

They are ordinary routes all the same: in the schema, with their rights, answered by the same functions. What is left
out is the search for a route and the reading of parameters that these do not have, which cost more than the work.
"""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.api.content import problems
from headway.api.web import request_ids
from headway.api.web.gate import Handler, checked
from headway.api.web.services import Services
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


class FastPath(FastAPI):
    """An application whose hot routes are met before anything that only the others need."""

    def open_lane(self, lane: ASGIApp) -> None:
        """Send what is hot this way: an app that checks who calls, and answers."""
        self._lane = lane

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await request_ids.named(self._answer, scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (scope["method"], scope["path"]) in HOT:
            scope["app"] = self
            await self._lane(scope, receive, send)
        else:
            try:
                await super().__call__(scope, receive, send)
            except Exception as error:  # Answered by now, or broken off; the HTTP server would print all of it again.
                problems.broke_off(scope, error)


class HotRoutes:
    """The end of the fast lane: the function of the route, and its errors as documents."""

    def __init__(self, hot: Mapping[tuple[str, str], Handler]) -> None:
        self._hot = hot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._hot[scope["method"], scope["path"]](Request(scope, receive))
        except HeadwayError as error:
            response = problems.of(error)
        await response(scope, receive, send)


class NoSurprise:
    """The outermost: what nobody foresaw is logged, and answered like everything that goes wrong here."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def note(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, note)
        except Exception as error:
            if begun:
                problems.broke_off(scope, error)
            else:
                await problems.of_the_unexpected(scope, error)(scope, receive, send)
