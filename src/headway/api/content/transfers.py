"""Large bodies over HTTP: files that come in without being held in memory, and ranges that go out in slices."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from headway.api.content.bodies import refuse_packed
from headway.core.errors import BadInput, Unavailable
from headway.storage.protocol import Storage

SLICE_BYTES = 4 * 2**20
WRITE_BYTES = 2**20
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")


@dataclass(frozen=True, slots=True)
class Draft:
    """A body that was received: small ones in memory, large ones in a file."""

    sha256: str
    size: int
    data: bytes | None
    path: str = ""

    def put(self, storage: Storage, key: str) -> None:
        if self.data is not None:
            storage.put(key, self.data)
        else:
            storage.put_file(key, self.path)


@asynccontextmanager
async def received(request: Request, storage: Storage, bytes_max: int) -> AsyncIterator[Draft]:
    """The request's body with its hash. A file of it is gone afterwards, unless storage took it."""
    refuse_packed(request)
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > bytes_max:
        raise BadInput(f"the body has {announced} bytes; at most {bytes_max} are taken")
    digest, size, pieces, held = hashlib.sha256(), 0, [], 0
    handle, path = -1, ""
    try:
        async for piece in request.stream():
            size += len(piece)
            held += len(piece)
            if size > bytes_max:
                raise BadInput(f"the body is larger than {bytes_max} bytes")
            pieces.append(piece)
            if held >= WRITE_BYTES:
                if handle < 0:
                    handle, path = await run_in_threadpool(tempfile.mkstemp, dir=storage.draft_dir())
                data, pieces, held = b"".join(pieces), [], 0
                await run_in_threadpool(_write, handle, digest, data)
        rest = b"".join(pieces)
        if handle < 0:
            digest.update(rest)
            yield Draft(digest.hexdigest(), size, rest)
        else:
            await run_in_threadpool(_write, handle, digest, rest)
            yield Draft(digest.hexdigest(), size, None, path)
    except OSError as error:
        raise _full(error) from error
    finally:
        if handle >= 0:
            os.close(handle)
            with suppress(OSError):
                os.unlink(path)


def sha256_of(storage: Storage, key: str) -> str:
    digest, at = hashlib.sha256(), 0
    while piece := storage.get(key, at, at + SLICE_BYTES):
        digest.update(piece)
        at += len(piece)
    return digest.hexdigest()


def _write(handle: int, digest: hashlib._Hash, data: bytes) -> None:
    digest.update(data)
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _full(error: OSError) -> Exception:
    return Unavailable(f"the body could not be written: {(error.strerror or str(error)).lower()}", "try again later")


def ranged(request: Request, size: int, read: Callable[[int, int], bytes], name: str = "") -> Response:
    """An answer with the bytes that were asked for: all, or one range. `read` may give less than it is asked for."""
    start, end, status = 0, size, 200
    headers = {"Accept-Ranges": "bytes"}
    asked = request.headers.get("range", "")
    if asked:
        match = _RANGE.fullmatch(asked.strip())
        if match is not None:
            start = int(match.group(1))
            end = min(size, int(match.group(2)) + 1) if match.group(2) else size
            if start >= size or start >= end:
                return Response(status_code=416, headers={**headers, "Content-Range": f"bytes */{size}"})
            status = 206
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    headers["Content-Length"] = str(end - start)
    if name:
        headers["Headway-Name"] = name.encode("ascii", "replace").decode()

    async def slices() -> AsyncIterator[bytes]:
        at = start
        while at < end:
            piece = await run_in_threadpool(read, at, min(end, at + SLICE_BYTES))
            if not piece:
                return  # Less than was promised: the connection breaks off, and nobody takes it for whole.
            at += len(piece)
            yield piece

    return StreamingResponse(slices(), status, headers, media_type="application/octet-stream")
