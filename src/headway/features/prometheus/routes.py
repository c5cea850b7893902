"""`GET /metrics`: scraped by Prometheus, with a token of a service or of a user who sees all projects."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response

from headway.api.content.schemas import ANY
from headway.api.routes.server import about_server
from headway.api.web.feature_routes import FeatureRoutes
from headway.api.web.services import Services, settled
from headway.core.access.actor import Right
from headway.features.prometheus import figures
from headway.features.prometheus.exposition import CONTENT_TYPE, written
from headway.features.prometheus.feature import PrometheusFeature


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["server"])

    @router.get("/metrics", responses=ANY)
    async def metrics(request: Request) -> Response:
        """All figures in the text format of Prometheus; of a follower, those that it knows itself."""
        about = await run_in_threadpool(about_server, services, None)
        leads, now, mono = services.leading, time.time(), services.mono()
        found = figures.of_server(about, services.control.measures, leads)
        if leads:
            name = PrometheusFeature.name
            found += await settled(services.control.look(lambda seen: figures.of_leader(seen, name, now, mono)))
        return PlainTextResponse(written(found), media_type=CONTENT_TYPE)

    return router


WEB = FeatureRoutes(make=routes, rights={("GET", "/metrics"): Right.SERVE}, here=frozenset({"/metrics"}))
