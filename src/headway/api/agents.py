"""The agents' side: sync, the zipapp, and objects that an agent cannot write to storage itself."""

from __future__ import annotations

import json

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from headway.api.access import actor_of
from headway.api.documents import ANY, RAW, body
from headway.api.reach import Reach
from headway.api.reading import read_object
from headway.api.services import Services, settled
from headway.api.transfer import ranged, received
from headway.core.errors import BadInput, NotFound
from headway.storage.protocol import check_key

OBJECT_BYTES_MAX = 4 * 2**30 + 2**20  # An artifact above 4 GiB comes in numbered parts.


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["agents"])
    reach = Reach(services)

    @router.post("/agent/sync", openapi_extra=body({"type": "object"}), responses=ANY)
    async def sync(request: Request) -> Response:
        """One call of an agent: what it has, and what it shall do."""
        said = await read_object(request, services.settings.request_bytes_max)
        for name in ("node", "pool", "boot_id", "agent_epoch"):
            if name not in said:
                raise BadInput(f'sync without "{name}"')
        if not isinstance(said["node"], str) or not 0 < len(said["node"]) <= 200:
            raise BadInput("node: expected a name of at most 200 characters")
        reach.check_sync(actor_of(request), said)
        reply = await settled(services.control.sync(said))
        return Response(json.dumps(reply, separators=(",", ":")), media_type="application/json")

    @router.get("/agent.pyz", responses=RAW)
    async def agent_zip() -> Response:
        """The agent itself, as one file that needs nothing but a Python."""
        headers = {"Headway-Agent-Version": services.agent_version}
        return Response(services.agent_zip, media_type="application/octet-stream", headers=headers)

    @router.put("/agent/objects/{key:path}", status_code=204)
    async def put_object(key: str, request: Request) -> Response:
        """Keep an object for an agent that is not on the server's own host."""
        reach.check_write(actor_of(request), check_key(key))
        async with received(request, services.storage, OBJECT_BYTES_MAX) as draft:
            await run_in_threadpool(draft.put, services.storage, key)
        return Response(status_code=204)

    @router.get("/agent/objects/{key:path}", responses=RAW)
    async def get_object(key: str, request: Request) -> Response:
        """An object, or a range of it."""
        await run_in_threadpool(reach.check_read, actor_of(request), check_key(key))
        size = await run_in_threadpool(services.storage.size, key)
        if size is None:
            raise NotFound(f'storage has no object "{key[:200]}"')
        return ranged(request, size, lambda start, end: services.storage.get(key, start, end))

    return router
