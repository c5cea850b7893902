"""Where the parts of a bundle lie in storage, and what its list says."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from headway.core.errors import Unavailable
from headway.core.spec.bundle import Manifest
from headway.storage.protocol import Storage

READ_TRIES = 3


def content_key(sha256: str) -> str:
    return f"bundles/files/{sha256}"


def manifest_key(digest: str) -> str:
    return f"bundles/{digest}.json"


def read_bundle(storage: Storage, digest: str) -> dict[str, Any]:
    """A manifest from storage, if it is what its name says; read again, if it is not."""
    for _ in range(READ_TRIES):
        with suppress(ValueError, KeyError, TypeError):
            found: dict[str, Any] = json.loads(storage.get(manifest_key(digest)))
            if Manifest(tuple(found["files"])).digest == digest:
                return found
    raise Unavailable(f"the list of bundle {digest[:12]} comes from storage damaged", "see headway server status")
