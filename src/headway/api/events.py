"""The events: as a stream that can be resumed, and as pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse

from headway.api.documents import EVENTS, STREAM
from headway.api.services import Services
from headway.control.views import show_event
from headway.core.events import Event

PAGE = 1000
ALIVE_EVERY_S = 15.0
PAUSE_S = 0.01  # What happens within it travels together: a reader of a flood is not woken for every commit.
SEQ_MAX = 2**62


def message(event: Event) -> str:
    data = json.dumps(show_event(event), separators=(",", ":"))
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {data}\n\n"


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["events"])

    async def stream(after: int, job: str | None) -> AsyncIterator[str]:
        yield ": headway events\n\n"
        while not services.hub.closed:
            newest = services.hub.last_seq
            events = await run_in_threadpool(services.store.events, after, PAGE, job)
            if events:
                after = events[-1].seq
                yield "".join(map(message, events))
            elif job is not None:
                after = max(after, newest)
            if 0 < len(events) < PAGE:
                await asyncio.sleep(PAUSE_S)
            if len(events) < PAGE and not await services.hub.events_after(max(after, newest), ALIVE_EVERY_S):
                yield ": alive\n\n"

    @router.get("/events", responses=STREAM, response_class=StreamingResponse)
    async def events(
        after: Annotated[int, Query(ge=0, le=SEQ_MAX)] = 0,
        job: str | None = None,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> Response:
        """All events after a number, and then each as it happens. `Last-Event-ID` resumes where a stream broke off."""
        if last_event_id is not None and last_event_id.isdigit() and len(last_event_id) < 19:
            after = max(after, int(last_event_id))
        return StreamingResponse(
            stream(after, job), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    @router.get("/events/page", responses=EVENTS)
    def page(
        after: Annotated[int, Query(ge=0, le=SEQ_MAX)] = 0,
        limit: Annotated[int, Query(ge=1, le=PAGE)] = 100,
        job: str | None = None,
    ) -> Response:
        """Events after a number, oldest first."""
        found = services.store.events(after, limit, job)
        return JSONResponse({"events": [show_event(event) for event in found], "last": services.store.last_seq()})

    return router
