"""About the server itself: is it well, what does it hold, which nodes has it."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.documents import ANY
from headway.api.services import Services, settled
from headway.control.cycle import Cycle
from headway.control.views import show_node


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["server"])

    @router.get("/api/v1/health", responses=ANY)
    async def health() -> Response:
        """Whether the server is up. The only question that needs no token."""
        ok = services.control.alive
        return JSONResponse({"ok": ok, "version": services.about["version"]}, 200 if ok else 503)

    @router.get("/api/v1/server", responses=ANY)
    async def about() -> Response:
        """What the server is and holds, and what troubles it."""
        cycle = services.control.cycle
        counts = await run_in_threadpool(services.store.counts)
        troubles = [f"{what}: {said}" for what, said in dict(cycle.troubles).items()]
        shown = {**services.about, "leader_epoch": cycle.epoch, "started_at": services.started_at}
        return JSONResponse({**shown, "jobs": counts, "troubles": troubles, "last_seq": services.hub.last_seq})

    @router.get("/api/v1/nodes", responses=ANY)
    async def nodes() -> Response:
        """The nodes that have called home."""
        future: Future[list[Any]] = Future()
        services.control.run(lambda cycle: future.set_result(_nodes(cycle, services.mono())))
        return JSONResponse({"nodes": await settled(future)})

    return router


def _nodes(cycle: Cycle, mono: float) -> list[Any]:
    shown = []
    for node in cycle.book.nodes.values():
        session = cycle.session(node.id, mono)
        tasks = len(cycle.book.on_node.get(node.id, {}))
        shown.append(
            show_node(node, cycle.book.view.rooms.get(node.id), tasks, mono - session.heard_at, session.silent)
        )
    return shown
