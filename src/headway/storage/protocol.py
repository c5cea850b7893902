"""What every storage can do: keep objects under keys. It knows nothing of jobs.

An object is whole or absent: no reader ever sees half of one. conformance.py is the law.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Storage(Protocol):
    """Every method may be called from any thread. Failures raise `Unavailable`; a missing object `NotFound`."""

    def put(self, key: str, data: bytes) -> None:
        """Keep an object durably. A second put of the same key replaces it."""
        ...

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes: ...

    def size(self, key: str) -> int | None:
        """Bytes in the object, or None when there is none."""
        ...

    def delete(self, keys: list[str]) -> None:
        """Afterwards none of these exist. Missing ones are no error."""
        ...

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Keys below a prefix, with their sizes."""
        ...

    def local_dir(self) -> str:
        """The directory in which a process on this host may write objects itself; empty when there is none."""
        ...
