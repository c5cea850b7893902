"""`GET /api/v1/usage`: what jobs and nodes use now. Waits a moment for nodes that have just been asked."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from headway.api.content.schemas import ANY
from headway.api.web.feature_routes import FeatureRoutes
from headway.api.web.gate import actor_of
from headway.api.web.services import Services
from headway.core.access.actor import Right
from headway.features.usage.commands import AskUsage

WAIT_S_MAX = 10.0
LOOK_EVERY_S = 0.2


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["nodes"])

    @router.get("/usage", responses=ANY)
    async def usage(request: Request, wait_s: Annotated[float, Query(ge=0, le=WAIT_S_MAX)] = 2.0) -> Response:
        """Jobs that run, those that use most first, and all nodes; amounts are null where nothing was heard."""
        actor = actor_of(request)
        asked = AskUsage(actor.projects)
        until = services.mono() + wait_s
        while True:
            found = await services.do(asked)
            heard_all = found["heard"] >= sum(not node["silent"] for node in found["nodes"])
            if heard_all or services.mono() >= until:
                break
            await asyncio.sleep(LOOK_EVERY_S)
        return JSONResponse(found if actor.belongs else {**found, "nodes": []})

    return router


WEB = FeatureRoutes(make=routes, rights={("GET", "/api/v1/usage"): Right.KNOWN})
