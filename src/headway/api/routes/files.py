"""Progress over HTTP: checkpoints, artifacts, making room; and jobs that come from other jobs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.content.bodies import number, read_object
from headway.api.content.schemas import (
    ANY,
    ARTIFACTS,
    CHECKPOINT_FILES,
    CHECKPOINTS,
    DIFFERENCE,
    FORK,
    MADE,
    PIN,
    RAW,
    RERUN,
    STOP,
)
from headway.api.content.transfers import ranged
from headway.api.web.gate import actor_of, find_job
from headway.api.web.services import Services
from headway.api.web.submit_rights import Admission, own_key
from headway.control.jobs.commands import Submit, digest_of
from headway.control.jobs.derive import Pin, Preempt, forked, repeated
from headway.control.views import files as shown
from headway.control.views import jobs as job_views
from headway.control.views.diff import difference
from headway.core.errors import BadInput
from headway.core.fields import check_keys, whole
from headway.core.model import Job
from headway.core.spec.job import JobSpec

STEP_MAX = 2**62
Step = Annotated[int, Query(ge=0, le=STEP_MAX)]


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["progress"])
    for add in (_checkpoints, _artifacts, _repeats):
        add(router, services)
    return router


async def _body(services: Services, request: Request, *keys: str) -> dict[str, Any]:
    body = await read_object(request, services.settings.request_bytes_max)
    check_keys(body, dict.fromkeys(keys, ""), "request")
    return body


def _checkpoints(router: APIRouter, services: Services) -> None:
    store, storage = services.store, services.storage

    @router.get("/jobs/{ref}/checkpoints", responses=CHECKPOINTS)
    async def checkpoints(ref: str, request: Request) -> Response:
        """What a job has kept of its progress; the best to resume from first."""
        job = await find_job(services, request, ref)
        return JSONResponse({"checkpoints": await run_in_threadpool(shown.show_checkpoints, store, job)})

    @router.post("/jobs/{ref}/checkpoints/{step}/pin", openapi_extra=PIN, responses=ANY)
    async def pin(ref: str, step: int, request: Request) -> Response:
        """Keep a checkpoint whatever the retention says, or no longer."""
        pinned = (await _body(services, request, "pinned")).get("pinned", True)
        if not isinstance(pinned, bool):
            raise BadInput(f'pinned: "{str(pinned)[:40]}" is neither true nor false')
        job = await find_job(services, request, ref)
        await services.do(Pin(job.id, whole(step, "step", 0, STEP_MAX), pinned))
        return JSONResponse({"job": job.id, "step": step, "pinned": pinned})

    @router.get("/jobs/{ref}/checkpoints/{step}/files", responses=CHECKPOINT_FILES)
    async def files(ref: str, step: int, request: Request, parts: bool = False) -> Response:
        """What a checkpoint consists of: the first files of each task; with `parts` all, with the hash of each part."""
        job = await find_job(services, request, ref)
        found = await run_in_threadpool(shown.show_checkpoint_files, store, storage, job, step, parts)
        return JSONResponse({"files": found})

    @router.get("/jobs/{ref}/checkpoints/{step}/raw", responses=RAW)
    async def file(ref: str, step: int, request: Request, path: str, task: Step = 0) -> Response:
        """One file of a checkpoint."""
        job = await find_job(services, request, ref)
        found = await run_in_threadpool(shown.find_checkpoint_file, store, storage, job, step, task, path)
        return ranged(request, found.size, found.read, path)

    @router.post("/jobs/{ref}/preempt", openapi_extra=STOP, responses=MADE)
    async def preempt(ref: str, request: Request) -> Response:
        """Let a running job make room: it is told, saves within its grace, and goes on from there later."""
        grace_s = number(await _body(services, request, "grace_s"), "grace_s", 0, 30 * 86400)
        job = await services.do(Preempt((await find_job(services, request, ref)).id, actor_of(request).name, grace_s))
        return JSONResponse({"job": job_views.summary(job, now=services.now())})


def _artifacts(router: APIRouter, services: Services) -> None:
    store, storage = services.store, services.storage

    @router.get("/jobs/{ref}/artifacts", responses=ARTIFACTS)
    async def artifacts(
        ref: str, request: Request, attempt: Annotated[int | None, Query(ge=1, le=10**6)] = None
    ) -> Response:
        """The files that a job keeps."""
        found = await run_in_threadpool(store.artifacts, (await find_job(services, request, ref)).id, attempt)
        return JSONResponse({"artifacts": [shown.show_artifact(each) for each in found]})

    @router.get("/jobs/{ref}/artifacts/raw", responses=RAW)
    async def file(
        ref: str,
        request: Request,
        path: str,
        attempt: Annotated[int | None, Query(ge=1, le=10**6)] = None,
        task: Annotated[int | None, Query(ge=0, le=10**6)] = None,
    ) -> Response:
        """The bytes of one file, whole or a range of them; of the newest attempt that has it, unless one is named."""
        job = await find_job(services, request, ref)
        found, bytes_ = await run_in_threadpool(shown.find_artifact, store, storage, job, path, attempt, task)
        return ranged(request, found.size, bytes_.read, path)


def _repeats(router: APIRouter, services: Services) -> None:
    desk = Admission(services)

    async def submit(request: Request, spec: JobSpec, of: Job, key: object, about: object) -> Response:
        if not isinstance(key, str) or len(key) > 200:
            raise BadInput("key: expected a text of at most 200 characters")
        user, key = actor_of(request).name, own_key(request, key)
        command = Submit((spec,), user, services.new_id, key, digest_of(about) if key else "", like=of.id)
        ids = await services.do(command)
        job = services.control.snapshot.jobs.get(ids[0]) or await find_job(services, request, ids[0])
        return JSONResponse({"job": job_views.summary(job, now=services.now())}, 201)

    async def asked(ref: str, request: Request, *more: str) -> tuple[Job, dict[str, Any], dict[str, Any]]:
        body = await _body(services, request, "set", "changes", "key", *more)
        of = await find_job(services, request, ref)
        for word in ("set", "changes"):
            if body.get(word) is not None and not isinstance(body[word], dict):
                raise BadInput(f"{word}: expected names and values")
        return of, body, await desk.change(request, body.get("changes") or {})

    @router.post("/jobs/{ref}/fork", status_code=201, openapi_extra=FORK, responses=MADE)
    async def fork(ref: str, request: Request) -> Response:
        """A new job that begins from a checkpoint of this one, with other parameters, and with changes."""
        of, body, changes = await asked(ref, request, "step")
        step = None if body.get("step") is None else whole(body["step"], "step", 0, STEP_MAX)
        spec = await desk.again(request, forked(of, step, body.get("set") or {}, changes), changes)
        about = ["fork", of.id, body.get("step"), body.get("set"), *([changes] if changes else [])]
        return await submit(request, spec, of, body.get("key") or "", about)

    @router.post("/jobs/{ref}/rerun", status_code=201, openapi_extra=RERUN, responses=MADE)
    async def rerun(ref: str, request: Request) -> Response:
        """The same job anew: the same bundle, environment, inputs, parameters and seed, but for changes."""
        of, body, changes = await asked(ref, request)
        values = body.get("set") or {}
        spec = await desk.again(request, repeated(of, values, changes), changes)
        about = ["rerun", of.id, *([values, changes] if values or changes else [])]
        return await submit(request, spec, of, body.get("key") or "", about)

    @router.get("/jobs/{one}/diff/{other}", responses=DIFFERENCE)
    async def diff(one: str, other: str, request: Request) -> Response:
        """What sets two jobs apart: code, environment, parameters, description, hardware, results, course."""
        left, right = await find_job(services, request, one), await find_job(services, request, other)
        found = await run_in_threadpool(difference, services.store, services.storage, left, right)
        return JSONResponse(found)
