"""Digests of what a node has and of what it was told to do: by them both sides see that nothing was missed.

A digest is the XOR of a share for each entry, so both keep it up by what changes.
"""

from __future__ import annotations

try:  # The bare module costs no memory; hashlib brings OpenSSL with it, which is 4 MB.
    from _blake2 import blake2b
except ImportError:  # pragma: no cover
    from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping


def share(key: str, word: str) -> int:
    """One entry's share: a task with its phase, or with the mark of its duty."""
    return int.from_bytes(blake2b(f"{key} {word}".encode(), digest_size=8).digest(), "big")


def shown(digest: int) -> str:
    return f"{digest:016x}"


def digest_of(pairs: Mapping[str, str]) -> str:
    """The digest of all these entries, as it travels."""
    total = 0
    for key, word in pairs.items():
        total ^= share(key, word)
    return shown(total)
