"""One node given back by hand: what must be so before, and what is true after. The engine is asked in between."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headway.control.nodes.orders import put, say
from headway.control.nodes.sync import lose_node
from headway.control.state.cluster_config import nearest
from headway.control.state.transaction import Transaction
from headway.core.errors import Conflict, NotFound
from headway.core.growth.node_orders import LEAVING, order_of
from headway.core.job.events import Event
from headway.core.model import Node, NodeId


@dataclass(frozen=True, slots=True)
class ReleaseNode:
    """Close a node, to be given back. Of an order, all nodes go together: they came together."""

    node: NodeId
    by: str = ""
    force: bool = False

    def apply(self, tx: Transaction) -> Node:
        known = tx.book.nodes.get(self.node)
        if known is None:
            raise NotFound(f'no node "{self.node}"', nearest(self.node, tx.book.nodes, "headway node ls"))
        together = self._together(tx, known)
        jobs = sorted({job.id for node in together for job in tx.book.jobs_on(node.id)})
        if jobs and not self.force:
            named = ", ".join(jobs[:3]) + (f" and {len(jobs) - 3} more" if len(jobs) > 3 else "")
            raise Conflict(
                f"{self.node} is in use by {named}",
                f"`headway node drain {self.node}` first; with --force they are ended there and start elsewhere",
            )
        for node in together:
            tx.save_node(replace(node, cordoned=True), node.id not in tx.book.shut, tx.book.shut.get(node.id, ""))
        tx.say(Event("NodeClosed", tx.now, data={"node": self.node, "how": "release", "by": self.by}))
        order = tx.book.house.orders.get(order_of(self.node)) if is_of_order(tx, known) else None
        if order is not None and order.state != LEAVING:
            put(tx, replace(order, state=LEAVING))
            say(tx, "OrderReleased", order, why=f"given back by {self.by}" if self.by else "given back by hand")
        return tx.book.nodes[self.node]

    def _together(self, tx: Transaction, known: Node) -> list[Node]:
        if not is_of_order(tx, known):
            return [known]
        return [each for each in tx.book.nodes.values() if order_of(each.id) == order_of(known.id)]


def is_of_order(tx: Transaction, node: Node) -> bool:
    pool = tx.book.house.pools.get(node.pool)
    return pool is not None and tx.book.house.is_ordered(pool)


@dataclass(frozen=True, slots=True)
class ReleasedByHand:
    """The engine gave this very node back. One of the same name that has come since is another."""

    node: Node

    def apply(self, tx: Transaction) -> None:
        now = tx.book.nodes.get(self.node.id)
        if now is None:
            return
        if (now.boot_id, now.agent_epoch) == (self.node.boot_id, self.node.agent_epoch):
            lose_node(tx, now.id, f"{now.id} was given back by hand")
        else:
            tx.save_node(replace(now, cordoned=False), now.id not in tx.book.shut, tx.book.shut.get(now.id, ""))
