"""Tokens that need no memory: what a node's agent, or another server of the same store, shows. Pure.

Such a token names its bearer and is signed with a key that all servers of one store share. Tokens of people are random
and kept (hashed) in the store: control/accounts.py.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass

NODE, SERVER, NEWCOMER = "hwn", "hws", "hwe"
KEY_BYTES = 32
NAME_MAX = 200


@dataclass(frozen=True, slots=True)
class Signer:
    """Makes and reads signed names. The key is what `Store.shared_key` gives."""

    key: bytes

    def token_for(self, node: str) -> str:
        """The token of a node's agent. The same at every server, at any time."""
        return self._signed(NODE, node)

    def code_for(self, node: str) -> str:
        """For this an ordered node is given its token, once. It may stand where a platform keeps it: api/agents.py."""
        return self._signed(NEWCOMER, node)

    def server_token(self, server: str) -> str:
        """What a server shows to another one of the same store when it passes a call on."""
        return self._signed(SERVER, server)

    def bearer(self, token: str) -> tuple[str, str] | None:
        """The kind and the name that a token was signed for, or None if it was not signed here."""
        kind, _, rest = token.partition("_")
        if kind not in (NODE, SERVER, NEWCOMER) or len(token) > 2 * NAME_MAX + 100:
            return None
        try:
            name = base64.urlsafe_b64decode(rest.partition(".")[0] + "==").decode()
        except ValueError:
            return None
        expected = self._signed(kind, name)
        return (kind, name) if hmac.compare_digest(expected.encode(), token.encode()) else None

    def _signed(self, kind: str, name: str) -> str:
        seal = hmac.digest(self.key, f"{kind}:{name}".encode(), "sha256")
        return f"{kind}_{_text(name.encode())}.{_text(seal)}"


def hashed(secret: str) -> str:
    """What is kept of a token: enough to know it again, too little to use it. (It is random, so no salt is needed.)"""
    return hashlib.sha256(secret.encode()).hexdigest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
