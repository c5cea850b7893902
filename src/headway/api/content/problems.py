"""Every error as one problem document: what is wrong, with what was asked, and what to do."""

from __future__ import annotations

from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from headway.control.nodes.sync import StaleAgent
from headway.control.server.safe_log import error_id
from headway.core.errors import HeadwayError, NotLeader

log = structlog.get_logger()
MEDIA = "application/problem+json"
TOLD = "headway.told"  # In the scope: the error that was answered and logged already.


def problem(status: int, kind: str, detail: str, hint: str = "", **more: Any) -> Response:
    detail, hint = (text.encode("utf-8", "replace").decode() for text in (detail, hint))  # What was asked is quoted.
    body = {"type": kind, "title": kind.replace("-", " "), "status": status, "detail": detail, "hint": hint, **more}
    return JSONResponse(body, status, media_type=MEDIA)


def of(error: HeadwayError) -> Response:
    """The document of one of our own errors."""
    more: dict[str, Any] = {"stale": True, "newest": error.newest} if isinstance(error, StaleAgent) else {}
    if error.untouched:
        more["carried_out"] = False
    if isinstance(error, NotLeader):
        more["leader"] = error.leader
    return problem(error.status, error.kind, error.message, error.hint, **more)


def of_the_unexpected(scope: Scope, error: Exception) -> Response:
    """The document of an error that nobody foresaw: what it was stands in the log alone, under the same id."""
    id = error_id()
    scope[TOLD] = error
    log.error("request failed", id=id, method=scope["method"], path=scope["path"], exc_info=error)
    return problem(500, "internal", f"the server met something unexpected; its log says more under {id}", id=id)


def broke_off(scope: Scope, error: Exception) -> None:
    """Say once that an answer ended before its end. Whoever reads it sees its connection close."""
    if scope.get(TOLD) is not error:
        log.error("answer broke off", method=scope["method"], path=scope["path"], exc_info=error)


def install(app: FastAPI) -> None:
    @app.exception_handler(HeadwayError)
    async def ours(request: Request, error: HeadwayError) -> Response:
        return of(error)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        kind = {404: "not-found", 405: "wrong-method", 401: "not-allowed"}.get(error.status_code, "bad-request")
        return problem(error.status_code, kind, f"{request.method} {request.url.path}: {error.detail}")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return problem(422, "bad-input", f"{where}: {first['msg']}")

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return of_the_unexpected(request.scope, error)
