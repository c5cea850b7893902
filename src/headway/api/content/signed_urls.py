"""Addresses that open one object for a while, so that a node needs no key to storage.

A bucket signs for itself. For a folder the server does: HMAC over method, key, when it was given and the end of its
validity, all by the server's own clock. Both look the same to an agent.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from headway.core.errors import NotAllowed
from headway.storage.protocol import Storage, check_key

METHODS = ("PUT", "GET")


@dataclass(frozen=True, slots=True)
class SignedUrls:
    storage: Storage
    keys: Callable[[], Sequence[bytes]]  # What all servers of one store share; the first signs.
    now: Callable[[], float]
    good_for_s: float

    def give(self, method: str, keys: list[str]) -> list[str]:
        """An address for each key: absolute where storage has its own, else below the server's."""
        wanted = [check_key(key) for key in keys]
        given = self.storage.sign(method, wanted, self.good_for_s)
        if given is None:
            return [self._own(method, key) for key in wanted]
        return [url or self._own(method, key) for key, url in zip(wanted, given, strict=True)]

    def _own(self, method: str, key: str) -> str:
        now = self.now()
        expires, given_ms = int(now + self.good_for_s), int(now * 1000)
        signature = _signature(self.keys()[0], method, key, expires, given_ms)
        return f"/agent/objects/{quote(key)}?expires={expires}&given={given_ms}&signature={signature}"

    def check(self, method: str, key: str, query: Mapping[str, str]) -> float:
        """Raise unless this address was given out for this method and object, and is still good. Returns since when."""
        times = [query.get("expires", ""), query.get("given", "")]
        right = all(each.isdecimal() and each.isascii() and len(each) < 16 for each in times)
        expires, given_ms = map(int, times) if right else (0, 0)
        signatures = [_signature(each, method, key, expires, given_ms) for each in self.keys()]
        shown = query.get("signature", "").encode()
        if not right or not any(hmac.compare_digest(shown, signature.encode()) for signature in signatures):
            raise NotAllowed("the address is not one that this server has signed", "ask for a new one: /agent/urls")
        if expires < self.now():
            raise NotAllowed("the address is no longer good", "ask for a new one: /agent/urls")
        return given_ms / 1000


def _signature(secret: bytes, method: str, key: str, expires: int, given_ms: int) -> str:
    said = f"object {method}\n{expires}\n{given_ms}\n{key}".encode("utf-8", "surrogatepass")
    return hmac.new(secret, said, hashlib.sha256).hexdigest()
