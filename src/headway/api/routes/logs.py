"""Output of ranks over HTTP: what there is, and the bytes themselves, by offset."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import structlog
from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.content.schemas import ANY, RAW
from headway.api.web.gate import actor_of, check, find_job
from headway.api.web.services import Services
from headway.control.files.log_index import is_intact
from headway.control.views import jobs as job_views
from headway.core.errors import NotFound, Unavailable
from headway.core.files.log_times import Mark, times_of
from headway.core.model import Job
from headway.store.protocol import LogRange

log = structlog.get_logger()

LIMIT_BYTES = 4 * 2**20
READ_TRIES = 3
CHECKED_MAX = 10_000
TIMES_MAX = 100  # In one answer.
WAIT_S_MAX = 60.0
LOOK_AGAIN_S = 5.0  # A held answer looks again now and then, and keeps its node shipping at once.
FRESH_S_MAX = 5.0
FOLLOWED_S = 15.0  # How long a node goes on shipping at once after the last question.
TOLD_AGAIN_S = 2.0  # However many follow a log, its node hears of it only so often.


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Some bytes of a file, from `start` on; `skipped` were left out before them by the log's size limit.

    `damaged` of those were not left out: storage has lost them, or gives others.
    """

    data: bytes
    start: int
    skipped: int
    damaged: int = 0
    times: tuple[Mark, ...] = ()

    @property
    def next(self) -> int:
        return self.start + len(self.data)


@dataclass(frozen=True, slots=True)
class WantedLog:
    """Which bytes somebody asks for."""

    attempt: int
    task: int
    rank: int
    stream: str
    offset: int
    limit: int


def read_piece(services: Services, ranges: list[LogRange], offset: int, limit: int) -> LogPiece:
    """Bytes from `offset` on: neighbouring ranges until the limit, or until a gap or damage."""
    wanted = [piece for piece in ranges if piece.end > offset]
    if not wanted:
        return LogPiece(b"", offset, 0)
    start = max(offset, wanted[0].start)
    parts: list[bytes] = []
    times: list[Mark] = []
    at = start
    for piece in wanted:
        if piece.start > at or at - start >= limit:
            break
        end = min(piece.end, at + limit - (at - start))
        found = _bytes_of(services, piece, at, end)
        if found is None and not parts:
            return LogPiece(b"", piece.end, piece.end - offset, piece.end - at)
        if found is None:
            break
        parts.append(found)
        times += _between(piece, at, end)
        at = end
    return LogPiece(b"".join(parts), start, start - offset, times=tuple(times))


def _between(piece: LogRange, start: int, end: int) -> list[Mark]:
    """When these bytes of a piece were written."""
    return times_of(start, end, piece.at, piece.times)


def _bytes_of(services: Services, piece: LogRange, start: int, end: int) -> bytes | None:
    """These bytes of a piece; None when storage has others, or none. A part is trusted once the whole was seen."""
    checked = services.checked_logs
    try:
        if piece.crc32 is None or (piece in checked and (start, end) != (piece.start, piece.end)):
            first = piece.key_offset + start - piece.start
            return _whole(services, piece.key, first, first + end - start)
        for _ in range(READ_TRIES):
            data = _whole(services, piece.key, piece.key_offset, piece.key_offset + piece.end - piece.start)
            if is_intact(piece, data):
                break
        else:
            log.error("output is damaged in storage", job=piece.job, attempt=piece.attempt, key=piece.key)
            return None
    except NotFound:
        log.error("output is missing in storage", job=piece.job, attempt=piece.attempt, key=piece.key)
        return None
    if len(checked) >= CHECKED_MAX:
        checked.clear()
    checked[piece] = None
    return data[start - piece.start : end - piece.start]


class Tails:
    """The ends of logs that grow: looked at once for all who are at the same place."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._told: dict[str, float] = {}  # Job -> when its nodes were last told that it is followed.

    async def look(self, job: str, wanted: WantedLog, waits: bool) -> tuple[Job, LogPiece]:
        if not waits:
            # Who does not wait sees what was saved a moment ago, though no news of it has come here yet.
            return await run_in_threadpool(self._look, job, wanted)
        made = partial(self._look, job, wanted)
        return await self._services.hub.looks.share(job, wanted, made, _size_of, keep=self._services.leading)

    def _look(self, job: str, wanted: WantedLog) -> tuple[Job, LogPiece]:
        """The job, and after it the bytes: of a job that is over, no byte that was saved is missed."""
        store = self._services.store
        seen = job_views.find_job(store, job)
        mine = (wanted.task, wanted.rank, wanted.stream)
        ranges = [each for each in store.logs(job, wanted.attempt) if (each.task, each.rank, each.stream) == mine]
        return seen, read_piece(self._services, ranges, wanted.offset, wanted.limit)

    def followed(self, job: str) -> None:
        """See that the nodes of a job that somebody follows ship its output at once."""
        services, told = self._services, self._told
        now = services.mono()
        if not services.leading or told.get(job, 0.0) > now - TOLD_AGAIN_S:
            return
        for old in [each for each, at in told.items() if at <= now - TOLD_AGAIN_S]:
            del told[old]
        told[job] = now
        services.control.follow_log(job, FOLLOWED_S)


def _size_of(found: tuple[Job, LogPiece]) -> int:
    return len(found[1].data)


def _about(piece: LogPiece, done: bool) -> dict[str, str]:
    headers = {"Headway-Next-Offset": str(piece.next), "Headway-Skipped": str(piece.skipped)}
    headers["Headway-Done"] = "true" if done else "false"
    headers |= {"Headway-Damaged": str(piece.damaged)} if piece.damaged else {}
    if piece.times:
        headers["Headway-Times"] = " ".join(f"{end}:{at:.1f}" for end, at in _fewer(piece.times))
    return headers


def _fewer(times: tuple[Mark, ...]) -> list[Mark]:
    """As many as a header takes; of those that are left out, the next holds too."""
    step = -(-len(times) // TIMES_MAX)
    return [*reversed(times[::-1][::step])]


def _held(services: Services, request: Request, ref: str) -> Job | None:
    """A job that is going, by its id, if the caller may see it: found without a look into the store."""
    if not services.leading:
        return None
    job: Job | None = services.control.snapshot.active(ref)
    return job if job is not None and actor_of(request).sees(job.spec.project) else None


def _whole(services: Services, key: str, start: int, end: int) -> bytes:
    """Exactly these bytes of a pack. Fewer would move all that follows: they are read again, and never shown."""
    for _ in range(READ_TRIES):
        data = services.storage.get(key, start, end)
        if len(data) == end - start:
            return data
    raise Unavailable(f'storage gives {len(data)} of {end - start} bytes of the log pack "{key}"', "try again later")


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["logs"])
    store, tails = services.store, Tails(services)

    async def find(request: Request, ref: str) -> Job:
        return _held(services, request, ref) or await find_job(services, request, ref)

    @router.get("/jobs/{ref}/logs", responses=ANY)
    async def story(
        ref: str,
        request: Request,
        fresh_s: Annotated[float, Query(ge=0, le=FRESH_S_MAX)] = 0.0,
        times: bool = False,
    ) -> Response:
        """All output there is: per attempt, the files with their size and which bytes are kept.

        Of a running job, nodes ship output in larger pieces now and then. With `fresh_s` they are asked to ship what
        they have, and the answer waits for it, no longer than that. With `times` the ranges are as small as it is
        known when each was written.
        """
        job = await find_job(services, request, ref)
        if fresh_s and services.leading and job.alive:
            with services.hub.output_of(job.id) as happened:
                tails.followed(job.id)
                await asyncio.wait([happened], timeout=fresh_s)
            job = await find_job(services, request, job.id)
        return JSONResponse(await run_in_threadpool(job_views.log_story, store, job, times))

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
        deadline, wanted = services.mono() + wait_s, WantedLog(attempt, task, rank, stream, offset, limit)
        while True:
            with services.hub.output_of(job.id) as happened:
                job, piece = await tails.look(job.id, wanted, waits=wait_s > 0)
                if actor_of(request).projects is not None:
                    check(request, job.spec.project)
                grows = job_views.can_grow(job, attempt)
                left_s = deadline - services.mono()
                if piece.data or piece.damaged or not grows or left_s <= 0 or services.hub.closed:
                    break
                tails.followed(job.id)
                await asyncio.wait([happened], timeout=min(left_s, LOOK_AGAIN_S))
        headers = _about(piece, done=not (piece.data or piece.damaged or grows))
        return Response(piece.data, media_type="application/octet-stream", headers=headers)

    return router
