"""Waiting jobs over HTTP: changed, held, released, and when they will start. Whole arrays are in arrays.py."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from headway.api.content.bodies import read_object
from headway.api.content.schemas import ANY, CHANGE, MADE, PLAN
from headway.api.web.gate import actor_of
from headway.api.web.job_lookup import Look
from headway.api.web.services import Services
from headway.api.web.submit_rights import Admission
from headway.control.jobs.change import ChangeJob
from headway.control.jobs.plan_query import PlanJob, PlanQueue
from headway.core.fields import check_keys
from headway.core.spec.job import read_spec

HOLD, RELEASE = {"hold": True}, {"hold": False}


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["jobs"])
    _jobs(router, services, Look(services))
    _plans(router, services)
    return router


def _plans(router: APIRouter, services: Services) -> None:
    admission = Admission(services)

    @router.post("/plan", openapi_extra=PLAN, responses=ANY)
    async def plan_job(request: Request) -> Response:
        """When a job would start if it were submitted now."""
        words = await read_object(request, services.settings.request_bytes_max)
        check_keys(words, {"job": ""}, "request")
        raw = words.get("job") or {}
        (spec,) = await admission.admit(request, (read_spec(raw),), [raw])
        return JSONResponse(await services.do(PlanJob(spec, actor_of(request).name)))

    @router.get("/plan", responses=ANY)
    async def plan_queue(request: Request, limit: Annotated[int, Query(ge=1, le=500)] = 100) -> Response:
        """When the first of those that wait will start, in their order."""
        plan = await services.do(PlanQueue(limit))
        projects = actor_of(request).projects
        if projects is not None:
            known = services.control.snapshot.jobs
            seen = [each for each in plan["jobs"] if (job := known.get(each["id"])) and job.spec.project in projects]
            plan = {**plan, "jobs": seen}
        return JSONResponse(plan)


def _jobs(router: APIRouter, services: Services, look: Look) -> None:
    async def change(request: Request, ref: str, words: dict[str, Any]) -> Response:
        found = await look.find(request, ref)
        job = await services.do(ChangeJob(found.id, await Admission(services).change(request, words)))
        return JSONResponse({"job": await look.shown(job)})

    @router.patch("/jobs/{ref}", openapi_extra=CHANGE, responses=MADE)
    async def set_job(ref: str, request: Request) -> Response:
        """Change a job that waits: its priority, queue, limits. Null takes a word away."""
        return await change(request, ref, await read_object(request, services.settings.request_bytes_max))

    @router.post("/jobs/{ref}/hold", responses=MADE)
    async def hold(ref: str, request: Request) -> Response:
        """Let a waiting job wait until it is released."""
        return await change(request, ref, HOLD)

    @router.post("/jobs/{ref}/release", responses=MADE)
    async def release(ref: str, request: Request) -> Response:
        """Release a held job."""
        return await change(request, ref, RELEASE)
