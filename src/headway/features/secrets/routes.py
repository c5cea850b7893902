"""Secrets over HTTP: set, listed by name, removed; and the values, for the agent of a task that may have them."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.content.bodies import read_object
from headway.api.content.schemas import ANY, body
from headway.api.web.feature_routes import FeatureRoutes
from headway.api.web.gate import Actor, actor_of, check
from headway.api.web.services import Services
from headway.control.access.audit import Recording
from headway.core.access.actor import Right
from headway.core.errors import BadInput, HeadwayError, NotAllowed
from headway.core.fields import check_keys
from headway.core.model import Job
from headway.core.spec.secret_references import check_reference
from headway.core.spec.secrets import Secret, check_secret_name, check_value
from headway.features.secrets import commands as secrets
from headway.features.secrets.references import resolve
from headway.features.secrets.tables import secrets_of
from headway_wire.tasks import split_key

PRIVATE = {"Cache-Control": "no-store"}


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["secrets"])
    _keeping(router, services)
    _for_agents(router, services)
    return router


def _keeping(router: APIRouter, services: Services) -> None:
    @router.get("/api/v1/secrets", responses=ANY)
    async def list_(request: Request, project: str = "") -> Response:
        """The secrets of the projects that the caller sees: names, never values."""
        actor = actor_of(request)
        found = await run_in_threadpool(secrets_of, services.store, project)
        return JSONResponse({"secrets": [secrets.show(each) for each in found if actor.sees(each.project)]})

    @router.put("/api/v1/projects/{project}/secrets/{name}", openapi_extra=body({"type": "object"}), responses=ANY)
    async def set_(project: str, name: str, request: Request) -> Response:
        """Keep a value, sealed, or a reference to where it lies. The answer does not have it."""
        check(request, project)
        words = await read_object(request, services.settings.request_bytes_max)
        check_keys(words, {"value": "", "reference": ""}, "request")
        value, reference = words.get("value"), words.get("reference")
        if (value is None) == (reference is None):
            raise BadInput("expected either a value or a reference")
        wanted = Secret(project, check_secret_name(name), 0, created_by=actor_of(request).name)
        if reference is not None:
            wanted = Secret(project, wanted.name, 0, reference=check_reference(reference), created_by=wanted.created_by)
            made = await services.do(secrets.SetSecret(wanted, lambda secret: secret, services.shared))
        else:
            if not isinstance(value, str):
                raise BadInput("value: expected a text")
            text = check_value(value.encode("utf-8", "surrogatepass"))
            made = await services.do(secrets.SetSecret(wanted, lambda secret: services.ring.seal(secret, text)))
        return JSONResponse({"secret": secrets.show(made)})

    @router.delete("/api/v1/projects/{project}/secrets/{name}", status_code=204)
    async def drop(project: str, name: str, request: Request) -> Response:
        """Remove a secret. Jobs that have it already keep it."""
        check(request, project)
        await services.do(secrets.DropSecret(project, name))
        return Response(status_code=204)

    @router.post("/api/v1/secrets/rotate", responses=ANY)
    async def rotate() -> Response:
        """Seal everything anew with the newest key of the key file."""
        count = await services.do(secrets.SealAnew(services.ring))
        return JSONResponse({"sealed": count, "key": services.ring.newest})


def _for_agents(router: APIRouter, services: Services) -> None:
    @router.post("/agent/secrets", openapi_extra=body({"type": "object"}), responses=ANY)
    async def values(request: Request) -> Response:
        """The values for a task, for the agent of the node on which it is placed."""
        words = await read_object(request, services.settings.request_bytes_max)
        job = _job_of(services, request, words.get("task"))
        found: dict[str, str] = {}
        for secret in await run_in_threadpool(secrets.used_by, services.store, job):
            found[secret.name] = await _read(services, actor_of(request), job, secret)
        return JSONResponse({"secrets": found}, headers=PRIVATE)


async def _read(services: Services, actor: Actor, job: Job, secret: Secret) -> str:
    """A value for a job; what was read for whom, or why it was not, is written down first."""
    target = f"{secret.name}, version {secret.version}" + (f": {secret.reference}" if secret.reference else "")
    record = Recording(actor, "secrets.read", target, secret.project)
    whom = f"for job {job.id} of {job.user}, attempt {job.number}"
    try:
        value = await run_in_threadpool(
            secrets.value_of, services.store, services.ring, resolve, secret, services.shared
        )
    except HeadwayError as error:
        if services.recorder.on:
            await services.recorder.write(
                record, "refused" if error.status < 500 else "failed", f"{whom}: {error.message}"
            )
        raise
    if services.recorder.on:
        await services.recorder.write(record, detail=whom)
    return value


def _job_of(services: Services, request: Request, key: object) -> Job:
    """The job of a task that is placed on the caller's node and alive."""
    actor = actor_of(request)
    try:
        name, attempt, index = split_key(str(key))
    except ValueError:
        raise BadInput(f'task: "{str(key)[:80]}" is none') from None
    job = services.control.snapshot.active(name)
    alive = job.alive if job is not None and job.number == attempt else ()
    there = any(task.index == index and (actor.kind != "agent" or task.node == actor.node) for task in alive)
    if job is None or not there:
        raise NotAllowed(f"{str(key)[:80]} is not placed on this node")
    return job


ROUTES = FeatureRoutes(
    routes,
    {
        ("GET", "/api/v1/secrets"): Right.KNOWN,
        ("PUT", "/api/v1/projects/{project}/secrets/{name}"): Right.CHANGE,
        ("DELETE", "/api/v1/projects/{project}/secrets/{name}"): Right.CHANGE,
        ("POST", "/api/v1/secrets/rotate"): Right.SERVE,
        ("POST", "/agent/secrets"): Right.AGENT,
    },
    concerns=lambda spec: bool(spec.progress.secrets),
    check=lambda services, spec: secrets.check_opens(services.store, services.ring, spec),
)
