"""The agents' side: sync, the zipapp, and objects that an agent cannot write to storage itself."""

from __future__ import annotations

import json

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from headway.api.documents import ANY, RAW, body
from headway.api.reading import read_body, read_object
from headway.api.services import Services, settled
from headway.core.errors import BadInput, NotAllowed

OBJECT_BYTES_MAX = 64 * 2**20


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["agents"])

    @router.post("/agent/sync", openapi_extra=body({"type": "object"}), responses=ANY)
    async def sync(request: Request) -> Response:
        """One call of an agent: what it has, and what it shall do."""
        said = await read_object(request, services.settings.request_bytes_max)
        for name in ("node", "pool", "boot_id", "agent_epoch"):
            if name not in said:
                raise BadInput(f'sync without "{name}"')
        if not isinstance(said["node"], str) or not 0 < len(said["node"]) <= 200:
            raise BadInput("node: expected a name of at most 200 characters")
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
        if not key.startswith("logs/"):
            raise NotAllowed(f'an agent may not write "{key[:80]}"')
        data = await read_body(request, OBJECT_BYTES_MAX)
        await run_in_threadpool(services.storage.put, key, data)
        return Response(status_code=204)

    return router
