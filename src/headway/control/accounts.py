"""Who may come in: the key that signs tokens of nodes and servers."""

from __future__ import annotations

import secrets

from headway.core.tokens import KEY_BYTES, Signer
from headway.store.protocol import Store

NODE_KEY = "node-tokens"


def shared_signer(store: Store) -> Signer:
    """What signs the tokens of nodes: with one key for all servers of a store, made by the first of them."""
    return Signer(bytes.fromhex(store.shared_key(NODE_KEY, secrets.token_hex(KEY_BYTES))))
