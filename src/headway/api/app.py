"""The application: all routes, behind one check of who calls, with every error as a problem document."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.routing import WebSocketRoute

from headway.api.content import problems
from headway.api.routes import (
    accounts,
    agents,
    arrays,
    audit,
    cluster,
    events,
    files,
    jobs,
    login,
    logs,
    queued_jobs,
    selection,
    server,
    session,
)
from headway.api.web.fast_path import FastPath, HotRoutes, NoSurprise, hot_routes
from headway.api.web.follower_proxy import Front
from headway.api.web.gate import Gate, guard, socket_of
from headway.api.web.services import Services
from headway.api.web.static_files import route_of

ROUTES = (
    jobs, queued_jobs, arrays, selection, logs, files, events, cluster, server, agents, accounts, audit, login, session,
)  # fmt: skip


def create_app(services: Services) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        services.standing.loop = asyncio.get_running_loop()
        services.hub.begin(services.standing.loop, services.store.last_seq())
        yield

    app = FastPath(
        title="Headway",
        version=services.about["version"],
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
    )
    problems.install(app)
    made = [module.routes(services) for module in ROUTES] + [web.make(services) for web in services.webs.values()]
    routers = [guard(router, services) for router in made]
    for router in routers:
        app.include_router(router)
    for web in services.webs.values():
        app.routes.extend(route for static in web.static for route in route_of(static))
        app.routes.extend(WebSocketRoute(each.path, socket_of(each, services)) for each in web.sockets)
    # The last to be added is the first to be met: who calls, then whether this server leads.
    app.add_middleware(Front, standing=services.standing, table=services.table)
    app.add_middleware(Gate, services=services)
    hot = HotRoutes(hot_routes(routers, services))
    app.open_lane(NoSurprise(Gate(Front(hot, services.standing, services.table), services)))
    return app
