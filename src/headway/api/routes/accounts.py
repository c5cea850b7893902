"""Users, projects, roles and tokens over HTTP; and who one is."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.content.bodies import number, read_object
from headway.api.content.schemas import ANY, MEMBER, NEW_TOKEN, NEW_USER, REFERENCES, USER_CHANGE
from headway.api.web.gate import Actor, Right, actor_of, check
from headway.api.web.services import Services
from headway.control.access.accounts import (
    AddProject,
    AddUser,
    AllowReferences,
    DropProject,
    DropUser,
    RevokeToken,
    SaveToken,
    SetMember,
    SetUser,
    new_token,
)
from headway.control.access.audit import recording
from headway.control.views.leader_port import Asked
from headway.core.access.accounts import EXPIRES_S_MAX, Token, User, check_name
from headway.core.errors import BadInput, Conflict, NotAllowed, NotFound
from headway.core.fields import check_keys
from headway.core.spec.secret_references import check_allowed

LABEL_MAX = 100


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["accounts"])
    for add in (_self, _users, _projects, _members, _tokens):
        add(router, services)
    return router


async def _body(services: Services, request: Request, *keys: str) -> dict[str, Any]:
    body = await read_object(request, services.settings.request_bytes_max)
    check_keys(body, dict.fromkeys(keys, ""), "request")
    return body


async def _do(services: Services, command: Asked) -> Any:
    if not services.shared:
        raise Conflict("nobody signs in on this server", 'set accounts = "on" to make it a shared one')
    try:
        return await services.do(command)
    finally:
        services.badges.forget()


def _flag(body: dict[str, Any], name: str) -> bool | None:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadInput(f'{name}: "{str(value)[:40]}" is not true or false')
    return value


def _word(body: dict[str, Any], name: str, most: int = 200) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > most or not value.isprintable():
        raise BadInput(f"{name}: expected a text of at most {most} printable characters")
    return value


def _self(router: APIRouter, services: Services) -> None:
    @router.get("/whoami", responses=ANY)
    async def whoami(request: Request) -> Response:
        """Who the token stands for, and what they may do."""
        actor = actor_of(request)
        shown = {"kind": actor.kind, "name": actor.name, "admin": actor.admin, "roles": dict(actor.roles)}
        return JSONResponse({**shown, "token": actor.token, "accounts": services.shared})


def _users(router: APIRouter, services: Services) -> None:
    store = services.store

    @router.get("/users", responses=ANY)
    async def users() -> Response:
        """All users, with their roles."""
        members = await run_in_threadpool(store.members)
        shown = []
        for user in await run_in_threadpool(store.user_accounts):
            roles = {each.project: each.role for each in members if each.user == user.name}
            shown.append({**asdict(user), "roles": roles})
        return JSONResponse({"users": shown})

    @router.post("/users", status_code=201, openapi_extra=NEW_USER, responses=ANY)
    async def add_user(request: Request) -> Response:
        """Make a user."""
        body = await _body(services, request, "name", "email", "admin")
        name = check_name(body.get("name"), "user")
        user = User(name, _word(body, "email"), "", bool(_flag(body, "admin")), actor_of(request).name)
        return JSONResponse({"user": asdict(await _do(services, AddUser(user)))}, 201)

    @router.patch("/users/{name}", openapi_extra=USER_CHANGE, responses=ANY)
    async def set_user(name: str, request: Request) -> Response:
        """Make a user an admin of the server, or no longer; or give them another address."""
        body = await _body(services, request, "email", "admin")
        email = _word(body, "email") if "email" in body else None
        return JSONResponse({"user": asdict(await _do(services, SetUser(name, _flag(body, "admin"), email)))})

    @router.delete("/users/{name}", status_code=204)
    async def drop_user(name: str) -> Response:
        """Remove a user, with all tokens. Their jobs stay."""
        await _do(services, DropUser(name))
        return Response(status_code=204)


def _projects(router: APIRouter, services: Services) -> None:
    @router.get("/projects", responses=ANY)
    async def projects(request: Request) -> Response:
        """The projects that the caller may see."""
        actor = actor_of(request)
        found = await run_in_threadpool(services.store.projects)
        return JSONResponse({"projects": [asdict(each) for each in found if actor.sees(each.name)]})

    @router.put("/projects/{project}", status_code=201, responses=ANY)
    async def add_project(project: str, request: Request) -> Response:
        """Make a project."""
        made = await _do(services, AddProject(project, actor_of(request).name))
        return JSONResponse({"project": asdict(made)}, 201)

    @router.put("/projects/{project}/references", openapi_extra=REFERENCES, responses=ANY)
    async def allow_references(project: str, request: Request) -> Response:
        """Say which references to secrets kept elsewhere a project may have: these, and no others."""
        body = await _body(services, request, "references")
        allowed = check_allowed(body.get("references"))
        if (record := recording.get()) is not None:
            record.detail = ", ".join(allowed)[:2000] or "none"
        made = await _do(services, AllowReferences(project, allowed))
        return JSONResponse({"project": asdict(made)})

    @router.delete("/projects/{project}", status_code=204)
    async def drop_project(project: str) -> Response:
        """Remove a project in which nothing goes on. Records of its jobs stay."""
        await _do(services, DropProject(project))
        return Response(status_code=204)


def _members(router: APIRouter, services: Services) -> None:
    def own(request: Request, project: str) -> None:
        if not actor_of(request).sees(project):
            raise NotFound(f'no project "{project[:80]}"', "headway project ls")
        check(request, project)

    @router.get("/projects/{project}/members", responses=ANY)
    async def members(project: str, request: Request) -> Response:
        """Who is in a project, in which role."""
        own(request, project)
        found = await run_in_threadpool(services.store.members, project)
        return JSONResponse({"members": [asdict(each) for each in found]})

    @router.put("/projects/{project}/members/{user}", status_code=204, openapi_extra=MEMBER)
    async def set_member(project: str, user: str, request: Request) -> Response:
        """Give a user a role in a project."""
        own(request, project)
        body = await _body(services, request, "role")
        await _do(services, SetMember(project, user, str(body.get("role"))))
        return Response(status_code=204)

    @router.delete("/projects/{project}/members/{user}", status_code=204)
    async def drop_member(project: str, user: str, request: Request) -> Response:
        """Take a user out of a project."""
        own(request, project)
        await _do(services, SetMember(project, user, None))
        return Response(status_code=204)


def _tokens(router: APIRouter, services: Services) -> None:
    store = services.store

    @router.get("/tokens", responses=ANY)
    async def tokens(request: Request) -> Response:
        """The tokens that are the caller's to revoke. Never the secret: it was shown when the token was made."""
        actor = actor_of(request)
        found = await run_in_threadpool(store.tokens)
        return JSONResponse({"tokens": [show_token(each) for each in found if _rules(actor, each)]})

    @router.post("/tokens", status_code=201, openapi_extra=NEW_TOKEN, responses=ANY)
    async def add_token(request: Request) -> Response:
        """Make a token: for oneself; for a project, by its admins; for anybody, by admins of the server."""
        body = await _body(services, request, "label", "user", "project", "role", "expires_in_s")
        text, prefix, hash = new_token()
        life_s = number(body, "expires_in_s", 1, EXPIRES_S_MAX) if "expires_in_s" in body else None
        if "expires_in_s" not in body:
            life_s = services.settings.token_life_s
        wish = _wished(actor_of(request), body)
        token = Token(prefix, hash, wish["kind"], _word(body, "label", LABEL_MAX), **wish["words"])
        if token.kind == "service" and not token.label:
            raise BadInput("label: a service token needs one", "its name, such as ci")
        saved = await _do(services, SaveToken(token, life_s))
        return JSONResponse({"token": text, **show_token(saved)}, 201)

    @router.delete("/tokens/{prefix}", status_code=204)
    async def revoke(prefix: str, request: Request) -> Response:
        """Revoke a token."""
        token = await run_in_threadpool(store.token, prefix.removeprefix("hw_"))
        if token is None or not _rules(actor_of(request), token):
            raise NotFound(f'no token "{prefix[:80]}"', "headway token ls")
        await _do(services, RevokeToken(token.prefix))
        return Response(status_code=204)


def show_token(token: Token) -> dict[str, Any]:
    shown = asdict(token)
    del shown["hash"]
    return {**shown, "prefix": f"hw_{token.prefix}"}


def _rules(actor: Actor, token: Token) -> bool:
    """Whether a token is the caller's to see and to revoke."""
    if actor.admin:
        return True
    if token.kind == "service":
        return actor.may(Right.MANAGE, token.project)
    return actor.kind == "user" and token.user == actor.name


def _wished(actor: Actor, body: dict[str, Any]) -> dict[str, Any]:
    """Whom a new token shall stand for, if that is the caller's to say."""
    user, project = _word(body, "user"), _word(body, "project")
    if user and project:
        raise BadInput("a token stands for a user or for a project, not for both")
    if project:
        if not actor.sees(project):
            raise NotFound(f'no project "{project[:80]}"', "headway project ls")
        if not actor.may(Right.MANAGE, project):
            raise NotAllowed(f'"{actor.name}" is not an admin of "{project}"', "its admins make its service tokens")
        role = _word(body, "role") or "member"
        return {"kind": "service", "words": {"user": actor.name, "project": project, "role": role}}
    if actor.kind == "service":
        raise NotAllowed("a service token makes no tokens")
    if not user and actor.kind != "user":
        raise BadInput("user: whose token?", "headway token create --user NAME")
    if user and user != actor.name and not actor.admin:
        raise NotAllowed(f'"{actor.name}" may not make a token for "{user[:80]}"')
    return {"kind": "personal", "words": {"user": user or actor.name}}
