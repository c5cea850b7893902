"""The keys that sign: made from the key file, never kept in the database, so that a copy of that opens nothing.

Which key file belongs to a database is told by a check value, which signs nothing: several servers on one database need
the same file, and one with another is told so when it starts.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping

import structlog

from headway.control.access.sealing import KeyRing
from headway.core.access.tokens import KEY_BYTES, Signer, derived
from headway.core.errors import OperatorError
from headway.store.protocol import Store

IN_DATABASE = "node-tokens"  # Under this name a database of before had the key itself.
CHECK, HOUSE, REVOKED = "key-check", "house", "revoked-nodes"
BEFORE = "nodes-before-"  # Begins the id of a key that came out of a database, with the time at which it came.
BEFORE_GOOD_S = 86400.0  # Old copies of the database have it as well: nodes are given new tokens long before.
LOOK_EVERY_S = 1.0

log = structlog.get_logger()


class Signing:
    """What signs now. The key file is looked at again now and then; one that cannot be read changes nothing."""

    def __init__(self, ring: KeyRing, now: Callable[[], float] = time.time) -> None:
        self._ring, self._now = ring, now
        self._signer: Signer | None = None
        self._keys: dict[str, bytes] = {}
        self._look_at = 0.0
        self.revoked: dict[str, int] = {}  # By node: how often its tokens were revoked. Replaced, never changed.

    def know(self, revoked: dict[str, int]) -> None:
        """Tokens that were revoked, here or by another server."""
        if revoked != self.revoked:
            self.revoked, self._keys = revoked, {}
            self._look_at = 0.0

    @property
    def signer(self) -> Signer:
        """Another object when the keys have changed."""
        mono = time.monotonic()
        if self._signer is None or mono >= self._look_at:
            self._look_at = mono + LOOK_EVERY_S
            self._look()
        assert self._signer is not None
        return self._signer

    def _look(self) -> None:
        try:
            keys = self._ring.keys()
        except (OperatorError, OSError) as error:
            if self._signer is None:
                raise
            log.error("the key file cannot be read; the keys of before are used", error=str(error))
            return
        keys = {name: key for name, key in keys.items() if not _over(name, self._now())}
        if keys != self._keys:
            self._signer, self._keys = signer_of(keys, self.revoked), keys


def signer_of(keys: dict[str, bytes], revoked: Mapping[str, int] | None = None) -> Signer:
    own = [key for name, key in keys.items() if not name.startswith(BEFORE)]
    return Signer(own, [key for name, key in keys.items() if name.startswith(BEFORE)], revoked)


def read_revoked(store: Store) -> dict[str, int]:
    """How often the tokens of nodes were revoked, as all servers of a store know it."""
    return {str(node): int(times) for node, times in json.loads(store.shared_value(REVOKED) or "{}").items()}


def revoke(store: Store, node: str) -> dict[str, int]:
    """Let all tokens that a node was given be good for nothing, at every server; whoever starts it has a new one."""
    known = read_revoked(store)
    known[node] = known.get(node, 0) + 1
    store.put_shared_value(REVOKED, json.dumps(known))
    return known


def added(keys: Mapping[str, bytes], on_top: bool) -> dict[str, bytes]:
    """The keys with a fresh one: it signs at once, or is only accepted until all servers have it."""
    fresh = {secrets.token_hex(4): secrets.token_bytes(KEY_BYTES)}
    first = dict(list(keys.items())[:1])
    return {**fresh, **keys} if on_top else {**first, **fresh, **keys}


def promoted(keys: Mapping[str, bytes]) -> dict[str, bytes]:
    """The keys with the second, which all servers have by now, on top."""
    names = list(keys)
    return {name: keys[name] for name in (names[1:2] + names[:1] + names[2:])}


def _over(name: str, now: float) -> bool:
    since = name.removeprefix(BEFORE)
    return name.startswith(BEFORE) and not (since.isdecimal() and now < int(since) + BEFORE_GOOD_S)


def ready(store: Store, ring: KeyRing, shared: bool, now: float) -> None:
    """See that there are keys, outside the database and the same at all of its servers. Called before anything signs.

    The first server of a database makes the file where there is none; to all others of that database it is given.
    """
    known = store.shared_value(CHECK)
    if not shared or not known:
        ring.make_sure()
    _move_out(store, ring, now)
    keys = ring.keys()
    newest = next(iter(keys))
    known = store.shared_key(CHECK, check_of(newest, keys[newest]))
    name = known.partition(" ")[0]
    if name in keys and hmac.compare_digest(check_of(name, keys[name]), known):
        return
    if shared:
        raise OperatorError(
            f'{ring.path} does not have the key "{name}", with which the servers of this database sign',
            "copy the key file of another server there; where it is lost: headway server rotate-keys --lost",
        )
    # Nobody else signs for a private database: its file was lost, and what that sealed stays shut.
    log.warning("the key file is another one than before; secrets of before do not open", file=str(ring.path))
    store.put_shared_value(CHECK, check_of(newest, keys[newest]))


def check_of(name: str, key: bytes) -> str:
    """By what a key is known again, without being told."""
    return f"{name} {derived(key, 'check').hex()[:16]}"


def _move_out(store: Store, ring: KeyRing, now: float) -> None:
    """Take the key out of a database of before. Its nodes' tokens are good for a day; by then they have new ones."""
    text = store.shared_value(IN_DATABASE)
    if not text:
        return
    key, keys = bytes.fromhex(text), ring.keys()
    store.shared_key(HOUSE, house_of_before(key))
    if key not in keys.values():
        try:
            ring.write({**keys, f"{BEFORE}{int(now)}": key})
        except OSError as error:
            log.warning("tokens of before are good no more: the key file cannot be written", error=str(error))
    store.put_shared_value(IN_DATABASE, "")
    log.info("the key that signs was moved out of the database", file=str(ring.path))


def house_id(store: Store) -> str:
    """A name for all servers that share one store: what they have on a host is theirs together, and nobody else's."""
    return store.shared_key(HOUSE, secrets.token_hex(6))


def house_of_before(key: bytes) -> str:
    """The name that was made from the key: hosts have directories of that name."""
    return hashlib.sha256(_server_token(key).encode()).hexdigest()[:12]


def _server_token(key: bytes) -> str:
    import base64

    seal = base64.urlsafe_b64encode(hmac.digest(key, b"hws:house", "sha256")).decode().rstrip("=")
    return f"hws_{base64.urlsafe_b64encode(b'house').decode().rstrip('=')}.{seal}"
