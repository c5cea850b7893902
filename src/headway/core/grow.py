"""Which nodes to get and which to give back, from what pools want and what engines see.

Pure: the answer is data, and the same sightings give the same answer. The performer carries it out, and may repeat it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headway.core.hosts import node_of
from headway.core.model import NodeId, Pool, PoolName


@dataclass(frozen=True, slots=True)
class Order:
    """A wish for nodes, put to an engine: all of them or none. Its id makes twice into once."""

    id: str
    pool: PoolName
    nodes: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Nodes that nobody needs any more."""

    pool: PoolName
    nodes: tuple[NodeId, ...]


def standing_nodes(pool: Pool) -> tuple[NodeId, ...]:
    """The ids of the nodes that a pool always has."""
    if pool.hosts:
        return tuple(node_of(pool.name, host) for host in pool.hosts) if pool.nodes_min else ()
    return tuple(f"{pool.name}-{number}" for number in range(1, pool.nodes_min + 1))


def grow(pool: Pool, up: Iterable[NodeId], seen: Iterable[NodeId], busy: Mapping[NodeId, int]) -> list[Order | Release]:
    """What to ask of one pool's engine: its standing nodes where they are not up; strangers without work go back."""
    wanted = standing_nodes(pool)
    there = set(up)
    asks: list[Order | Release] = []
    for node in wanted:
        if node not in there:
            asks.append(Order(id=node, pool=pool.name, nodes=(node,)))
    # A node that no order explains is released, but never under a task that may be alive there.
    strangers = tuple(sorted(node for node in set(seen) - set(wanted) if not busy.get(node)))
    if strangers:
        asks.append(Release(pool.name, strangers))
    return asks
