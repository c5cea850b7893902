"""Which nodes to get and which to give back, from what pools want and what engines see.

Pure: the answer is data, and the same sightings give the same answer. The performer carries it out, and may repeat it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headway.core.growth.demand import Demand, Fleet
from headway.core.growth.node_orders import LEAVING, NodeOrder, order_id, order_of
from headway.core.model import NodeId, Pool, PoolName
from headway.core.spec.hosts import node_of
from headway.core.spec.pool import OPEN


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


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What is known of the nodes of an ordered pool beside its orders."""

    busy: frozenset[NodeId] = frozenset()  # They have a task that may be alive.
    idle_since: Mapping[str, float] = field(default_factory=dict)  # By order: since when nobody uses it.
    hold_until: float = 0.0  # After orders that came to nothing: no new one before then.


@dataclass
class Growth:
    """What becomes of a pool's orders."""

    new: list[NodeOrder] = field(default_factory=list)
    leaving: list[NodeOrder] = field(default_factory=list)
    idle_since: dict[str, float] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)  # Orders of which nobody called home in time.


def grow_ordered(fleet: Fleet, demand: Demand, upkeep: Upkeep, now: float) -> Growth:
    """Which orders to make and which to give back. Pure; what it says is saved before any engine hears of it."""
    pool, growth = fleet.pool, Growth()
    staying = [order for order in fleet.orders if order.state != LEAVING]
    least = pool.nodes_min if pool.state == OPEN else 0
    left = sum(order.nodes for order in staying)
    budget = max(0, pool.nodes_max - fleet.alive)
    groups = demand.groups.get(pool.name, []) if now >= upkeep.hold_until and pool.state == OPEN else []
    broken = fleet.broken(now)
    # Whoever could run on idle nodes alone runs there: they may go where the first order does not fit beside them.
    blocked = groups[0][1] - budget if groups else 0
    short = sum(count for _, count in groups) - budget  # So many nodes are in the way of others.
    for order in sorted(staying, key=lambda each: (each.asked_at, each.id)):
        unused = _unused(order, fleet, demand, upkeep)
        if unused:
            growth.idle_since[order.id] = upkeep.idle_since.get(order.id, now)
        busy = any(order_of(node) == order.id for node in upkeep.busy)
        if order.id in broken and not busy:
            # All or none: an allocation that has lost a node is given back as soon as nothing runs there.
            if not any(order_of(node) == order.id for node in fleet.present):
                growth.late.append(order.id)
        elif left - order.nodes < least or not (unused or (blocked > 0 and order.filled_at is not None and not busy)):
            continue
        elif unused and order.filled_at is not None and not (short > 0 or pool.state != OPEN or left > pool.nodes_max):
            warm = now - growth.idle_since[order.id] < pool.idle_s
            if warm:
                continue
        growth.leaving.append(replace(order, state=LEAVING))
        left -= order.nodes
        short -= order.nodes
        blocked -= order.nodes
    for jobs, count in groups:
        if count > budget:
            break  # Whoever comes first is not overtaken by those who want less.
        growth.new.append(NodeOrder(order_id(pool.name, jobs, 0, now), pool.name, count, now))
        budget -= count
        left += count
    for number in range(max(0, min(budget, least - left)) if now >= upkeep.hold_until else 0):
        growth.new.append(NodeOrder(order_id(pool.name, ("least",), number, now), pool.name, 1, now))
    return growth


def _unused(order: NodeOrder, fleet: Fleet, demand: Demand, upkeep: Upkeep) -> bool:
    nodes = [*order.node_ids, *(node for node in fleet.present if order_of(node) == order.id)]
    return not any(node in demand.used or node in upkeep.busy for node in nodes)
