"""What operators ask for: queues, pools and licences set and removed, nodes cordoned and drained.

Commands like those in jobs/commands.py: data with one method, done on the control thread and saved with their
neighbours. Changes take effect with the next plan. Nothing here ends a running task, but for a drain that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headway.control.state.cluster_config import DEFAULT, nearest
from headway.control.state.transaction import Transaction
from headway.core.errors import BadInput, Conflict, NotFound
from headway.core.growth.node_names import check_node_names
from headway.core.job.events import Event
from headway.core.job.signals import StopDecided
from headway.core.model import Cause, Node, NodeId, Pool, Queue, State
from headway.core.spec.pool import LEAVING, read_pool, show_pool, taking_over, with_leases_of
from headway.core.spec.queue import read_licences, read_queue, show_queue

Words = Mapping[str, Any]


def merged(known: Words, changes: Words) -> dict[str, Any]:
    """The words after a change: what is given replaces, and null takes a word away."""
    return {key: value for key, value in {**known, **changes}.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SetQueue:
    name: str
    changes: Words
    by: str = ""

    def apply(self, tx: Transaction) -> Queue:
        house = tx.book.house
        known = house.queues.get(self.name)
        queue = read_queue(self.name, merged(show_queue(known) if known else {}, self.changes))
        for pool in queue.pools or ():
            if pool not in house.pools:
                raise BadInput(f'pools: no pool "{pool}"', nearest(pool, house.pools, "headway pool ls"))
        if queue != known:
            house.queues = {**house.queues, self.name: queue}
            tx.arrange.queues.append(queue)
            _say(tx, "QueueChanged", {"queue": self.name, "by": self.by, **show_queue(queue)})
            tx.book.view.set_queues(house.queues.values())
        return queue


@dataclass(frozen=True, slots=True)
class DropQueue:
    name: str
    by: str = ""

    def apply(self, tx: Transaction) -> None:
        house = tx.book.house
        house.queue(self.name)
        inside = sum(job.spec.queue == self.name for job in tx.book.jobs.values())
        if inside and self.name != DEFAULT:
            raise Conflict(
                f'queue "{self.name}" has {inside:,} unfinished {"job" if inside == 1 else "jobs"}',
                f"move them (headway set JOB --queue …) or stop them; headway ps --queue {self.name} lists them",
            )
        house.queues = {name: queue for name, queue in house.queues.items() if name != self.name}
        tx.arrange.dropped_queues.append(self.name)
        _say(tx, "QueueChanged", {"queue": self.name, "by": self.by, "removed": True})
        tx.book.view.set_queues(house.queues.values())


@dataclass(frozen=True, slots=True)
class SetPool:
    name: str
    changes: Words
    by: str = ""

    def apply(self, tx: Transaction) -> Pool:
        house = tx.book.house
        known = house.pools.get(self.name)
        pool = taking_over(known, read_pool(self.name, self._words(known), house.engines), tx.book.nodes)
        if pool != known:
            check_node_names(pool, house.pools.values(), house.engines)
            put_pool(tx, pool)
            _say(tx, "PoolChanged", {"pool": self.name, "by": self.by, **show_pool(pool)})
        return pool

    def _words(self, known: Pool | None) -> Words:
        """What the pool was, with what changes: the engine's options one by one, unless it is another engine."""
        if known is None:
            return merged({}, self.changes)
        words = show_pool(replace(known, state="open") if known.state == LEAVING else known)
        changes = dict(self.changes)
        if any(changes.get(word) is not None for word in ("nodes", "hosts")):
            words = {key: value for key, value in words.items() if key not in ("min", "max", "hosts")}
        if changes.get("engine") not in (None, known.engine):
            words = {key: value for key, value in words.items() if key not in ("options", "hosts", "lease")}
        elif isinstance(changes.get("options"), Mapping):
            changes["options"] = merged(words.get("options", {}), changes["options"])
        return merged(words, changes)


@dataclass(frozen=True, slots=True)
class DropPool:
    """Let a pool go: nothing new is placed there, its jobs finish, then its nodes are given back and it is gone."""

    name: str
    by: str = ""

    def apply(self, tx: Transaction) -> Pool:
        pool = replace(tx.book.house.pool(self.name), state=LEAVING, nodes_min=0, nodes_max=0)
        put_pool(tx, pool)
        _say(tx, "PoolChanged", {"pool": self.name, "by": self.by, "removed": True})
        return pool


@dataclass(frozen=True, slots=True)
class PoolGone:
    """An engine has nothing left of a pool that leaves: forget it."""

    name: str

    def apply(self, tx: Transaction) -> None:
        house = tx.book.house
        known = house.pools.get(self.name)
        if known is None or known.state != LEAVING or any(each.pool == self.name for each in tx.book.nodes.values()):
            return
        house.pools = {name: pool for name, pool in house.pools.items() if name != self.name}
        tx.arrange.dropped_pools.append(self.name)


@dataclass(frozen=True, slots=True)
class LeasesOver:
    """Whatever was granted before this pool's lease was lowered has run out, while we listened."""

    pool: Pool

    def apply(self, tx: Transaction) -> None:
        if tx.book.house.pools.get(self.pool.name) is self.pool:
            put_pool(tx, with_leases_of(None, self.pool))


def put_pool(tx: Transaction, pool: Pool) -> None:
    """Take over a pool, and look at its nodes anew."""
    house = tx.book.house
    tx.pools_before = tx.pools_before or house.pools
    house.pools = {**house.pools, pool.name: pool}
    tx.arrange.pools.append(pool)
    for node in [each for each in tx.book.nodes.values() if each.pool == pool.name]:
        _look_again(tx, node, house.dressed(node))


def _look_again(tx: Transaction, known: Node, node: Node) -> None:
    if node != known:
        tx.save_node(node, node.id not in tx.book.shut, tx.book.shut.get(node.id, ""))
    else:
        tx.book.saw_again(node)


@dataclass(frozen=True, slots=True)
class SetLicences:
    counts: Words

    def apply(self, tx: Transaction) -> Mapping[str, int]:
        licences = read_licences(merged(tx.book.house.licences, self.counts))
        tx.book.house.licences = licences
        tx.arrange.licences = licences
        tx.book.view.set_licences(licences)
        return licences


CLOSING = {"cordon": "nothing more is placed there", "drain": "the same, until it is empty", "uncordon": "open again"}


@dataclass(frozen=True, slots=True)
class CloseNode:
    """Cordon a node, drain it, or open it again. A drain may ask what runs there to save itself and start elsewhere."""

    node: NodeId
    how: str
    by: str = ""
    stop: bool = False

    def apply(self, tx: Transaction) -> Node:
        known = tx.book.nodes.get(self.node)
        if known is None:
            raise NotFound(f'no node "{self.node}"', nearest(self.node, tx.book.nodes, "headway node ls"))
        closed = self.how != "uncordon"
        node = replace(known, cordoned=closed, draining=self.how == "drain")
        _look_again(tx, known, node)
        if node != known:
            kind = "NodeClosed" if closed else "NodeOpened"
            _say(tx, kind, {"node": node.id, "how": self.how, "by": self.by})
        if self.stop:
            for job in tx.book.jobs_on(node.id):
                if job.state is State.RUNNING:
                    said = f"{node.id} is being drained" + (f" by {self.by}" if self.by else "")
                    tx.step(job, StopDecided(job.number, Cause.PREEMPTED, said))
        return node


def _say(tx: Transaction, kind: str, data: Mapping[str, Any]) -> None:
    tx.say(Event(kind, tx.now, data=data))
