"""Code over HTTP: which contents are known, uploading the rest, and the manifest that makes them a bundle."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from headway.api.content.bodies import read_body, read_object
from headway.api.content.schemas import ANY, BUNDLE, MISSING, WANTED
from headway.api.content.transfers import received
from headway.api.web.feature_routes import FeatureRoutes
from headway.api.web.gate import actor_of
from headway.api.web.services import Services
from headway.core.access.actor import Right
from headway.core.errors import BadInput, NotFound
from headway.core.fields import check_keys
from headway.core.spec.bundle import PACK_BYTES_MAX, read_manifest, unpack
from headway.core.spec.program_words import DIGEST
from headway.core.units import show_size
from headway.features.bundles.rights import admit, holdings, is_readable
from headway.features.bundles.shelf import BundleStore, Holdings

FILE_BYTES_MAX = 64 * 2**30
ASKED_MAX = 100_000


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["bundles"])

    def shelf(request: Request) -> Holdings:
        return holdings(services, actor_of(request))

    @router.post("/bundles/missing", openapi_extra=WANTED, responses=MISSING)
    async def missing(request: Request) -> Response:
        """Which of these contents the server does not have."""
        body = await read_object(request, services.settings.request_bytes_max)
        check_keys(body, {"files": ""}, "request")
        asked = body.get("files")
        if not isinstance(asked, list) or len(asked) > ASKED_MAX:
            raise BadInput(f"files: expected a list of at most {ASKED_MAX:,} sha256")
        for sha256 in asked:
            _check(sha256)
        return JSONResponse({"missing": await run_in_threadpool(shelf(request).missing, asked)})

    @router.put("/bundles/files", status_code=204)
    async def put_pack(request: Request) -> Response:
        """Upload many small contents in one body: for each its sha256 (32 bytes), its size (4 bytes), its bytes."""
        contents = await run_in_threadpool(unpack, await read_body(request, PACK_BYTES_MAX))
        await run_in_threadpool(shelf(request).take_all, contents)
        return Response(status_code=204)

    @router.put("/bundles/files/{sha256}", status_code=204)
    async def put_file(sha256: str, request: Request) -> Response:
        """Upload one content. It must have the hash that it is named by."""
        _check(sha256)
        async with received(request, services.storage, FILE_BYTES_MAX) as draft:
            if draft.sha256 != sha256:
                raise BadInput(f"the content has the sha256 {draft.sha256}, not {sha256}", "it changed on its way")
            await run_in_threadpool(
                shelf(request).take, sha256, draft.size, lambda key: draft.put(services.storage, key)
            )
        return Response(status_code=204)

    @router.put("/bundles/{digest}", status_code=201, openapi_extra=BUNDLE, responses=ANY)
    async def put_bundle(digest: str, request: Request) -> Response:
        """Make a bundle of contents that are here. The same bundle again changes nothing."""
        manifest = read_manifest(await read_object(request, services.settings.request_bytes_max))
        most = services.settings.bundle_bytes_max
        if manifest.size_bytes > most:
            said = f"bundle: its files have {show_size(manifest.size_bytes)}; at most {show_size(most)} are taken"
            raise BadInput(said, "keep data apart from code: inputs:, or a volume; or the setting bundle_bytes_max")
        if manifest.digest != digest:
            raise BadInput(f"the files have the digest {manifest.digest}, not {digest[:64]}")
        await run_in_threadpool(shelf(request).complete, manifest)
        return JSONResponse({"digest": digest, "files": len(manifest.files), "bytes": manifest.size_bytes}, 201)

    @router.get("/bundles/{digest}", responses=ANY)
    async def bundle(digest: str, request: Request) -> Response:
        """What a bundle consists of, and what git said of it."""
        _check(digest)
        if not await run_in_threadpool(is_readable, services, actor_of(request), digest):
            raise NotFound(f'no bundle "{digest}"')
        return JSONResponse(await run_in_threadpool(services.part("bundles").manifest, digest))

    return router


def _check(sha256: object) -> None:
    if not isinstance(sha256, str) or not DIGEST.fullmatch(sha256):
        raise BadInput(f'"{str(sha256)[:80]}" is not a sha256', "64 hexadecimal digits in small letters")


ROUTES = FeatureRoutes(
    routes,
    {
        ("POST", "/api/v1/bundles/missing"): Right.CHANGE,
        ("PUT", "/api/v1/bundles/files"): Right.CHANGE,
        ("PUT", "/api/v1/bundles/files/{sha256}"): Right.CHANGE,
        ("PUT", "/api/v1/bundles/{digest}"): Right.CHANGE,
        ("GET", "/api/v1/bundles/{digest}"): Right.VIEW,
    },
    unrecorded=frozenset(
        {
            ("POST", "/api/v1/bundles/missing"),
            ("PUT", "/api/v1/bundles/files"),
            ("PUT", "/api/v1/bundles/files/{sha256}"),
        }
    ),
    here=frozenset({"/api/v1/bundles/{digest}"}),
    part=BundleStore,
    admit=admit,
)
