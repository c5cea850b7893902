"""Files that features serve to anybody: pages, scripts, pictures. Read from a folder, with a type and a tag each.

Names with a hash in them never change, and may be kept for ever; all others are asked for again. An address that is no
file, and has no ending, is the page's own: it gets the page.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.api.content import problems
from headway.api.web.feature_routes import StaticFiles

HASHED = re.compile(r"[-.][0-9a-zA-Z_]{8,}\.\w+$")
SAFETY = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
}


def route_of(static: StaticFiles) -> list[Route]:
    """The routes of a folder: its page, and everything below."""
    root = static.folder.resolve()

    async def serve(request: Request) -> Response:
        asked = request.path_params.get("path", "") or static.page
        found = await run_in_threadpool(_find, root, asked, static.page)
        if found is None:
            return problems.problem(404, "not-found", f"{request.url.path[:200]}: no such page")
        data, name = found
        tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        kept = "public, max-age=31536000, immutable" if HASHED.search(name) else "no-cache"
        headers = {**SAFETY, "ETag": tag, "Cache-Control": kept}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, headers=headers, media_type=mimetypes.guess_type(name)[0] or "application/octet-stream")

    return [Route(static.path, serve), Route(f"{static.path}/{{path:path}}", serve)]


def _find(root: Path, asked: str, page: str) -> tuple[bytes, str] | None:
    """The bytes and the name of a file below the folder; for an address without an ending, of the page."""
    for name in (asked, *([page] if "." not in asked.rpartition("/")[2] else [])):
        path = (root / name).resolve()
        if path.is_relative_to(root) and path.is_file():
            return path.read_bytes(), path.name
    return None
