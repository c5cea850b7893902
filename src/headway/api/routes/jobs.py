"""Jobs over HTTP: submit, list, show, why, stop, retry, wait, remove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.content.bodies import number, read_object, truth
from headway.api.content.schemas import BATCH, BATCH_MADE, DETAIL, JOB, JOBS, MADE, RETRY, STOP, WAITED, WHY
from headway.api.web.gate import actor_of
from headway.api.web.job_lookup import Look
from headway.api.web.services import Services
from headway.api.web.submit_rights import Admission, own_key, submitter
from headway.control.jobs.commands import (
    ForgetJob,
    Retry,
    Stop,
    Submit,
    Why,
    WhyMany,
    check_count,
    check_elements,
    digest_of,
)
from headway.control.jobs.submit import element
from headway.control.views import jobs as job_views
from headway.control.views import selection
from headway.control.views.arrays import page_of_rows
from headway.core.errors import BadInput
from headway.core.model import State
from headway.core.spec.job import JobSpec, check_keys, read_spec
from headway.store.protocol import JobFilter, Store

WAIT_S_MAX = 60.0


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["jobs"])
    look = Look(services)
    _submitting(router, services, look)
    _looking(router, services, look)
    _waiting(router, services, look)
    _changing(router, services, look)
    return router


def _submitting(router: APIRouter, services: Services, look: Look) -> None:
    desk = Admission(services)

    @router.post("/jobs", status_code=201, openapi_extra=JOB, responses=MADE)
    async def submit(request: Request) -> Response:
        """Submit one job. With the same key, the same job is answered however often the request is repeated."""
        body = await read_object(request, services.settings.request_bytes_max)
        check_keys(body, {"job": "", "key": "", "force": "", "user": ""}, "request")
        raw = body.get("job")
        (spec,) = await desk.admit(request, (read_spec(raw if raw is not None else {}),), [raw])
        ids = await services.do(_submit(services, request, (spec,), body, [raw]))
        if spec.wishes.array:
            job = await look.find(request, element(ids[0], 0))
            made = {"id": ids[0], "name": spec.name, "count": spec.wishes.array, "states": {}}
            return JSONResponse({"job": job_views.summary(job, now=services.now()), "array": made}, 201)
        job = services.control.snapshot.jobs.get(ids[0]) or await look.find(request, ids[0])
        return JSONResponse({"job": job_views.summary(job, now=services.now())}, 201)

    @router.post("/jobs/batch", status_code=201, openapi_extra=BATCH, responses=BATCH_MADE)
    async def submit_batch(request: Request) -> Response:
        """Submit many jobs, all or none."""
        body = await read_object(request, services.settings.request_bytes_max)
        check_keys(body, {"jobs": "", "key": "", "force": "", "user": ""}, "request")
        raws = body.get("jobs")
        if not isinstance(raws, list):
            raise BadInput('"jobs" is not a list')
        check_count(raws, services.settings.submit_most)
        specs = _read_many(raws)
        check_elements(specs)
        specs = await desk.admit(request, specs, raws)
        ids = await services.do(_submit(services, request, specs, body, raws))
        return JSONResponse({"ids": ids}, 201)


def _looking(router: APIRouter, services: Services, look: Look) -> None:
    @router.get("/jobs", responses=JOBS)
    async def jobs(
        request: Request,
        state: str = "",
        project: str = "",
        user: str = "",
        queue: str = "",
        name: str = "",
        array: str = "",
        tag: Annotated[list[str], Query(max_length=selection.TAGS_MOST)] = [],  # noqa: B006
        older_than: str = "",
        grouped: bool = False,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
        before: Annotated[int | None, Query(ge=0, le=2**62)] = None,
    ) -> Response:
        """One page of jobs, newest first; grouped, each array is one row, with `states` of its jobs."""
        words = {"state": state, "project": project, "user": user, "queue": queue, "name": name, "array": array}
        words |= {"tag": tag, "older_than": older_than}  # type: ignore[dict-item]
        which = selection.read(words, services.now(), actor_of(request).projects)
        rows = page_of_rows if grouped else _plain_page
        page, following = await run_in_threadpool(rows, services.store, which, before, limit)
        jobs = [job for job in page if not isinstance(job, dict)]
        coming = tuple(job.id for job in jobs if job.state in (State.QUEUED, State.STARTING))
        why = await services.do(WhyMany(coming)) if coming and services.leading else {}
        now = services.now()
        shown = [job if isinstance(job, dict) else job_views.summary(job, why.get(job.id, ""), now) for job in page]
        return JSONResponse({"jobs": shown, "next": following})

    @router.get("/jobs/{ref}", responses=DETAIL)
    async def job(ref: str, request: Request) -> Response:
        """One job with all its attempts. `ref` is an id, the beginning of one, or a name."""
        return JSONResponse(await look.shown(await look.find(request, ref), complete=True))

    @router.get("/jobs/{ref}/why", responses=WHY)
    async def why(ref: str, request: Request) -> Response:
        """Why the job is where it is."""
        return JSONResponse(await services.do(Why((await look.find(request, ref)).id)))


def _changing(router: APIRouter, services: Services, look: Look) -> None:
    @router.post("/jobs/{ref}/stop", openapi_extra=STOP, responses=MADE)
    async def stop(ref: str, request: Request) -> Response:
        """Ask a job to end, with grace. One that has ended, and whose files are being saved, only with drop_files."""
        body = await read_object(request, services.settings.request_bytes_max)
        check_keys(body, {"grace_s": "", "drop_files": ""}, "request")
        grace_s, drop_files = number(body, "grace_s", 0, 30 * 86400), truth(body, "drop_files")
        found = await look.find(request, ref)
        job = await services.do(Stop(found.id, actor_of(request).name, grace_s, drop_files))
        return JSONResponse({"job": await look.shown(job)})

    @router.post("/jobs/{ref}/retry", openapi_extra=RETRY, responses=MADE)
    async def retry(ref: str, request: Request) -> Response:
        """Let a backing-off job go now; for an ended one, submit a new job. One key, one job."""
        body = await read_object(request, services.settings.request_bytes_max)
        check_keys(body, {"key": ""}, "request")
        made = await services.do(
            Retry((await look.find(request, ref)).id, actor_of(request).name, services.new_id, _key(body))
        )
        return JSONResponse({"job": await look.shown(await look.find(request, made))})

    @router.delete("/jobs/{ref}", status_code=204)
    async def remove(ref: str, request: Request) -> Response:
        """Delete the record of an ended job, its logs included."""
        await services.do(ForgetJob((await look.find(request, ref)).id, actor_of(request).name))
        return Response(status_code=204)


def _waiting(router: APIRouter, services: Services, look: Look) -> None:
    @router.get("/jobs/{ref}/wait", responses=WAITED)
    async def wait(
        ref: str, request: Request, timeout_s: Annotated[float, Query(ge=0, le=WAIT_S_MAX)] = 30.0
    ) -> Response:
        """Hold the answer until the job has ended, or the time is up."""
        job = await look.find(request, ref)
        deadline = services.mono() + timeout_s
        while not job.state.ended and (left_s := deadline - services.mono()) > 0 and not services.hub.closed:
            seq = services.hub.last_seq
            # Where the leader holds it, it has not ended; otherwise the store knows how.
            if not services.leading or job.id not in services.control.snapshot.jobs:
                job = await look.find(request, job.id)
            if not job.state.ended:
                await services.hub.events_after(seq, left_s)
        if not job.state.ended:
            job = await look.find(request, job.id)
        return JSONResponse({"job": await look.shown(job, complete=True), "ended": job.state.ended})


def _key(body: dict[str, Any]) -> str:
    """The idempotency key of a request; empty where it has none."""
    key = body.get("key") or ""
    if not isinstance(key, str) or len(key) > 200:
        raise BadInput("key: expected a text of at most 200 characters")
    return key


def _submit(
    services: Services, request: Request, specs: tuple[JobSpec, ...], body: dict[str, Any], raws: list[Any]
) -> Submit:
    key = _key(body)
    force = body.get("force", False)
    if not isinstance(force, bool):
        raise BadInput(f'force: "{str(force)[:80]}" is not true or false')
    user = submitter(request, body.get("user"))
    return Submit(specs, user, services.new_id, own_key(request, key), digest_of(raws) if key else "", force=force)


def _read_many(raws: list[Any]) -> tuple[JobSpec, ...]:
    """Read every spec; equal raw descriptions, as in a large batch, are read once."""
    seen: dict[str, JobSpec] = {}
    specs: list[JobSpec] = []
    for position, raw in enumerate(raws):
        key = repr(raw)
        spec = seen.get(key)
        if spec is None:
            try:
                spec = seen[key] = read_spec(raw)
            except BadInput as error:
                raise BadInput(f"job {position} of {len(raws)}: {error.message}", error.hint) from None
        specs.append(spec)
    return tuple(specs)


def _plain_page(store: Store, which: JobFilter, before: int | None, limit: int) -> tuple[Sequence[Any], int | None]:
    page = store.page(which, before, limit)
    return page, page[-1].seq if len(page) == limit else None
