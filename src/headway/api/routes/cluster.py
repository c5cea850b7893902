"""What operators set: queues, pools, licences, and nodes that are cordoned or drained.

A change names only the words that change; null takes a word away.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.content.bodies import read_object
from headway.api.content.schemas import ANY, LICENCES, POOL, POOLS, QUEUE, QUEUES, body
from headway.api.web.gate import actor_of
from headway.api.web.services import Services, settled
from headway.control.access.signing_keys import revoke
from headway.control.cluster.commands import CLOSING, CloseNode, DropPool, DropQueue, SetLicences, SetPool, SetQueue
from headway.control.nodes.release import ReleaseNode
from headway.control.views import cluster as cluster_views
from headway.core.errors import BadInput, NotFound
from headway.core.fields import check_keys
from headway.core.spec.pool import NODES_MOST, show_pool, without_ways
from headway.core.spec.queue import show_queue


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["setup"])
    _queues(router, services)
    _pools(router, services)
    _rest(router, services)
    return router


def _queues(router: APIRouter, services: Services) -> None:
    @router.get("/queues", responses=QUEUES)
    async def queues(request: Request) -> Response:
        """All queues: their rules, what waits in them and what they hold. Who is in no project sees none."""
        found = await settled(services.control.look(cluster_views.queues))
        return JSONResponse({"queues": found if actor_of(request).belongs else []})

    @router.patch("/queues/{name}", openapi_extra=body(QUEUE), responses=ANY)
    async def set_queue(name: str, request: Request) -> Response:
        """Create or change a queue."""
        words = await read_object(request, services.settings.request_bytes_max)
        queue = await services.do(SetQueue(name, words, actor_of(request).name))
        return JSONResponse({"queue": {"name": queue.name, **show_queue(queue)}})

    @router.delete("/queues/{name}", status_code=204)
    async def drop_queue(name: str, request: Request) -> Response:
        """Remove a queue in which nothing waits or runs."""
        await services.do(DropQueue(name, actor_of(request).name))
        return Response(status_code=204)


def _pools(router: APIRouter, services: Services) -> None:
    @router.get("/pools", responses=POOLS)
    async def pools(request: Request) -> Response:
        """All pools: what they are, and what their nodes have free. How they are reached, for admins of the server."""
        actor, found = actor_of(request), await settled(services.control.look(cluster_views.pools))
        if not actor.admin:
            found = [{**each, "rules": without_ways(each["rules"])} for each in found if actor.belongs]
        return JSONResponse({"pools": found})

    @router.patch("/pools/{name}", openapi_extra=body(POOL), responses=ANY)
    async def set_pool(name: str, request: Request) -> Response:
        """Create or change a pool."""
        words = await read_object(request, services.settings.request_bytes_max)
        pool = await services.do(SetPool(name, words, actor_of(request).name))
        return JSONResponse({"pool": {"name": pool.name, **show_pool(pool)}})

    @router.get("/pools/{name}/render", responses=ANY)
    async def render(name: str, nodes: Annotated[int, Query(ge=1, le=NODES_MOST)] = 1) -> Response:
        """Exactly what an order of so many nodes would send, without sending it; tokens are left out."""
        return JSONResponse(await run_in_threadpool(services.render, name, nodes))

    @router.delete("/pools/{name}", responses=ANY)
    async def drop_pool(name: str, request: Request) -> Response:
        """Remove a pool: its jobs finish, then its nodes are released."""
        pool = await services.do(DropPool(name, actor_of(request).name))
        return JSONResponse({"pool": {"name": pool.name, **show_pool(pool)}})


def _rest(router: APIRouter, services: Services) -> None:
    revoking = asyncio.Lock()

    @router.get("/licences", responses=LICENCES)
    async def licences(request: Request) -> Response:
        """How many there are of each licence."""
        found = dict(services.control.snapshot.licences)
        return JSONResponse({"licences": found if actor_of(request).belongs else {}})

    @router.patch("/licences", openapi_extra=body({"type": "object"}), responses=LICENCES)
    async def set_licences(request: Request) -> Response:
        """Change how many there are; null takes one away."""
        words = await read_object(request, services.settings.request_bytes_max)
        return JSONResponse({"licences": dict(await services.do(SetLicences(words)))})

    @router.get("/hosts", responses=ANY)
    async def hosts() -> Response:
        """How the hosts are that engines reach by themselves (ssh, Slurm): asked now, each within its time limit."""
        return JSONResponse({"hosts": await run_in_threadpool(services.examine)})

    @router.post("/nodes/{node}/release", openapi_extra=body({"type": "object"}), responses=ANY)
    async def release_node(node: str, request: Request) -> Response:
        """Give a node back: all that is ours on it ends. Refused while a job is there, unless `force` is true."""
        words = await read_object(request, services.settings.request_bytes_max)
        check_keys(words, {"force": ""}, "request")
        force = words.get("force", False)
        if not isinstance(force, bool):
            raise BadInput("force: it is true or false")
        closed = await services.do(ReleaseNode(node, actor_of(request).name, force))
        await run_in_threadpool(services.release, closed)
        return JSONResponse({"node": {"id": closed.id, "pool": closed.pool, "released": True}})

    @router.post("/nodes/{node}/revoke", responses=ANY)
    async def revoke_token(node: str) -> Response:
        """Let the token of a node be good for nothing any more. Its engine hands it a new one, where it can."""
        known = services.control.snapshot.nodes.get(node)
        if known is None:
            raise NotFound(f'no node "{node[:80]}"', "headway node ls")
        async with revoking:
            services.signing.know(await run_in_threadpool(revoke, services.store, node))
        snapshot = services.control.snapshot
        pool = snapshot.pools.get(known.pool)
        again = pool is not None and not snapshot.is_ordered(pool)
        return JSONResponse({"node": {"id": node, "pool": known.pool, "given_again": again}})

    @router.post("/nodes/{node}/{how}", openapi_extra=body({"type": "object"}), responses=ANY)
    async def close_node(node: str, how: str, request: Request) -> Response:
        """`cordon`: nothing more is placed there. `drain`: the same, for good. `uncordon`: it takes tasks again."""
        words = await read_object(request, services.settings.request_bytes_max)
        check_keys(words, {"stop": ""}, "request")
        if how not in CLOSING:
            raise BadInput(f'"{how[:80]}" is not one of {", ".join(CLOSING)}')
        stop = words.get("stop", False)
        if not isinstance(stop, bool) or (stop and how != "drain"):
            raise BadInput("stop: only a drain asks what runs there to end, and it is true or false")
        closed = await services.do(CloseNode(node, how, actor_of(request).name, stop))
        shown = {"id": closed.id, "pool": closed.pool, "cordoned": closed.cordoned, "draining": closed.draining}
        return JSONResponse({"node": shown})
