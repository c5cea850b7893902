"""Many jobs at once over HTTP, named by what they are: a preview, then the verb, a page of them with each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.content.bodies import number, read_object, truth
from headway.api.content.schemas import ANY, SELECTION
from headway.api.web.gate import Right, actor_of
from headway.api.web.services import Services
from headway.api.web.submit_rights import own_key
from headway.control.access.audit import recording
from headway.control.jobs.commands import ForgetJob, Retry, Stop
from headway.control.jobs.selected import AT_ONCE_MOST, VERBS, Each, Tag, narrowed
from headway.control.views import arrays as array_views
from headway.control.views import jobs as job_views
from headway.control.views import selection
from headway.control.views.leader_port import Asked
from headway.core.errors import BadInput, NotFound
from headway.core.fields import check_keys
from headway.core.model import JobId
from headway.core.spec.job import read_tags
from headway.store.protocol import JobFilter, Store

SHOWN_MOST = 20
GRACE_S_MAX = 30 * 86400
KEYS = {"which": "", "before": "", "key": "", "grace_s": "", "drop_files": "", "tags": "", "force": ""}


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["jobs"])

    @router.post("/selection/{verb}/preview", openapi_extra=SELECTION, responses=ANY)
    async def preview(verb: str, request: Request) -> Response:
        """Which jobs a verb would concern: how many in each state, the newest of them, and up to which number."""
        body = await _body(services, request, verb)
        which = _which(services, request, body, verb)
        return JSONResponse(await run_in_threadpool(_previewed, services.store, which, services.now()))

    @router.post("/selection/{verb}", openapi_extra=SELECTION, responses=ANY)
    async def act(verb: str, request: Request) -> Response:
        """Do it to a page of them, the newest first, those submitted before a number; says where the next begins."""
        body = await _body(services, request, verb)
        which = _which(services, request, body, verb)
        make = _command(services, request, verb, body)
        before = number(body, "before", 0, 2**62)
        upto = None if before is None else int(before)
        page = await run_in_threadpool(services.store.page, which, upto, AT_ONCE_MOST)
        if (record := recording.get()) is not None:
            record.target = ", ".join(f"{word}={said}" for word, said in dict(body.get("which") or {}).items())
            record.project = page[0].spec.project if page else ""
        done = await services.do(Each(tuple(job.id for job in page), make)) if page else NOTHING
        return JSONResponse({**done, "next": page[-1].seq if len(page) == AT_ONCE_MOST else None})

    return router


NOTHING: dict[str, Any] = {"done": [], "refused": [], "refused_count": 0}


async def _body(services: Services, request: Request, verb: str) -> dict[str, Any]:
    if verb not in VERBS:
        raise NotFound(f'"{verb[:80]}" is nothing that can be done to many jobs', "one of " + ", ".join(VERBS))
    body = await read_object(request, services.settings.request_bytes_max)
    check_keys(body, KEYS, "request")
    return body


def _which(services: Services, request: Request, body: Mapping[str, Any], verb: str) -> JobFilter:
    """The selection, within the projects in which the caller may change something."""
    words = body.get("which")
    if not isinstance(words, Mapping) or not any(words.values()):
        raise BadInput("which: a selection that says nothing would be all jobs", "name a state, a name, a tag, …")
    actor = actor_of(request)
    projects = actor.projects
    if projects is not None:
        projects = frozenset(project for project in projects if actor.may(Right.CHANGE, project))
    which = selection.read(words, services.now(), projects)
    return narrowed(which, verb)


def _previewed(store: Store, which: JobFilter, now: float) -> dict[str, Any]:
    states = store.counts(which)
    rows, _ = array_views.page_of_rows(store, which, None, SHOWN_MOST)
    shown = [row if isinstance(row, dict) else job_views.summary(row, "", now) for row in rows]
    newest = max((row["seq"] for row in shown), default=0)
    return {"count": sum(states.values()), "states": states, "jobs": shown, "before": newest + 1}


def _command(services: Services, request: Request, verb: str, body: dict[str, Any]) -> Callable[[JobId], Asked]:
    by = actor_of(request).name
    if verb == "stop":
        grace_s, drop_files = number(body, "grace_s", 0, GRACE_S_MAX), truth(body, "drop_files")
        return lambda job: Stop(job, by, grace_s, drop_files)
    if verb == "rm":
        return lambda job: ForgetJob(job, by)
    if verb == "tag":
        changes = _tags(body.get("tags"))
        return lambda job: Tag(job, changes)
    key = body.get("key") or ""
    if not isinstance(key, str) or len(key) > 200:
        raise BadInput("key: expected a text of at most 200 characters")
    return lambda job: Retry(job, by, services.new_id, own_key(request, f"{key}/{job}") if key else "")


def _tags(raw: object) -> dict[str, str | None]:
    if not isinstance(raw, Mapping) or not raw:
        raise BadInput("tags: expected names and values; null takes one away")
    given = {str(key): value for key, value in raw.items()}
    read_tags({key: "" if value is None else value for key, value in given.items()})
    return {key: None if value is None else str(value) for key, value in given.items()}
