"""The seal of a checkpoint's manifest: its last entry is the hash of all that stands before it (agent-protocol.md)."""

from __future__ import annotations

import hashlib

_BEGIN, _END = b',"sha256":"', b'"}'
_LENGTH = len(_BEGIN) + 64 + len(_END)


def is_whole(manifest: bytes) -> bool:
    """Whether it says what it was sealed with. Those of older agents have no seal, and are taken as they are."""
    said, seal = manifest[:-_LENGTH], manifest[-_LENGTH:]
    if not seal.startswith(_BEGIN):
        return True
    return seal == _BEGIN + hashlib.sha256(said + b"}").hexdigest().encode() + _END
