"""The application: all routes, behind one token check, with every error as a problem document."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from headway.api import agents, bundles, changing, events, jobs, logs, problems, progress, schedules, server, setup
from headway.api.services import Services

OPEN_PATHS = frozenset({"/api/v1/health"})


class TokenCheck:
    """Lets nobody in without the token. Plain ASGI: it costs next to nothing per request."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS and not self._allowed(scope):
            answer = problems.problem(
                401, "not-allowed", "no valid token", "the embedded server's token is in its private token file"
            )
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _allowed(self, scope: Scope) -> bool:
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        return hmac.compare_digest(given, self._expected)


def create_app(services: Services) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        services.hub.loop = asyncio.get_running_loop()
        services.hub.last_seq = services.store.last_seq()
        yield

    app = FastAPI(
        title="Headway",
        version=services.about["version"],
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
    )
    problems.install(app)
    for module in (jobs, changing, logs, progress, bundles, events, setup, schedules, server, agents):
        app.include_router(module.routes(services))
    app.add_middleware(TokenCheck, token=services.token)
    return app
