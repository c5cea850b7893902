"""Who would run if the ordered nodes were there: a plan with nodes that are still to come, and what it would use.

The scheduler itself says so, so quotas, licences, order and limits count here as they do everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headway.core.growth.node_orders import LEAVING, NodeOrder, index_of, life_s, order_of
from headway.core.model import JobId, Node, NodeId, Pool, PoolName, Resources
from headway.core.scheduling.fit import empty_room
from headway.core.scheduling.plan import Trial
from headway.core.scheduling.view import View
from headway.core.spec.pool import OPEN

PLACEMENTS_MOST = 1000
FRESH_MOST = 1000
JOIN_WITHIN_S = 300.0  # Once the platform has given nodes, they must have called home by then.
FRESH = "~"  # Sorts after all names of nodes: what is there, or coming, is used first.


@dataclass(frozen=True, slots=True)
class Fleet:
    """An ordered pool as it stands."""

    pool: Pool
    orders: tuple[NodeOrder, ...]
    present: frozenset[NodeId]  # Nodes of its orders that have called home.
    spare: int = 0  # Nodes of orders that nobody uses: they may make room for others.
    granted: Resources | None = None  # What its nodes were granted, where that is less than its shape.

    def broken(self, now: float) -> set[str]:
        """Orders of which a node should have called home by now, or did and is lost: it will not come any more."""
        here: dict[str, set[int]] = {}
        for node in self.present:
            here.setdefault(order_of(node), set()).add(index_of(node))
        overdue = [each for each in self.orders if each.filled_at is not None and now - each.filled_at > JOIN_WITHIN_S]
        return {order.id for order in overdue if len(here.get(order.id, ())) < order.nodes}

    def coming(self, now: float) -> list[tuple[NodeOrder, NodeId]]:
        broken = self.broken(now)
        here = {(order_of(node), index_of(node)) for node in self.present}
        return [
            (order, node)
            for order in self.orders
            if order.state != LEAVING and order.id not in broken
            for node in order.node_ids
            if (order.id, index_of(node)) not in here
        ]

    @property
    def alive(self) -> int:
        return sum(order.nodes for order in self.orders)


@dataclass
class Demand:
    """What the plan would use of nodes that are not there."""

    used: set[NodeId] = field(default_factory=set)  # Present or coming nodes that somebody would get.
    groups: dict[PoolName, list[tuple[tuple[JobId, ...], int]]] = field(default_factory=dict)  # Orders to be made.
    waits_for: dict[JobId, str] = field(default_factory=dict)  # Job -> the order that it would run on.


def demand(view: View, fleets: Iterable[Fleet], now: float) -> Demand:
    ranked = sorted(fleets, key=lambda each: (each.pool.price_per_hour, each.pool.name))
    coming = {node: order.id for fleet in ranked for order, node in fleet.coming(now)}
    added: list[NodeId] = []
    tasks = min(FRESH_MOST, sum(job.spec.nodes for job in view.queued.values()))
    found = Demand()
    if not tasks:
        return found
    trial = None
    try:
        for number, fleet in enumerate(ranked):
            if fleet.pool.shape is None or fleet.pool.state != OPEN:
                continue
            fresh = max(0, min(tasks, fleet.pool.nodes_max - fleet.alive + fleet.spare))
            names = [node for _, node in fleet.coming(now)]
            names += [f"{FRESH}{number:03d}-{fleet.pool.name}-{index:05d}" for index in range(fresh)]
            for name in names:
                if name not in view.rooms:
                    view.free.put(empty_room(_node(fleet, name, now)))
                    added.append(name)
        trial = Trial(view, now, PLACEMENTS_MOST)
        trial.run()
    finally:
        if trial is not None:
            trial.undo()
        for name in added:
            view.free.drop(name)
    _sort_out(found, trial, coming, ranked)
    return found


def _node(fleet: Fleet, name: NodeId, now: float) -> Node:
    pool = fleet.pool
    assert pool.shape is not None
    labels = {**pool.labels, **({"gpu_type": pool.gpu_type} if pool.gpu_type else {})}
    lasts_s = life_s(pool)
    until = None if lasts_s is None else now + lasts_s
    granted = fleet.granted or pool.shape
    # A shape that does not limit memory means what the machine has: enough for whoever asks.
    granted = Resources(granted.cpus, granted.memory_bytes or 1 << 60, granted.gpus)
    return Node(name, pool.name, granted, zone=pool.zone, kind=pool.kind, labels=labels, available_until=until)


def _sort_out(found: Demand, trial: Trial, coming: dict[NodeId, str], fleets: Sequence[Fleet]) -> None:
    """Who would sit where: on what is there or comes, or on nodes that are to be ordered, a gang's in one order."""
    pool_of = {f"{FRESH}{number:03d}": fleet.pool.name for number, fleet in enumerate(fleets)}
    group_of: dict[NodeId, int] = {}
    members: list[tuple[list[JobId], set[NodeId], PoolName]] = []
    for placement in trial.placements:
        nodes = [seat.node for seat in placement.seats]
        found.used.update(node for node in nodes if not node.startswith(FRESH))
        if coming_ids := [coming[node] for node in nodes if node in coming]:
            found.waits_for[placement.job] = coming_ids[0]
        for name in {pool_of[node[:4]] for node in nodes if node.startswith(FRESH)}:
            mine = [node for node in nodes if node.startswith(FRESH) and pool_of[node[:4]] == name]
            unknown = [node for node in mine if node not in group_of]
            if unknown:
                for node in unknown:
                    group_of[node] = len(members)
                members.append(([placement.job], set(unknown), name))
            else:
                members[group_of[mine[0]]][0].append(placement.job)
    for jobs, group, name in members:
        found.groups.setdefault(name, []).append((tuple(jobs), len(group)))
