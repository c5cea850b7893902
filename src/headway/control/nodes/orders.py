"""Ordered nodes: what an engine sees of our orders, what becomes of them, and what to ask of the engine next.

One command per look. Orders are saved here, in the same commit as all else; only then does the performer call the
engine. What memory alone holds (reasons, idle times) begins anew after a start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headway.control.nodes.sync import lose_node
from headway.control.state.transaction import Transaction
from headway.core.growth.demand import Fleet, demand
from headway.core.growth.grow import Growth, Order, Release, Upkeep, grow_ordered
from headway.core.growth.node_orders import ASKED, LEAVING, ORDERED, NodeOrder, order_of
from headway.core.job.events import Event
from headway.core.model import Node, NodeId, Pool, Resources
from headway.core.units import show_duration
from headway.engines.protocol import Sight, Sighting, Sightings

THERE = (Sight.WAITING, Sight.UP, Sight.AGENTLESS)
HOLD_S_MIN, HOLD_S_MAX = 10.0, 600.0
UNTIL_DUST_S = 60.0  # An end that moves by less is the same: platforms count in minutes.


@dataclass
class Memory:
    """What is remembered of ordered pools between two looks."""

    whys: dict[str, str] = field(default_factory=dict)  # By order: what the platform says.
    idle_since: dict[str, float] = field(default_factory=dict)
    in_vain: dict[str, int] = field(default_factory=dict)  # By pool: orders in a row of which nobody called home.
    hold_until: dict[str, float] = field(default_factory=dict)
    joined: set[str] = field(default_factory=set)  # Orders of which somebody called home.
    strangers: set[NodeId] = field(default_factory=set)  # They call, but their platform has them no longer.


@dataclass(frozen=True, slots=True)
class SawOrders:
    """What an ordered engine sees; answers what to ask of it."""

    pool: Pool
    sightings: Sightings
    before: Mapping[NodeId, Node]  # The nodes that were known before the look.

    def apply(self, tx: Transaction) -> list[Order | Release]:
        memory = tx.book.ordering
        for node, sighting in self.sightings.nodes.items():
            known = tx.book.nodes.get(node)
            if sighting.sight is Sight.GONE and known is not None and known == self.before.get(node):
                lose_node(tx, node, sighting.why or f"{node} is gone")
        if not self.sightings.complete:
            return []
        seen: dict[str, dict[NodeId, Sighting]] = {}
        for node, sighting in self.sightings.nodes.items():
            seen.setdefault(order_of(node), {})[node] = sighting
        for node in self.before:
            memory.joined.add(order_of(node))
        for order in mine(tx, self.pool):
            self._look_at(tx, order, seen.get(order.id, {}))
        self._strangers(tx, seen)
        self._grow(tx)
        return self._asks(tx, seen)

    # --- what became of the orders ---

    def _look_at(self, tx: Transaction, order: NodeOrder, seen: Mapping[NodeId, Sighting]) -> None:
        memory = tx.book.ordering
        there = [each for each in seen.values() if each.sight in THERE]
        if seen:
            memory.whys[order.id] = next((each.why for each in seen.values() if each.why), "")
        if not there and (order.state != ASKED or seen):
            self._ended(tx, order)
            return
        after = order
        if there and order.state == ASKED:
            after = replace(after, state=ORDERED)
        if any(each.sight is Sight.UP for each in there) and order.filled_at is None:
            after = replace(after, filled_at=tx.now)
            say(tx, "OrderFilled", order, waited_s=round(tx.now - order.asked_at, 1))
        left = [each.left_s for each in there if each.left_s is not None]
        until = tx.now + min(left) if left else None
        if until is not None and (after.until is None or abs(after.until - until) > UNTIL_DUST_S):
            after = replace(after, until=until)
        if after != order:
            put(tx, after)

    def _ended(self, tx: Transaction, order: NodeOrder) -> None:
        """The platform has it no longer. That proves nothing about its nodes: what may run there keeps its lease."""
        memory = tx.book.ordering
        why = memory.whys.get(order.id, "")
        if order.state != LEAVING:
            say(tx, "OrderEnded", order, why=why)
            in_vain = order.id not in memory.joined
            self._note_failure(tx, in_vain, tx.now - (order.filled_at or order.asked_at))
        drop(tx, order, why or "its order has ended")

    def _note_failure(self, tx: Transaction, in_vain: bool, lasted_s: float) -> None:
        memory, name = tx.book.ordering, self.pool.name
        if not in_vain:
            memory.in_vain.pop(name, None)
            memory.hold_until.pop(name, None)
            return
        count = memory.in_vain[name] = memory.in_vain.get(name, 0) + 1
        memory.hold_until[name] = tx.now + min(HOLD_S_MAX, HOLD_S_MIN * 2 ** (count - 1))

    def _strangers(self, tx: Transaction, seen: Mapping[str, Mapping[NodeId, Sighting]]) -> None:
        """Nodes that call although the platform has them no longer: nothing is placed there, idle ones are let go."""
        memory = tx.book.ordering
        memory.strangers &= tx.book.nodes.keys() | memory.strangers
        for node in [each for each in tx.book.nodes.values() if each.pool == self.pool.name]:
            if node.id not in self.before:
                continue
            sighting = seen.get(order_of(node.id), {}).get(node.id)
            here = sighting is not None and sighting.sight in THERE and order_of(node.id) in tx.book.house.orders
            if here:
                memory.strangers.discard(node.id)
            elif not tx.book.on_node.get(node.id):
                memory.strangers.add(node.id)
                lose_node(tx, node.id, (sighting.why if sighting else "") or "its platform has it no longer")
            elif node.id not in memory.strangers:
                memory.strangers.add(node.id)
                tx.book.saw_again(node)

    # --- what to ask for ---

    def _grow(self, tx: Transaction) -> None:
        book, house, memory = tx.book, tx.book.house, tx.book.ordering
        fleets = {name: fleet_of(tx, pool) for name, pool in house.pools.items() if house.is_ordered(pool)}
        fleet = fleets.get(self.pool.name)
        if fleet is None:
            return
        found = demand(book.view, fleets.values(), tx.now)
        busy = frozenset(node for node, tasks in book.on_node.items() if tasks)
        upkeep = Upkeep(busy, memory.idle_since, memory.hold_until.get(self.pool.name, 0.0))
        growth = grow_ordered(fleet, found, upkeep, tx.now)
        self._carry_out(tx, growth)
        waits = dict(found.waits_for)
        groups = found.groups.get(self.pool.name, [])
        for order, (jobs, _) in zip(growth.new, groups, strict=False):
            waits.update(dict.fromkeys(jobs, order.id))
        self._explain(tx, waits)

    def _carry_out(self, tx: Transaction, growth: Growth) -> None:
        memory = tx.book.ordering
        mine_ = {order.id for order in mine(tx, self.pool)}
        memory.idle_since = {key: at for key, at in memory.idle_since.items() if key not in mine_} | growth.idle_since
        for _ in growth.late:
            self._note_failure(tx, True, 0.0)
        for order in growth.leaving:
            put(tx, order)
            why = "nobody called home from it" if order.id in growth.late else "nobody needs it"
            say(tx, "OrderReleased", order, why=why)
            for node in [each for each in tx.book.nodes.values() if order_of(each.id) == order.id]:
                tx.book.saw_again(node)  # From now on nothing is placed there.
        for order in growth.new:
            put(tx, order)
            say(tx, "OrderMade", order)

    def _explain(self, tx: Transaction, waits: Mapping[str, str]) -> None:
        """For those who ask why a job waits."""
        orders, memory, coming = tx.book.house.orders, tx.book.ordering, {}
        for job, order_id in waits.items():
            order = orders.get(order_id)
            if order is None:
                continue
            nodes = "a node" if order.nodes == 1 else f"{order.nodes} nodes"
            said = f'{nodes} of pool "{order.pool}" ordered {show_duration(max(1.0, tx.now - order.asked_at))} ago'
            why = memory.whys.get(order.id, "")
            coming[job] = said + (f" ({why})" if why else " and not there yet")
        trouble = memory.in_vain.get(self.pool.name, 0)
        for job in tx.book.view.queued if trouble else ():
            coming.setdefault(job, f'pool "{self.pool.name}" pauses: {trouble} orders ended before a node called home')
        tx.book.view.coming = coming

    def _asks(self, tx: Transaction, seen: Mapping[str, Mapping[NodeId, Sighting]]) -> list[Order | Release]:
        asks: list[Order | Release] = []
        known = tx.book.house.orders
        for order in mine(tx, self.pool):
            if order.state == LEAVING:
                asks.append(Release(self.pool.name, order.node_ids))
            elif order.state == ASKED:
                asks.append(Order(order.id, self.pool.name, order.node_ids))
        for name, nodes in sorted(seen.items()):
            there = [node for node, each in nodes.items() if each.sight in THERE]
            # What no order explains goes back, but never under a task that may be alive there.
            if name not in known and there and not any(tx.book.on_node.get(node) for node in there):
                asks.append(Release(self.pool.name, tuple(sorted(there))))
        # A leader that was replaced while it slept knows nothing of its successor's orders, and must not end them.
        tx.must_lead = tx.must_lead or bool(asks)
        return asks


@dataclass(frozen=True, slots=True)
class Ordered:
    """The engine has taken an order: from now on, its absence is its end."""

    order: str

    def apply(self, tx: Transaction) -> None:
        known = tx.book.house.orders.get(self.order)
        if known is not None and known.state == ASKED:
            put(tx, replace(known, state=ORDERED))


@dataclass(frozen=True, slots=True)
class NotOrdered:
    """The engine did not take an order, and said why. It is asked again."""

    order: str
    why: str

    def apply(self, tx: Transaction) -> None:
        if self.order in tx.book.house.orders:
            tx.book.ordering.whys[self.order] = self.why


@dataclass(frozen=True, slots=True)
class GivenBack:
    """An engine gave an order's nodes back: nothing of them is left."""

    nodes: tuple[NodeId, ...]

    def apply(self, tx: Transaction) -> None:
        for name in {order_of(node) for node in self.nodes}:
            known = tx.book.house.orders.get(name)
            if known is not None and known.state == LEAVING:
                drop(tx, known, "it was given back")


def mine(tx: Transaction, pool: Pool) -> list[NodeOrder]:
    return [order for order in tx.book.house.orders.values() if order.pool == pool.name]


def fleet_of(tx: Transaction, pool: Pool) -> Fleet:
    orders = mine(tx, pool)
    names = {order.id for order in orders}
    nodes = [each for each in tx.book.nodes.values() if each.pool == pool.name and order_of(each.id) in names]
    busy = {order_of(node) for node, tasks in tx.book.on_node.items() if tasks}
    joined = {order_of(node.id) for node in nodes}
    spare = sum(each.nodes for each in orders if each.state != LEAVING and each.id in joined and each.id not in busy)
    granted = _less([pool.shape, *(node.granted for node in nodes)]) if pool.shape and nodes else None
    return Fleet(pool, tuple(orders), frozenset(node.id for node in nodes), spare, granted)


def _less(many: list[Resources]) -> Resources:
    memory = [each.memory_bytes for each in many if each.memory_bytes]
    return Resources(min(each.cpus for each in many), min(memory, default=0), min(each.gpus for each in many))


def put(tx: Transaction, order: NodeOrder) -> None:
    house = tx.book.house
    before = house.orders.get(order.id)
    house.orders = {**house.orders, order.id: order}
    tx.arrange.orders.append(order)
    if before is not None and before.until != order.until:
        for node in [each for each in tx.book.nodes.values() if order_of(each.id) == order.id]:
            tx.save_node(house.dressed(node), node.id not in tx.book.shut, tx.book.shut.get(node.id, ""))


def drop(tx: Transaction, order: NodeOrder, detail: str) -> None:
    """Forget an order. Its nodes go with it, but for those with a task that may be alive."""
    house, memory = tx.book.house, tx.book.ordering
    house.orders = {name: each for name, each in house.orders.items() if name != order.id}
    arranged = tx.arrange
    arranged.orders = [each for each in arranged.orders if each.id != order.id]
    arranged.dropped_orders.append(order.id)
    for table in (memory.whys, memory.idle_since):
        table.pop(order.id, None)
    memory.joined.discard(order.id)
    for node in [each for each in tx.book.nodes.values() if order_of(each.id) == order.id]:
        if tx.book.on_node.get(node.id):
            tx.book.saw_again(node)
        else:
            lose_node(tx, node.id, detail)


def say(tx: Transaction, kind: str, order: NodeOrder, **more: object) -> None:
    tx.say(Event(kind, tx.now, data={"order": order.id, "pool": order.pool, "nodes": order.nodes, **more}))
