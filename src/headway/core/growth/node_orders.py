"""Orders for nodes: what is remembered of one, and how its nodes are called.

An order is saved before the engine is asked, so that whatever an engine has of ours is explained by an order.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from headway.core.model import JobId, NodeId, Pool, PoolName
from headway.core.units import duration_s

ASKED, ORDERED, LEAVING = "asked", "ordered", "leaving"
NODE = re.compile(r"(?P<order>.+?)-(?P<index>\d+)(?:-r\d+)?")


@dataclass(frozen=True, slots=True)
class NodeOrder:
    """A wish for nodes, as it is saved: all of them or none."""

    id: str
    pool: PoolName
    nodes: int
    asked_at: float
    state: str = ASKED  # Then "ordered": the engine has taken it; "leaving": it is given back.
    filled_at: float | None = None  # When its nodes were there.
    until: float | None = None  # When the platform takes them back by itself.

    @property
    def node_ids(self) -> tuple[NodeId, ...]:
        return tuple(f"{self.id}-{index}" for index in range(self.nodes))


def order_of(node: NodeId) -> str:
    """The order that a node's id names. After a requeue by the platform a node is called anew: `…-0-r1`."""
    found = NODE.fullmatch(node)
    return found["order"] if found else ""


def index_of(node: NodeId) -> int:
    found = NODE.fullmatch(node)
    return int(found["index"]) if found else -1


def order_id(pool: PoolName, jobs: Iterable[JobId], number: int, now: float) -> str:
    """An id for a new order: the same for the same wish at the same moment."""
    said = f"{pool} {' '.join(jobs)} {number} {now:.3f}"
    return f"{pool}-{hashlib.blake2b(said.encode(), digest_size=5).hexdigest()}"


def life_s(pool: Pool) -> float | None:
    """How long a node of an ordered pool stays at the most, where the pool says so."""
    said = pool.options.get("time")
    return duration_s(said, "options.time") if said is not None else None
