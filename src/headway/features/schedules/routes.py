"""Schedules over HTTP: jobs that are submitted again and again, as a cron expression says."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from headway.api.content.bodies import read_object
from headway.api.content.schemas import ANY, SPEC, answers, body
from headway.api.web.feature_routes import FeatureRoutes
from headway.api.web.gate import actor_of, check
from headway.api.web.services import Services
from headway.api.web.submit_rights import Admission
from headway.core.access.actor import Right
from headway.core.errors import BadInput, Conflict, NotFound
from headway.core.fields import check_keys
from headway.core.spec.words import TEXT, array, obj
from headway.features.schedules.commands import DropSchedule, PauseSchedule, SetSchedule
from headway.features.schedules.rules import KEYS, OVERLAPS, Schedule, show_schedule
from headway.features.schedules.tables import SCHEDULES

SHAPE = obj(
    ("cron", "job"),
    cron={**TEXT, "description": KEYS["cron"]},
    zone={**TEXT, "description": KEYS["zone"]},
    overlap={"enum": list(OVERLAPS), "description": KEYS["overlap"]},
    paused={"type": "boolean"},
    job=SPEC,
)
PAUSE = body(obj(paused={"type": "boolean"}))
LIST = answers(200, obj(schedules=array({"type": "object"})), "the schedules")


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["schedules"])

    def find(name: str) -> Schedule | None:
        return services.control.snapshot.held(SCHEDULES).get((name,))

    def own(request: Request, name: str) -> None:
        known = find(name)
        if known is None or not actor_of(request).sees(known.spec.project):
            raise NotFound(f'no schedule "{name[:80]}"', "headway schedule ls")
        check(request, known.spec.project)

    @router.get("/schedules", responses=LIST)
    async def schedules(request: Request) -> Response:
        """All schedules, with when each is due next."""
        known, sees = services.control.snapshot.held(SCHEDULES), actor_of(request).sees
        return JSONResponse(
            {"schedules": [show_schedule(each) for _, each in sorted(known.items()) if sees(each.spec.project)]}
        )

    @router.put("/schedules/{name}", openapi_extra=body(SHAPE), responses=ANY)
    async def set_schedule(name: str, request: Request) -> Response:
        """Make a schedule, or put another in its place."""
        words = await read_object(request, services.settings.request_bytes_max)
        known = find(name)
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


ROUTES = FeatureRoutes(
    routes,
    {
        ("GET", "/api/v1/schedules"): Right.KNOWN,
        ("PUT", "/api/v1/schedules/{name}"): Right.CHANGE,
        ("POST", "/api/v1/schedules/{name}/pause"): Right.CHANGE,
        ("DELETE", "/api/v1/schedules/{name}"): Right.CHANGE,
    },
)
