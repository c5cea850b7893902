"""Schedules over HTTP: jobs that are submitted again and again, as a cron expression says."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from headway.api.documents import ANY, PAUSE, SCHEDULE, SCHEDULES, body
from headway.api.reading import read_object
from headway.api.services import Services
from headway.control.firing import DropSchedule, PauseSchedule, SetSchedule
from headway.core.errors import BadInput
from headway.core.fields import check_keys
from headway.core.schedules import show_schedule

USER = "local"


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["schedules"])

    @router.get("/schedules", responses=SCHEDULES)
    async def schedules() -> Response:
        """All schedules, with when each is due next."""
        known = services.control.cycle.book.house.schedules
        return JSONResponse({"schedules": [show_schedule(known[name]) for name in sorted(known)]})

    @router.put("/schedules/{name}", openapi_extra=body(SCHEDULE), responses=ANY)
    async def set_schedule(name: str, request: Request) -> Response:
        """Make a schedule, or put another in its place."""
        words = await read_object(request, services.settings.request_bytes_max)
        return JSONResponse({"schedule": show_schedule(await services.do(SetSchedule(name, words, USER)))})

    @router.post("/schedules/{name}/pause", openapi_extra=PAUSE, responses=ANY)
    async def pause(name: str, request: Request) -> Response:
        """Pause a schedule, or let it go on. Moments that pass meanwhile are not made up for."""
        words = await read_object(request, services.settings.request_bytes_max)
        check_keys(words, {"paused": ""}, "request")
        paused = words.get("paused", True)
        if not isinstance(paused, bool):
            raise BadInput(f'paused: "{str(paused)[:80]}" is not true or false')
        return JSONResponse({"schedule": show_schedule(await services.do(PauseSchedule(name, paused, USER)))})

    @router.delete("/schedules/{name}", status_code=204)
    async def drop(name: str) -> Response:
        """Remove a schedule. Its jobs go on."""
        await services.do(DropSchedule(name, USER))
        return Response(status_code=204)

    return router
