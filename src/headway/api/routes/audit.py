"""The audit log over HTTP: who changed what, and what was refused."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.content.schemas import ANY
from headway.api.web.services import Services


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["audit"])

    @router.get("/audit", responses=ANY)
    async def audit(
        since: Annotated[float, Query(ge=0, le=1e12, allow_inf_nan=False)] = 0.0,
        actor: str = "",
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    ) -> Response:
        """The newest entries since a time, oldest first."""
        found = await run_in_threadpool(services.store.audit, since, actor, limit)
        return JSONResponse({"entries": [asdict(each) for each in found]})

    return router
