"""How a browser begins and ends a session: it shows a token once, and has it in a cookie from then on."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from headway.api.content.schemas import ANY
from headway.api.web.browser import csrf_of, sign_in, sign_out
from headway.api.web.gate import actor_of, given_token
from headway.api.web.services import Services


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["session"])

    @router.post("/session", responses=ANY)
    async def begin(request: Request) -> Response:
        """Keep the token of this call in a cookie; answers with the word that changes need (X-Headway-Csrf)."""
        token = given_token(request)
        answer = JSONResponse({"user": actor_of(request).name, "csrf": csrf_of(token)})
        sign_in(answer, token, secure=request.url.scheme == "https")
        return answer

    @router.get("/session", responses=ANY)
    async def look(request: Request) -> Response:
        """Who is signed in, and the word that changes need."""
        return JSONResponse({"user": actor_of(request).name, "csrf": csrf_of(given_token(request))})

    @router.delete("/session", status_code=204)
    async def end(request: Request) -> Response:
        """Sign out of this browser. The token itself stays good."""
        answer = Response(status_code=204)
        sign_out(answer)
        return answer

    return router
