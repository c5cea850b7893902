"""Tokens that need no memory: what a node's agent shows, and what an ordered node shows to be given that. Pure.

Such a token names its bearer and is signed with a key that only servers have, in a file beside the database. Each kind
has a key of its own, made from that file's by a label. Tokens of people are random and kept (hashed) in the store:
control/access/accounts.py.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import NamedTuple

NODE, NEWCOMER = "hwn", "hwe"
LABELS = {NODE: "tokens of nodes", NEWCOMER: "codes of ordered nodes"}
ADDRESSES, GANGS, SERVERS = "addresses of objects", "keys of gangs", "proofs of servers"
KEY_BYTES = 32
NAME_MAX = 200


class Bearer(NamedTuple):
    """Whom a token was signed for."""

    kind: str
    name: str
    fresh: bool = True  # Signed with the newest key.


def derived(key: bytes, label: str) -> bytes:
    """A key for one use. Who has it learns nothing of the key that it was made from, nor of any other use."""
    return hmac.digest(key, f"headway: {label}".encode(), "sha256")


class Signer:
    """Makes and reads signed names. The first key signs, all are accepted.

    `before` signed what a database of before had handed out; nodes still show it until they have been given another.
    """

    def __init__(
        self, keys: Sequence[bytes], before: Sequence[bytes] = (), revoked: Mapping[str, int] | None = None
    ) -> None:
        self._keys = {kind: [derived(key, label) for key in keys] for kind, label in LABELS.items()}
        self._before = list(before)
        self._revoked = dict(revoked or {})  # By node: how often its tokens were revoked.
        self.addresses = [derived(key, ADDRESSES) for key in keys]
        self.gangs = derived(keys[0], GANGS)
        self._servers = [derived(key, SERVERS) for key in keys]

    def token_for(self, node: str) -> str:
        """The token of a node's agent. The same at every server, until the keys are rotated."""
        return _signed(self._keys[NODE][0], NODE, node, self._revoked.get(node, 0))

    def code_for(self, node: str) -> str:
        """For this an ordered node is given its token, once. It may stand where a platform keeps it:
        api/routes/agents.py.
        """
        return _signed(self._keys[NEWCOMER][0], NEWCOMER, node)

    def proofs(self, address: str, nonce: str) -> list[str]:
        """What a server at this address proves to another one of the same store; by each key, the newest first."""
        said = f"server\n{address}\n{nonce}".encode()
        return [hmac.digest(key, said, "sha256").hex() for key in self._servers]

    def tokens_of(self, named: str) -> list[str]:
        """All tokens that are good now for whom the open part of one names, the newest first."""
        found = kind_and_name(named)
        if found is None:
            return []
        times = self._revoked.get(found[1], 0) if found[0] == NODE else 0
        return [_signed(key, *found, times) for key in self._keys[found[0]] + ([] if times else self._before)]

    def bearer(self, token: str) -> Bearer | None:
        """Whom a token was signed for, or None if it was not signed here."""
        found = kind_and_name(token.partition(".")[0])
        if found is None or len(token) > 2 * NAME_MAX + 100:
            return None
        for number, good in enumerate(self.tokens_of(token.partition(".")[0])):
            if hmac.compare_digest(good.encode(), token.encode()):
                return Bearer(*found, fresh=number == 0)
        return None


def kind_and_name(named: str) -> tuple[str, str] | None:
    """What the open part of a token says, whoever wrote it."""
    kind, _, rest = named.partition("_")
    if kind not in LABELS or len(named) > 2 * NAME_MAX:
        return None
    try:
        return kind, base64.urlsafe_b64decode(rest + "==").decode()
    except ValueError:
        return None


def _signed(key: bytes, kind: str, name: str, times: int = 0) -> str:
    seal = hmac.digest(key, (f"{kind}:{name}" + (f"\n{times}" if times else "")).encode(), "sha256")
    return f"{kind}_{_text(name.encode())}.{_text(seal)}"


def proof(token: str, nonce: str, port: int) -> str:
    """What only a server with this token can answer, at this port: nobody can pass on what another has answered."""
    return hmac.digest(token.encode(), f"health\n{nonce}\n{port}".encode(), "sha256").hex()


def hashed(secret: str) -> str:
    """What is kept of a token: enough to know it again, too little to use it. (It is random, so no salt is needed.)"""
    return hashlib.sha256(secret.encode()).hexdigest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
