"""The sha256 of some bytes, by whichever module of this Python costs the least memory."""

from __future__ import annotations

import importlib


def sha256_of(content: bytes) -> str:
    for name in ("_sha2", "_sha256", "hashlib"):  # The bare modules cost no memory; hashlib brings OpenSSL with it.
        try:
            return str(importlib.import_module(name).sha256(content).hexdigest())
        except ImportError:
            continue
    raise RuntimeError("this Python has no sha256")
