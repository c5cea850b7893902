"""The seal of a checkpoint's manifest: its last entry is the hash of all that stands before it."""

from __future__ import annotations

_BEGIN, _END = b',"sha256":"', b'"}'
_LENGTH = len(_BEGIN) + 64 + len(_END)


def sealed(manifest: bytes) -> bytes:
    """A manifest that ends with the hash of what it says without it: damage on the way back is seen."""
    return manifest[:-1] + _seal(manifest)


def is_whole(manifest: bytes) -> bool:
    """Whether it says what it was sealed with. Those of older agents have no seal, and are taken as they are."""
    said, seal = manifest[:-_LENGTH], manifest[-_LENGTH:]
    return not seal.startswith(_BEGIN) or seal == _seal(said + b"}")


def _seal(manifest: bytes) -> bytes:
    import hashlib  # Here: it costs 4 MB, which a node that never sees a checkpoint need not pay.

    return _BEGIN + hashlib.sha256(manifest).hexdigest().encode() + _END
