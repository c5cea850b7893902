"""Whole arrays over HTTP: shown, explained, and asked the same things at once; by id, its beginning, or name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.content.bodies import number, read_object, truth
from headway.api.content.schemas import ANY, ARRAYS, CHANGE, STOP, WHY
from headway.api.web.gate import actor_of, check
from headway.api.web.services import Services
from headway.api.web.submit_rights import Admission
from headway.control.access.audit import recording
from headway.control.jobs.change import ChangeJob, EachOf
from headway.control.jobs.commands import Stop, WhyMany
from headway.control.views import arrays as array_views
from headway.control.views.leader_port import Asked
from headway.core.errors import NotFound
from headway.core.fields import check_keys
from headway.core.model import JobId
from headway.store.protocol import JobFilter

GRACE_S_MAX = 30 * 86400
HOLD, RELEASE = {"hold": True}, {"hold": False}


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["jobs"])
    _looking(router, services)
    _changing(router, services)
    return router


async def found(services: Services, request: Request, ref: str) -> str:
    """The id of an array that the caller may see, and on which they have the route's right."""
    projects = actor_of(request).projects
    id = await run_in_threadpool(array_views.find_array, services.store, ref, projects)
    if id is None:
        raise NotFound(f'no array "{ref[:80]}"', "headway ps lists arrays and jobs")
    if (record := recording.get()) is not None:
        record.target = id
    (newest,) = await run_in_threadpool(services.store.page, JobFilter(array=id, projects=projects), None, 1)
    check(request, newest.spec.project)
    return id


def _looking(router: APIRouter, services: Services) -> None:
    @router.get("/arrays/{array}", responses=ARRAYS)
    async def show(array: str, request: Request) -> Response:
        """All about an array: how many of its jobs are in which state, and the first that failed, run and wait."""
        id = await found(services, request, array)
        return JSONResponse(await run_in_threadpool(array_views.describe_array, services.store, id, services.now()))

    @router.get("/arrays/{array}/counts", responses=ARRAYS)
    async def counts(array: str, request: Request) -> Response:
        """How many jobs of an array are in which state."""
        id = await found(services, request, array)
        return JSONResponse(await run_in_threadpool(array_views.show_array, services.store, id))

    @router.get("/arrays/{array}/why", responses=WHY)
    async def why(array: str, request: Request) -> Response:
        """Why the array is where it is."""
        id = await found(services, request, array)
        waiting = JobFilter(array=id, states=frozenset({"queued"}))
        first = [job.id for job in await run_in_threadpool(services.store.page, waiting, None, 1)]
        said = await services.do(WhyMany(tuple(first))) if first else {}
        waits = next(iter(said.values()), "")
        return JSONResponse(await run_in_threadpool(array_views.why_array, services.store, id, waits))


def _changing(router: APIRouter, services: Services) -> None:
    async def each(request: Request, array: str, make: Callable[[JobId], Asked]) -> Response:
        id = await found(services, request, array)
        changed = await services.do(EachOf(id, make))
        shown: Any = await run_in_threadpool(array_views.show_array, services.store, id)
        return JSONResponse({"array": shown, "changed": changed})

    @router.patch("/arrays/{array}", openapi_extra=CHANGE, responses=ANY)
    async def set_array(array: str, request: Request) -> Response:
        """Change all jobs of an array that wait."""
        said = await read_object(request, services.settings.request_bytes_max)
        await found(services, request, array)
        words = await Admission(services).change(request, said)
        return await each(request, array, lambda job: ChangeJob(job, words))

    @router.post("/arrays/{array}/stop", openapi_extra=STOP, responses=ANY)
    async def stop(array: str, request: Request) -> Response:
        """Ask all jobs of an array to end."""
        body = await read_object(request, services.settings.request_bytes_max)
        check_keys(body, {"grace_s": "", "drop_files": ""}, "request")
        grace_s, drop_files = number(body, "grace_s", 0, GRACE_S_MAX), truth(body, "drop_files")
        return await each(request, array, lambda job: Stop(job, actor_of(request).name, grace_s, drop_files))

    @router.post("/arrays/{array}/hold", responses=ANY)
    async def hold(array: str, request: Request) -> Response:
        """Let all jobs of an array that wait, wait until they are released."""
        return await each(request, array, lambda job: ChangeJob(job, HOLD))

    @router.post("/arrays/{array}/release", responses=ANY)
    async def release(array: str, request: Request) -> Response:
        """Release all held jobs of an array."""
        return await each(request, array, lambda job: ChangeJob(job, RELEASE))
