"""The agents' side: sync, the zipapp, and objects that an agent cannot write to storage itself."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.content.bodies import read_object
from headway.api.content.schemas import ANY, RAW, body
from headway.api.content.signed_urls import METHODS
from headway.api.content.transfers import ranged, received, sha256_of
from headway.api.web.agent_rights import Reach
from headway.api.web.gate import Actor, actor_of, note_known
from headway.api.web.sealed_calls import CHALLENGE, HELLO, STALE_TOKEN
from headway.api.web.services import Services, settled
from headway.core.errors import BadInput, NotAllowed, NotFound
from headway.core.growth.node_orders import order_of
from headway.core.protocol import SCHEMA, read_sync
from headway.storage.protocol import Storage, WrongContent, check_key
from headway_wire.kinds import replace

OBJECT_BYTES_MAX = 4 * 2**30 + 2**20  # An artifact above 4 GiB comes in numbered parts.
KEYS_AT_ONCE = 1000


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["agents"])
    reach = Reach(services)

    @router.post("/agent/sync", openapi_extra=body(SCHEMA), responses=ANY)
    async def sync(request: Request) -> Response:
        """One call of an agent: what it has, and what it shall do."""
        said = read_sync(await read_object(request, services.settings.request_bytes_max, lenient=True))
        reach.check_sync(actor_of(request), said.node, said.logs)
        reply = await settled(services.control.sync(said))
        if request.scope["state"].get(STALE_TOKEN):  # The keys were rotated.
            services.old_tokens.add(said.node)
            reply = replace(reply, token=services.signer.token_for(said.node))
        elif services.old_tokens:
            services.old_tokens.discard(said.node)
        return Response(json.dumps(reply.show(), separators=(",", ":")), media_type="application/json")

    @router.get(HELLO, responses=ANY)
    async def hello(request: Request) -> Response:
        """Asked on each new connection, before anything is said: the challenge for calls, sealed by this server."""
        return JSONResponse({"challenge": request.scope["state"].get(CHALLENGE, "")})

    @router.get("/agent.pyz", responses=RAW)
    async def agent_zip() -> Response:
        """The agent itself, as one file that needs nothing but a Python."""
        headers = {"Headway-Agent-Version": services.agent_version}
        return Response(services.agent_zip, media_type="application/octet-stream", headers=headers)

    _handing_out(router, services, reach)
    _objects(router, services, reach)
    return router


def _handing_out(router: APIRouter, services: Services, reach: Reach) -> None:
    addresses, storage = services.addresses, services.storage

    async def read(request: Request) -> tuple[dict[str, Any], Actor]:
        """What is said, and the agent for whose node it is said."""
        said = await read_object(request, services.settings.request_bytes_max)
        node = said.get("node")
        if not isinstance(node, str) or not 0 < len(node) <= 200:
            raise BadInput("node: expected a name of at most 200 characters")
        reach.check_sync(actor_of(request), node)
        return said, Actor("agent", node, node=node)

    @router.post("/agent/token", responses=ANY)
    async def token(request: Request) -> Response:
        """The token of a node that was ordered and has not called yet: what its order carried is good for nothing else.

        A platform keeps what it was given (Slurm keeps the script). Once the node has called, or its order is over, it
        opens nothing any more.
        """
        actor, snapshot = actor_of(request), services.control.snapshot
        wanted = actor.kind == "newcomer" and actor.node not in snapshot.nodes
        if not wanted or order_of(actor.node) not in snapshot.orders:
            raise NotAllowed(f'"{actor.node or actor.name}" is not a node that was ordered and has not called yet')
        return JSONResponse({"token": services.signer.token_for(actor.node)})

    @router.post("/agent/urls", openapi_extra=body({"type": "object"}), responses=ANY)
    async def urls(request: Request) -> Response:
        """Signed addresses for objects that this node may write or read now."""
        said, agent = await read(request)
        method, keys = said.get("method"), _keys(said, "keys")
        if method not in METHODS:
            raise BadInput(f'method: expected one of {", ".join(METHODS)}, not "{str(method)[:20]}"')
        allowed = await run_in_threadpool(reach.allowed, method, actor_of(request), agent, keys)
        given = await run_in_threadpool(addresses.give, method, allowed)
        answer = {
            "good_for_s": addresses.good_for_s,
            "urls": dict(zip(allowed, given, strict=True)),
            "headers": storage.put_headers() if method == "PUT" else {},
            "storage": services.control.snapshot.storage_mark,  # The place to which these lead.
        }
        return JSONResponse(answer)

    @router.post("/agent/join", status_code=204, openapi_extra=body({"type": "object"}))
    async def join(request: Request) -> Response:
        """Make one object of several that a node has stored, if together they have this hash."""
        said, agent = await read(request)
        key, parts = str(said.get("key")), _keys(said, "parts")
        for each in (key, *parts):
            reach.check_write(agent, check_key(each))
        await run_in_threadpool(_join, storage, key, parts, said.get("size"), str(said.get("sha256")))
        return Response(status_code=204)


def _objects(router: APIRouter, services: Services, reach: Reach) -> None:
    addresses, storage = services.addresses, services.storage

    @router.put("/agent/objects/{key:path}", status_code=204)
    async def put_object(key: str, request: Request) -> Response:
        """Keep an object for an agent that is not on the server's own host."""
        if "signature" in request.query_params:
            given_at = addresses.check("PUT", check_key(key), request.query_params)
            note_known(request.scope)
            await run_in_threadpool(reach.check_upload, key, given_at)
        else:
            reach.check_write(actor_of(request), check_key(key))
        async with received(request, storage, OBJECT_BYTES_MAX) as draft:
            announced = request.headers.get("headway-sha256", draft.sha256)
            if announced != draft.sha256:
                raise WrongContent(f'the bytes of "{key[:200]}" are not those that were announced', "send them again")
            if "signature" in request.query_params:
                await run_in_threadpool(reach.check_replaced, key, draft.sha256, draft.size)
            await run_in_threadpool(draft.put, storage, key)
        return Response(status_code=204)

    @router.get("/agent/objects/{key:path}", responses=RAW)
    async def get_object(key: str, request: Request) -> Response:
        """An object, or a range of it."""
        if "signature" in request.query_params:
            addresses.check("GET", check_key(key), request.query_params)
        else:
            await run_in_threadpool(reach.check_read, actor_of(request), check_key(key))
        size = await run_in_threadpool(storage.size, key)
        if size is None:
            raise NotFound(f'storage has no object "{key[:200]}"')
        return ranged(request, size, lambda start, end: storage.get(key, start, end))


def _join(storage: Storage, key: str, parts: list[str], size: object, sha256: str) -> None:
    try:
        storage.join(key, parts, sha256)
    except NotFound:
        # Asked again because the answer was lost: then it is done already.
        if storage.size(key) != size or sha256_of(storage, key) != sha256:
            raise
    storage.delete(parts)


def _keys(said: dict[str, Any], name: str) -> list[str]:
    keys = said.get(name)
    if not isinstance(keys, list) or len(keys) > KEYS_AT_ONCE or not all(isinstance(key, str) for key in keys):
        raise BadInput(f"{name}: expected a list of at most {KEYS_AT_ONCE} keys")
    return list(dict.fromkeys(keys))
