"""The house rules in force: queues, pools, licences. A part of the book, read from the store at each start.

Only questions about them; what changes them is in cluster/commands.py.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headway.core.errors import NotFound
from headway.core.growth.grow import standing_nodes
from headway.core.growth.node_orders import LEAVING as BACK
from headway.core.growth.node_orders import NodeOrder, life_s, order_of
from headway.core.model import Node, Pool, Queue
from headway.core.spec.engine import Engines, rules_of
from headway.core.spec.pool import DRAINING, LEAVING
from headway.store.protocol import Store

DEFAULT = "default"


@dataclass
class ClusterConfig:
    """Mappings are replaced, never changed: other threads read them."""

    pools: Mapping[str, Pool] = field(default_factory=dict)
    queues: Mapping[str, Queue] = field(default_factory=dict)
    licences: Mapping[str, int] = field(default_factory=dict)
    orders: Mapping[str, NodeOrder] = field(default_factory=dict)
    engines: Engines = field(default_factory=dict)

    def queue(self, name: str) -> Queue:
        """The queue of this name. The default one is there without anybody's doing."""
        known = self.queues.get(name)
        if known is None and name != DEFAULT:
            raise NotFound(f'no queue "{name}"', nearest(name, [DEFAULT, *self.queues], "headway queue ls"))
        return known or Queue(DEFAULT)

    def all_queues(self) -> list[Queue]:
        return [self.queues[name] if name in self.queues else Queue(name) for name in sorted({DEFAULT, *self.queues})]

    def pool(self, name: str) -> Pool:
        known = self.pools.get(name)
        if known is None:
            raise NotFound(f'no pool "{name}"', nearest(name, self.pools, "headway pool ls"))
        return known

    def is_ordered(self, pool: Pool) -> bool:
        """Whether its nodes are made when jobs need them, and given back when they are idle."""
        return rules_of(pool, self.engines).ordered

    def closed_because(self, node: Node) -> str:
        """Why nothing is placed on a node by the house's own will; empty when it is open."""
        if node.draining:
            return "draining"
        if node.cordoned:
            return "cordoned"
        pool = self.pools.get(node.pool)
        if pool is None:
            return "of no known pool" if self.pools else ""
        if pool.state in (DRAINING, LEAVING):
            return "draining" if pool.state == DRAINING else "leaving with its pool"
        if self.is_ordered(pool):
            order = self.orders.get(order_of(node.id))
            return "of no known order" if order is None else "being given back" if order.state == BACK else ""
        if pool.nodes_min == pool.nodes_max and node.id not in standing_nodes(pool):
            return "no longer wanted by its pool" if pool.hosts or _numbered(node, pool) else ""
        return ""

    def dressed(self, node: Node) -> Node:
        """The node with what its pool says of it."""
        pool = self.pools.get(node.pool)
        if pool is None:
            return node
        labels = {**pool.labels, **({"gpu_type": pool.gpu_type} if pool.gpu_type else {})}
        granted = node.granted
        rules = rules_of(pool, self.engines)
        if rules.grants_shape and pool.shape is not None:
            # Its agent, started before the pool said so, may still say something else.
            granted = replace(pool.shape, memory_bytes=pool.shape.memory_bytes or granted.memory_bytes)
        if rules.ordered:
            order, lasts_s = self.orders.get(order_of(node.id)), life_s(pool)
            until = order.until if order is not None else node.available_until
            if until is None and lasts_s is not None:
                until = node.joined_at + lasts_s
            node = replace(node, available_until=until)
        return replace(node, granted=granted, zone=pool.zone or node.zone, kind=pool.kind, labels=labels)


def read_house(store: Store, pools: Iterable[Pool] = (), engines: Engines | None = None) -> ClusterConfig:
    """The rules as the store has them. The pools that are given stand in for those that it lacks."""
    return ClusterConfig(
        {**{pool.name: pool for pool in pools}, **{pool.name: pool for pool in store.pools()}},
        {queue.name: queue for queue in store.queues()},
        store.licences(),
        {order.id: order for order in store.orders()},
        engines or {},
    )


def nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f'did you mean "{near[0]}"?' if near else otherwise


def _numbered(node: Node, pool: Pool) -> bool:
    """Whether a node has an id of the form that standing nodes have."""
    return node.id.removeprefix(f"{pool.name}-").isdigit()
