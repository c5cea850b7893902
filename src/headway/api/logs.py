"""Output of ranks over HTTP: what there is, and the bytes themselves, by offset."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.access import find_job
from headway.api.documents import ANY, RAW
from headway.api.services import Services
from headway.control import views
from headway.core.errors import NotFound
from headway.core.model import Job
from headway.store.protocol import LogRange

LIMIT_BYTES = 4 * 2**20
WAIT_S_MAX = 60.0
LOOK_AGAIN_S = 5.0  # A held answer looks again now and then, and keeps its node shipping at once.
FOLLOWED_S = 15.0  # How long a node goes on shipping at once after the last question.


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a file, from `start` on; `skipped` were left out before them by the log's size limit."""

    data: bytes
    start: int
    skipped: int

    @property
    def next(self) -> int:
        return self.start + len(self.data)


def read_piece(services: Services, ranges: list[LogRange], offset: int, limit: int) -> Piece:
    """Bytes from `offset` on: neighbouring ranges until the limit, or until a gap."""
    wanted = [piece for piece in ranges if piece.end > offset]
    if not wanted:
        return Piece(b"", offset, 0)
    start = max(offset, wanted[0].start)
    parts: list[bytes] = []
    at = start
    for piece in wanted:
        if piece.start > at or at - start >= limit:
            break
        end = min(piece.end, at + limit - (at - start))
        first = piece.key_offset + at - piece.start
        parts.append(services.storage.get(piece.key, first, first + end - at))
        at = end
    return Piece(b"".join(parts), start, start - offset)


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["logs"])
    store = services.store

    async def find(request: Request, ref: str) -> Job:
        return await find_job(services, request, ref)

    @router.get("/jobs/{ref}/logs", responses=ANY)
    async def story(ref: str, request: Request) -> Response:
        """All output there is: per attempt, the files with their size and which bytes are kept."""
        return JSONResponse(await run_in_threadpool(views.log_story, store, await find(request, ref)))

    def piece_of(job: str, attempt: int, task: int, rank: int, stream: str, offset: int, limit: int) -> Piece:
        mine = (task, rank, stream)
        ranges = [piece for piece in store.logs(job, attempt) if (piece.task, piece.rank, piece.stream) == mine]
        return read_piece(services, ranges, offset, limit)

    def followed(job: str) -> None:
        if not services.leading:
            return
        until = services.mono() + FOLLOWED_S
        services.control.run(lambda cycle: cycle.follow_log(job, until, services.control.now()))

    @router.get("/jobs/{ref}/logs/raw", responses=RAW)
    async def raw(
        ref: str,
        request: Request,
        attempt: Annotated[int, Query(ge=1, le=10**6)],
        task: Annotated[int, Query(ge=0, le=10**6)] = 0,
        rank: Annotated[int, Query(ge=0, le=10**7)] = 0,
        stream: Annotated[str, Query(pattern="^(out|err)$")] = "out",
        offset: Annotated[int, Query(ge=0, le=2**60)] = 0,
        limit: Annotated[int, Query(ge=1, le=LIMIT_BYTES)] = 2**20,
        wait_s: Annotated[float, Query(ge=0, le=WAIT_S_MAX)] = 0.0,
    ) -> Response:
        """Bytes of one rank's output from an offset on; held until there are some, when asked to wait."""
        job = await find(request, ref)
        if attempt > job.number:
            raise NotFound(f"{job.id} has no attempt {attempt} yet", f"the newest is {job.number}")
        deadline = services.mono() + wait_s
        while True:
            with services.hub.output_of(job.id) as happened:
                job = await find(request, job.id)
                grows = views.can_grow(job, attempt)
                piece = await run_in_threadpool(piece_of, job.id, attempt, task, rank, stream, offset, limit)
                left_s = deadline - services.mono()
                if piece.data or not grows or left_s <= 0 or services.hub.closed:
                    break
                followed(job.id)
                await asyncio.wait([happened], timeout=min(left_s, LOOK_AGAIN_S))
        headers = {"Headway-Next-Offset": str(piece.next), "Headway-Skipped": str(piece.skipped)}
        headers["Headway-Done"] = "true" if not piece.data and not grows else "false"
        return Response(piece.data, media_type="application/octet-stream", headers=headers)

    return router
