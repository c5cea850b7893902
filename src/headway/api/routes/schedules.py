"""Schedules over HTTP: jobs that are submitted again and again, as a cron expression says."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from headway.api.web.bodies import read_object
from headway.api.web.gate import actor_of, check
from headway.api.web.schemas import ANY, PAUSE, SCHEDULE, SCHEDULES, body
from headway.api.web.services import Services
from headway.api.web.submit_rights import Admission
from headway.control.jobs.schedules import DropSchedule, PauseSchedule, SetSchedule
from headway.core.errors import BadInput, Conflict, NotFound
from headway.core.fields import check_keys
from headway.core.spec.schedule import show_schedule


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["schedules"])

    def own(request: Request, name: str) -> None:
        known = services.control.cycle.book.house.schedules.get(name)
        if known is None or not actor_of(request).sees(known.spec.project):
            raise NotFound(f'no schedule "{name[:80]}"', "headway schedule ls")
        check(request, known.spec.project)

    @router.get("/schedules", responses=SCHEDULES)
    async def schedules(request: Request) -> Response:
        """All schedules, with when each is due next."""
        known, sees = services.control.cycle.book.house.schedules, actor_of(request).sees
        return JSONResponse(
            {"schedules": [show_schedule(each) for _, each in sorted(known.items()) if sees(each.spec.project)]}
        )

    @router.put("/schedules/{name}", openapi_extra=body(SCHEDULE), responses=ANY)
    async def set_schedule(name: str, request: Request) -> Response:
        """Make a schedule, or put another in its place."""
        words = await read_object(request, services.settings.request_bytes_max)
        known = services.control.cycle.book.house.schedules.get(name)
        if known is not None and not actor_of(request).sees(known.spec.project):
            raise Conflict(f'the name "{name}" is taken by a schedule of another project', "take another name")
        if known is not None:
            check(request, known.spec.project)
        words = await Admission(services).schedule(request, words)
        done = await services.do(SetSchedule(name, words, actor_of(request).name))
        return JSONResponse({"schedule": show_schedule(done)})

    @router.post("/schedules/{name}/pause", openapi_extra=PAUSE, responses=ANY)
    async def pause(name: str, request: Request) -> Response:
        """Pause a schedule, or let it go on. Moments that pass meanwhile are not made up for."""
        words = await read_object(request, services.settings.request_bytes_max)
        check_keys(words, {"paused": ""}, "request")
        paused = words.get("paused", True)
        if not isinstance(paused, bool):
            raise BadInput(f'paused: "{str(paused)[:80]}" is not true or false')
        own(request, name)
        done = await services.do(PauseSchedule(name, paused, actor_of(request).name))
        return JSONResponse({"schedule": show_schedule(done)})

    @router.delete("/schedules/{name}", status_code=204)
    async def drop(name: str, request: Request) -> Response:
        """Remove a schedule. Its jobs keep running."""
        own(request, name)
        await services.do(DropSchedule(name, actor_of(request).name))
        return Response(status_code=204)

    return router
