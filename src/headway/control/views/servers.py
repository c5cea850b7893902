"""The servers of one store as people list them: those that are there, and those that went lately.

A server has a new name with every start. So one that was killed and started again would stand there twice, and after
a bad day dozens of times: whoever was started in its place replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence

from headway.store.protocol import ServerSeen

SEEN_WITHIN_S = 15.0  # A server that was seen within it counts as there.
FORGOTTEN_AFTER_S = 86400.0


def is_there(server: ServerSeen, now: float) -> bool:
    return now - server.seen_at <= SEEN_WITHIN_S


def listed(servers: Sequence[ServerSeen], now: float) -> list[ServerSeen]:
    """Without those that are replaced, or silent for a day. Times are the store's own."""
    return [
        each
        for each in servers
        if now - each.seen_at <= FORGOTTEN_AFTER_S and not any(_replaces(other, each, now) for other in servers)
    ]


def _replaces(other: ServerSeen, one: ServerSeen, now: float) -> bool:
    """Two cannot listen at one address of one machine; elsewhere the same one may be a mistake, for people to see."""
    same_place = other.address == one.address and (other.host == one.host or not is_there(one, now))
    return same_place and (other.seen_at, other.started_at) > (one.seen_at, one.started_at)
