"""Waiting jobs over HTTP: changed, held, released; and whole arrays, which are asked the same things at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.content.bodies import number, read_object, truth
from headway.api.content.schemas import ANY, ARRAYS, CHANGE, MADE, PLAN, STOP
from headway.api.web.gate import actor_of, check
from headway.api.web.job_lookup import Look
from headway.api.web.services import Services
from headway.api.web.submit_rights import Admission
from headway.control.jobs.change import ChangeJob, EachOf
from headway.control.jobs.commands import Stop
from headway.control.jobs.plan_query import PlanJob, PlanQueue
from headway.control.views import cluster as cluster_views
from headway.control.views.leader_port import Asked
from headway.core.errors import NotFound
from headway.core.fields import check_keys
from headway.core.model import JobId
from headway.core.spec.job import read_spec
from headway.store.protocol import JobFilter

GRACE_S_MAX = 30 * 86400
HOLD, RELEASE = {"hold": True}, {"hold": False}


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["jobs"])
    _jobs(router, services, Look(services))
    _arrays(router, services)
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


def _arrays(router: APIRouter, services: Services) -> None:
    async def shown(request: Request, array: str) -> dict[str, Any]:
        which = JobFilter(array=array, projects=actor_of(request).projects)
        newest = await run_in_threadpool(services.store.page, which, None, 1) if array else []
        found = await run_in_threadpool(cluster_views.array, services.store, array) if newest else None
        if found is None:
            raise NotFound(f'no array "{array[:80]}"', "headway ps lists its jobs")
        check(request, newest[0].spec.project)
        return found

    async def each(request: Request, array: str, make: Callable[[JobId], Asked]) -> Response:
        await shown(request, array)
        changed = await services.do(EachOf(array, make))
        return JSONResponse({"array": await shown(request, array), "changed": changed})

    @router.get("/arrays/{array}", responses=ARRAYS)
    async def show(array: str, request: Request) -> Response:
        """How many jobs of an array are in which state."""
        return JSONResponse(await shown(request, array))

    @router.patch("/arrays/{array}", openapi_extra=CHANGE, responses=ANY)
    async def set_array(array: str, request: Request) -> Response:
        """Change all jobs of an array that wait."""
        said = await read_object(request, services.settings.request_bytes_max)
        await shown(request, array)
        words = await Admission(services).change(request, said)
        return await each(request, array, lambda job: ChangeJob(job, words))

    @router.post("/arrays/{array}/stop", openapi_extra=STOP, responses=ANY)
    async def stop(array: str, request: Request) -> Response:
        """Ask all jobs of an array to end."""
        words = await read_object(request, services.settings.request_bytes_max)
        check_keys(words, {"grace_s": "", "drop_files": ""}, "request")
        grace_s, drop_files = number(words, "grace_s", 0, GRACE_S_MAX), truth(words, "drop_files")
        return await each(request, array, lambda job: Stop(job, actor_of(request).name, grace_s, drop_files))

    @router.post("/arrays/{array}/hold", responses=ANY)
    async def hold(array: str, request: Request) -> Response:
        """Let all jobs of an array that wait, wait until they are released."""
        return await each(request, array, lambda job: ChangeJob(job, HOLD))

    @router.post("/arrays/{array}/release", responses=ANY)
    async def release(array: str, request: Request) -> Response:
        """Release all held jobs of an array."""
        return await each(request, array, lambda job: ChangeJob(job, RELEASE))
