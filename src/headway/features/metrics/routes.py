"""Metrics over HTTP: the series of a job, and the points of one name, thinned to as many as a chart can show.

JSON has no word for what is not finite: "NaN", "Infinity" and "-Infinity" stand for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.content.schemas import ANY
from headway.api.web.feature_routes import FeatureRoutes
from headway.api.web.gate import find_job
from headway.api.web.services import Services
from headway.core.access.actor import Right
from headway.core.errors import BadInput, NotFound
from headway.core.model import Job
from headway.features.metrics.curves import NO_STEP, Points
from headway.features.metrics.point_reader import PointReader
from headway.features.metrics.rules import NAMES_MAX, clean
from headway.features.metrics.same_curves import shown
from headway.features.metrics.tables import PARAMETERS, SERIES, STREAMS, PointStream, Series
from headway.store.protocol import Store
from headway.store.tables import Which
from headway_wire.sync import POINTS as STREAMS_OF_POINTS

POINTS, POINTS_MAX = 2_000, 1_000_000
CURVES_MAX = 256
SERIES_MAX = 200_000
FRESH_S_MAX = 10.0
FOLLOWED_S = 5.0
COUNTED_TRIES, COUNTED_EVERY_S = 15, 0.1
NUMBERS = ("last", "min", "max")


def spelled(value: float) -> float | str:
    """A number as JSON can say it."""
    if value - value:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def show_series(row: Series) -> dict[str, Any]:
    said = {name: getattr(row, name) for name in SERIES.columns}  # There may be a hundred thousand.
    for name in NUMBERS:
        value = said[name]
        if value is not None:
            said[name] = spelled(value)
        elif name == "last" and row.count:
            said[name] = "NaN"
    return said


def show_points(row: Series, points: Points) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in ("attempt", "task", "rank", "name", "source", "count")},
        "steps": [None if step == NO_STEP else step for step in points.steps],
        "at": points.at.tolist(),
        "values": [spelled(value) for value in points.values],
    }


def notes_on(streams: Sequence[PointStream], found: int) -> list[str]:
    """What could not be taken of a job's points, or is not shown, in sentences."""
    unread, left_out, lost = (
        sum(getattr(each, name) for each in streams) for name in ("unread", "left_out", "lost_bytes")
    )
    told = [f"the first {SERIES_MAX:,} series are shown; ask for an attempt or a rank"] if found == SERIES_MAX else []
    if left_out:
        told.append(f"{left_out:,} points are left out: an attempt has at most {NAMES_MAX:,} series")
    if unread:
        told.append(f"{unread:,} lines or values say no number")
    if lost:
        told.append(f"{lost:,} bytes of points are lost in storage")
    return told


def find_series(store: Store, job: Job, name: str, attempt: int | None, rank: int | None) -> list[Series]:
    equal: dict[str, Any] = {"job": job.id}
    equal |= {"name": clean(name)} if name else {}
    equal |= {"attempt": attempt} if attempt is not None else {}
    equal |= {"rank": rank} if rank is not None else {}
    return store.rows(SERIES, Which(equal=equal, limit=SERIES_MAX))


def read_curves(reader: PointReader, rows: Sequence[Series], most: int) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    by_attempt: Iterable[tuple[int, Iterable[Series]]] = groupby(rows, key=lambda row: row.attempt)
    for _, group in by_attempt:
        mine = list(group)
        told += map(show_points, mine, reader.points(mine, most))
    return told


async def freshened(services: Services, request: Request, ref: str, fresh_s: float) -> Job:
    """The job, after its nodes have sent what they have, or that long; of one that ended, when all is counted."""
    job = await find_job(services, request, ref)
    if fresh_s and services.leading:
        if job.alive:
            with services.hub.output_of(job.id) as happened:
                services.control.follow_log(job.id, FOLLOWED_S)
                await asyncio.wait([happened], timeout=fresh_s)
        for _ in range(COUNTED_TRIES):
            if await run_in_threadpool(is_counted, services.store, job):
                break
            await asyncio.sleep(COUNTED_EVERY_S)
    return job


def is_counted(store: Store, job: Job) -> bool:
    """Whether the newest points that have come are in the rows; half a line at their end need not be."""
    streams = store.rows(STREAMS, Which(equal={"job": job.id, "attempt": job.number}))
    seen = {STREAMS.key_of(each): each.seen for each in streams}
    newest = {piece.of: piece.start for piece in store.logs(job.id, job.number) if piece.stream in STREAMS_OF_POINTS}
    return all(seen.get(of, 0) > start for of, start in newest.items())


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["metrics"])
    store = services.store

    @router.get("/jobs/{ref}/metrics", responses=ANY)
    async def series(
        ref: str,
        request: Request,
        attempt: Annotated[int | None, Query(ge=1, le=10**6)] = None,
        rank: Annotated[int | None, Query(ge=0, le=10**7)] = None,
        name: str = "",
        every_source: bool = False,
        fresh_s: Annotated[float, Query(ge=0, le=FRESH_S_MAX)] = 0.0,
    ) -> Response:
        """The series of a job: of each the last value, the least and the greatest, with their steps."""
        job = await freshened(services, request, ref, fresh_s)

        def read() -> Response:
            every = find_series(store, job, name, attempt, rank)
            found, count = every if every_source else shown(every), len(every)
            params = store.rows(PARAMETERS, Which(equal={"job": job.id}))
            streams = store.rows(STREAMS, Which(equal={"job": job.id}))
            told = {"job": job.id, "series": [show_series(row) for row in found], "notes": notes_on(streams, count)}
            waiting = sum(each.seen - each.packed for each in streams)
            return JSONResponse({**told, "params": [asdict(each) for each in params], "unpacked_bytes": waiting})

        return await run_in_threadpool(read)

    @router.get("/jobs/{ref}/metrics/points", responses=ANY)
    async def points(
        ref: str,
        request: Request,
        name: str = "",
        attempt: Annotated[int | None, Query(ge=1, le=10**6)] = None,
        rank: Annotated[int | None, Query(ge=0, le=10**7)] = None,
        source: str = "",
        points: Annotated[int, Query(ge=2, le=POINTS_MAX)] = POINTS,
    ) -> Response:
        """The points of one name, a curve for each attempt and rank; thinned so that spikes survive."""
        job = await find_job(services, request, ref)
        if not name:
            raise BadInput("which metric? name is missing", f"headway metrics {job.id} lists them")

        def read() -> Response:
            found = find_series(store, job, name, attempt, rank)
            found = [row for row in found if row.source == source] if source else shown(found)
            if not found:
                known = sorted({row.name for row in find_series(store, job, "", attempt, rank)})
                hint = f"there are: {', '.join(known[:10])}" if known else "nothing was logged yet"
                raise NotFound(f'{job.id} has no metric "{name[:80]}"', hint)
            curves = read_curves(services.part("metrics"), found[:CURVES_MAX], points)
            return JSONResponse({"job": job.id, "name": name, "curves": curves, "left_out": len(found[CURVES_MAX:])})

        return await run_in_threadpool(read)

    return router


ROUTES = FeatureRoutes(
    routes,
    {("GET", "/api/v1/jobs/{ref}/metrics"): Right.VIEW, ("GET", "/api/v1/jobs/{ref}/metrics/points"): Right.VIEW},
    here=frozenset({"/api/v1/jobs/{ref}/metrics", "/api/v1/jobs/{ref}/metrics/points"}),
    part=PointReader,
)
