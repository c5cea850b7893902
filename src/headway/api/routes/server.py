"""About the server itself: is it well, what does it hold, which nodes has it."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.content.schemas import ANY
from headway.api.web.gate import actor_of
from headway.api.web.services import Services, settled
from headway.control.views import cluster as cluster_views
from headway.control.views.jobs import show_event
from headway.control.views.servers import listed
from headway.core.access.tokens import proof
from headway.store.protocol import JobFilter

HAPPENINGS = 20
TOKEN_LEAST = 20
FOR_ANYBODY = ("version", "started_at", "jobs", "last_seq", "leader_epoch")
NOTHING: dict[str, Any] = {"troubles": [], "servers": [], "happened": []}


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["server"])

    @router.get("/api/v1/health", responses=ANY)
    async def health(nonce: Annotated[str, Query(max_length=64)] = "") -> Response:
        """Whether the server is up. The only question that needs no token; `nonce` asks for a proof that it has its."""
        ok, said = services.control.alive, {"version": services.about["version"]}
        port = urlsplit(str(services.about.get("url", ""))).port
        if nonce and port and len(services.token) >= TOKEN_LEAST:  # A shorter one could be guessed from its proofs.
            said["proof"] = proof(services.token, nonce, port)
        if nonce and services.about.get("advertised"):
            said["proof_to_servers"] = services.signer.proofs(services.about["advertised"], nonce)[0]
        return JSONResponse({"ok": ok, **said}, 200 if ok else 503)

    @router.get("/api/v1/server", responses=ANY)
    async def about(request: Request) -> Response:
        """What the server is and holds, and what troubles it."""
        actor, found = actor_of(request), await run_in_threadpool(about_server, services, actor_of(request).projects)
        return JSONResponse(found if actor.belongs else NOTHING | {key: found[key] for key in FOR_ANYBODY})

    @router.get("/api/v1/nodes", responses=ANY)
    async def nodes(request: Request) -> Response:
        """The nodes that have called home. Their addresses are for admins of the server; others need a project."""
        actor = actor_of(request)
        if not actor.belongs:
            return JSONResponse({"nodes": []})
        found = await settled(services.control.look(lambda memory: cluster_views.nodes(memory, services.mono())))
        hidden = {} if actor.admin else {"address": ""}
        return JSONResponse({"nodes": [{**each, **hidden} for each in found]})

    return router


def about_server(services: Services, projects: frozenset[str] | None) -> dict[str, Any]:
    store, troubles, epoch = services.store, [], None
    glance = store.glance()
    servers = [cluster_views.show_server(each, glance) for each in listed(store.servers(), glance.now)]
    if services.leading:
        snapshot = services.control.snapshot
        troubles = [f"{what}: {said}" for what, said in snapshot.troubles.items()]
        for node, found in sorted(snapshot.node_troubles.items()):
            troubles += [f"node {node}: {what}: {said}" for what, said in sorted(found.items())]
        epoch = snapshot.epoch
    elif glance.lead is None or glance.lead.until <= glance.now:
        troubles = ["servers: none leads at the moment"]
    if services.storage.trouble:
        troubles.append(f"storage: {services.storage.trouble}")
    places = {each["storage"] for each in servers if each["there"]}
    if len(places) > 1:
        troubles.append(f"servers: they keep files in different places ({', '.join(sorted(places))})")
    return {
        **services.about,
        "leader_epoch": epoch,
        "started_at": services.started_at,
        "jobs": store.counts(JobFilter(projects=projects)),
        "troubles": troubles,
        "last_seq": glance.last_seq,
        "old_tokens": sorted(services.old_tokens) if projects is None else [],
        "servers": servers,
        # Of no project, so shown to those alone who see all of them.
        "happened": [show_event(each) for each in store.happenings(HAPPENINGS)] if projects is None else [],
    }
