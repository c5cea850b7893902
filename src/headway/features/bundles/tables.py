"""Where bundles are noted: that one exists, and when it was last used. Manifests and files are in storage."""

from __future__ import annotations

from dataclasses import dataclass

from headway.store.tables import Table


@dataclass(frozen=True, slots=True)
class Bundle:
    """Code that was uploaded, named by its content."""

    digest: str
    bytes: int
    files: int
    created_at: float
    last_used_at: float


BUNDLES = Table("bundles", Bundle, key=("digest",), used_as="bundle")
