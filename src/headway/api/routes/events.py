"""The events: as a stream that can be resumed, and as pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse

from headway.api.content.schemas import answers, event_schema
from headway.api.web.gate import Actor, actor_of, given_token
from headway.api.web.services import Services
from headway.control.views.jobs import show_event
from headway.core.job.events import KINDS, Event
from headway.core.spec.pool import without_ways
from headway.core.spec.words import WHOLE, array, obj

PAGE = 1000
ALIVE_EVERY_S = 15.0
PAUSE_S = 0.02  # What happens within it travels together: a reader of a flood is not woken for every commit.
SEQ_MAX = 2**62
REMEMBERED_MOST = 100_000
FOR_ADMINS = frozenset({"LeaderChanged", "DatabaseBack", "StorageChanged"})  # They say where things are.


def message(event: Event) -> str:
    data = json.dumps(show_event(event), separators=(",", ":"))
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {data}\n\n"


def _for_members(event: Event) -> Event:
    return replace(event, data=without_ways(event.data)) if event.kind == "PoolChanged" else event


class Witness:
    """Who may be told of which event: who sees the project of its job; of nodes, pools and queues, who is in any."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._projects: dict[str, str] = {}  # Of jobs, as far as they were asked for.

    def seen_by(self, actor: Actor, events: list[Event]) -> list[Event]:
        if actor.admin:
            return events
        for event in events:
            if event.kind == "JobChanged" and "project" in event.data:
                self._projects.pop(event.job, None)  # It may be another project's now.
        asked = {event.job for event in events if event.job} - self._projects.keys()
        if len(self._projects) > REMEMBERED_MOST:
            self._projects.clear()
            asked = {event.job for event in events if event.job}
        self._projects.update({job.id: job.spec.project for job in self._services.store.jobs(sorted(asked))})
        # Of a job that is gone nobody can say any more whose it was.
        return [_for_members(each) for each in events if self._told(actor, each)]

    def _told(self, actor: Actor, event: Event) -> bool:
        project = self._project(event)
        return actor.sees(project) if project is not None else actor.belongs and event.kind not in FOR_ADMINS

    def _project(self, event: Event) -> str | None:
        """Whose an event is; None for what concerns everybody: nodes, queues, pools."""
        if event.job:
            return self._projects.get(event.job, "")
        said = event.data.get("project")
        return "" if event.kind in self._services.features.events and not said else said

    def page(self, actor: Actor, after: int, limit: int, job: str | None) -> list[Event]:
        found: list[Event] = []
        while len(found) < limit:
            more = self._services.store.events(after, PAGE if not actor.admin else limit, job)
            found += self.seen_by(actor, more)
            if actor.admin or len(more) < PAGE:
                break
            after = more[-1].seq
        return found[:limit]

    async def still(self, request: Request) -> bool:
        """Whether the caller's token is still good: a stream may be longer than a membership."""
        actor = actor_of(request)
        if actor.kind not in ("user", "service"):
            return True
        return await self._services.badges.look(f"Bearer {given_token(request)}".encode("latin-1")) == actor


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["events"])

    witness = Witness(services)
    shown = event_schema({**KINDS, **services.features.events})
    shown_page = answers(200, obj(events=array(shown), last=WHOLE), "events, oldest first")
    shown_stream = answers(200, shown, "one message per event: `id` its number, `event` its kind", "text/event-stream")

    async def stream(request: Request, after: int, job: str | None) -> AsyncIterator[str]:
        actor = actor_of(request)
        yield ": headway events\n\n"
        while not services.hub.closed and await witness.still(request):
            newest = services.hub.last_seq
            events = await run_in_threadpool(services.store.events, after, PAGE, job)
            if events:
                after = events[-1].seq
                seen = events if actor.admin else await run_in_threadpool(witness.seen_by, actor, events)
                yield "".join(map(message, seen))
            elif job is not None:
                after = max(after, newest)
            if 0 < len(events) < PAGE:
                await asyncio.sleep(PAUSE_S)
            if len(events) < PAGE and not await services.hub.events_after(max(after, newest), ALIVE_EVERY_S):
                yield ": alive\n\n"

    @router.get("/events", responses=shown_stream, response_class=StreamingResponse)
    async def events(
        request: Request,
        after: Annotated[int, Query(ge=0, le=SEQ_MAX)] = 0,
        job: str | None = None,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> Response:
        """All events after a number, and then each as it happens. `Last-Event-ID` resumes where a stream broke off."""
        if last_event_id is not None and last_event_id.isdigit() and len(last_event_id) < 19:
            after = max(after, int(last_event_id))
        return StreamingResponse(
            stream(request, after, job), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    @router.get("/events/page", responses=shown_page)
    def page(
        request: Request,
        after: Annotated[int, Query(ge=0, le=SEQ_MAX)] = 0,
        limit: Annotated[int, Query(ge=1, le=PAGE)] = 100,
        job: str | None = None,
    ) -> Response:
        """Events after a number, oldest first."""
        found = witness.page(actor_of(request), after, limit, job)
        return JSONResponse({"events": [show_event(event) for event in found], "last": services.store.last_seq()})

    return router
