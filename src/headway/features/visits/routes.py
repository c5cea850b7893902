"""Visits over HTTP: two streams from the visitor and two from the agent, joined here without looking at their bytes.

Each side has one request that brings and one that takes. Whoever goes away ends the other's streams.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from fastapi import APIRouter, Request
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response, StreamingResponse

from headway.api.content.bodies import read_object
from headway.api.content.schemas import ANY, RAW, body
from headway.api.web.feature_routes import FeatureRoutes
from headway.api.web.gate import actor_of, find_job
from headway.api.web.services import Services
from headway.control.access.audit import recording
from headway.core.access.actor import Right
from headway.core.errors import NotFound
from headway.core.fields import check_keys
from headway.features.visits.commands import OpenVisit, read_ask, shown
from headway.features.visits.doors import ASKED_S_MAX, PendingVisits
from headway_wire import frames

HELD_BYTES_MAX = 1 << 20
VISITS_MAX = 1000
KEYS = ("kind", "command", "rank", "port", "tty", "term", "rows", "columns")
MEDIA = "application/octet-stream"


class Gone(Exception):
    """Nobody takes the bytes any more."""


class Pipe:
    """Bytes on their way from one request to another; a slow reader holds up the writer."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._ended = self._closed = False
        self._changed = asyncio.Condition()

    async def put(self, piece: bytes) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._size < HELD_BYTES_MAX or self._closed)
            if self._closed:
                raise Gone
            self._pieces.append(piece)
            self._size += len(piece)
            self._changed.notify_all()

    async def get(self) -> bytes:
        """All that has come; nothing when nothing more will."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._pieces) or self._ended or self._closed)
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._size = 0
            self._changed.notify_all()
            return data

    async def end(self) -> None:
        async with self._changed:
            self._ended = True
            self._changed.notify_all()

    async def close(self) -> None:
        async with self._changed:
            self._closed = True
            self._changed.notify_all()


@dataclass
class VisitStreams:
    id: str
    node: str
    user: str
    begun_at: float
    to_node: Pipe = field(default_factory=Pipe)
    to_visitor: Pipe = field(default_factory=Pipe)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    taken: bool = False  # The visitor listens.

    async def hang_up(self) -> None:
        for pipe in (self.to_node, self.to_visitor):
            await pipe.end()
            await pipe.close()


class Board:
    """All visits of this server."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.visits: dict[str, VisitStreams] = {}

    def make_room(self) -> None:
        """Forget visits that were asked for and never begun."""
        late = self.services.mono() - 2 * ASKED_S_MAX
        for visit in [each for each in self.visits.values() if not each.taken and each.begun_at < late]:
            del self.visits[visit.id]

    def get(self, visit: str, request: Request) -> VisitStreams:
        """The visit, for the two who take part in it: whoever asked for it, and the node that is visited."""
        found, actor = self.visits.get(visit), actor_of(request)
        part = found and (found.node in ("", actor.node) if actor.kind == "agent" else actor.name == found.user)
        if found is None or not (part or actor.kind == "house"):
            raise NotFound("this visit is over, or never was")
        return found

    async def bring(self, request: Request, pipe: Pipe) -> Response:
        """Take a request's body, as it comes, into a pipe."""
        try:
            async for piece in request.stream():
                if piece:
                    await pipe.put(piece)
        except (ClientDisconnect, Gone):
            pass
        finally:
            await pipe.end()
        return Response(status_code=204)

    async def out(self, visit: VisitStreams) -> AsyncIterator[bytes]:
        """What the visitor hears: the node's words, or that it did not come."""
        try:
            try:
                await asyncio.wait_for(visit.answered.wait(), ASKED_S_MAX)
            except TimeoutError:
                yield _trouble(f"node {visit.node} did not answer within {ASKED_S_MAX:g} s")
                return
            while data := await visit.to_visitor.get():
                yield data
        finally:
            self.visits.pop(visit.id, None)
            await visit.hang_up()

    async def to_node(self, visit: VisitStreams) -> AsyncIterator[bytes]:
        try:
            while data := await visit.to_node.get():
                yield data
        finally:
            await visit.to_node.close()


def _trouble(sentence: str) -> bytes:
    return frames.frame(frames.TROUBLE, sentence.encode())


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["visits"])
    board = Board(services)
    _for_visitors(router, services, board)
    _for_agents(router, services, board)
    return router


def _for_visitors(router: APIRouter, services: Services, board: Board) -> None:
    @router.post("/api/v1/jobs/{ref}/visits", status_code=201, openapi_extra=body({"type": "object"}), responses=ANY)
    async def visit(ref: str, request: Request) -> Response:
        """Ask for a command, a shell or a port where a job runs; then open both streams of the visit."""
        job = await find_job(services, request, ref)
        words = await read_object(request, services.settings.request_bytes_max)
        check_keys(words, dict.fromkeys(KEYS, ""), "request")
        ask = read_ask(words)
        if (record := recording.get()) is not None:
            record.detail = shown(ask)
        board.make_room()
        name = secrets.token_urlsafe(16)
        actor = actor_of(request)
        made = board.visits[name] = VisitStreams(
            name, "", actor.name, services.mono()
        )  # First: the agent may be at once there.
        try:
            made.node = await services.do(OpenVisit(job.id, name, ask, actor.name))
        except BaseException:
            del board.visits[name]
            raise
        return JSONResponse({"visit": {"id": name, "job": job.id, "node": made.node}}, 201)

    @router.get("/api/v1/visits/{visit}/out", responses=RAW)
    async def out(visit: str, request: Request) -> Response:
        """What comes from the node, as frames."""
        found = board.get(visit, request)
        found.taken = True
        return StreamingResponse(board.out(found), media_type=MEDIA)

    @router.post("/api/v1/visits/{visit}/in", status_code=204)
    async def bring(visit: str, request: Request) -> Response:
        """What goes to the node, as frames."""
        return await board.bring(request, board.get(visit, request).to_node)


def _for_agents(router: APIRouter, services: Services, board: Board) -> None:
    def came(visit: str, request: Request) -> VisitStreams:
        found = board.get(visit, request)
        services.control.run(lambda cycle: PendingVisits.of(cycle.book).answered(found.id))
        found.answered.set()
        return found

    @router.get("/agent/visits/{visit}/in", responses=RAW)
    async def to_node(visit: str, request: Request) -> Response:
        """What the visitor sends, for the agent."""
        return StreamingResponse(board.to_node(came(visit, request)), media_type=MEDIA)

    @router.post("/agent/visits/{visit}/out", status_code=204)
    async def from_node(visit: str, request: Request) -> Response:
        """What the agent sends, for the visitor."""
        return await board.bring(request, came(visit, request).to_visitor)


ROUTES = FeatureRoutes(
    routes,
    {
        ("POST", "/api/v1/jobs/{ref}/visits"): Right.CHANGE,
        ("GET", "/api/v1/visits/{visit}/out"): Right.CHANGE,
        ("POST", "/api/v1/visits/{visit}/in"): Right.CHANGE,
        ("GET", "/agent/visits/{visit}/in"): Right.AGENT,
        ("POST", "/agent/visits/{visit}/out"): Right.AGENT,
    },
    unrecorded=frozenset({("POST", "/api/v1/visits/{visit}/in")}),
)
