"""Accounts in memory: the part of memory.py that knows who may come in."""

from __future__ import annotations

import threading


class MemoryAccounts:
    _lock: threading.RLock

    def __init__(self) -> None:
        self._shared_keys: dict[str, str] = {}

    def shared_key(self, name: str, fresh: str) -> str:
        with self._lock:
            return self._shared_keys.setdefault(name, fresh)
