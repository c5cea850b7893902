"""What operators ask for: queues, pools and licences set and removed, nodes cordoned and drained.

Commands like those in jobs/commands.py: data with one method, done on the control thread and saved with their
neighbours. Changes take effect with the next plan. Nothing here ends a running task, but for a drain that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headway.control.state.cluster_config import DEFAULT, nearest
from headway.control.state.transaction import Desk
from headway.core.errors import BadInput, Conflict, NotFound
from headway.core.growth.node_names import check_node_names
from headway.core.job.events import Event
from headway.core.job.signals import StopDecided
from headway.core.model import Cause, Node, NodeId, Pool, Queue, State
from headway.core.spec.pool import LEAVING, ONLY_LOCAL, Engines, read_pool, show_pool, taking_over, with_leases_of
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

    def apply(self, desk: Desk) -> Queue:
        house = desk.book.house
        known = house.queues.get(self.name)
        queue = read_queue(self.name, merged(show_queue(known) if known else {}, self.changes))
        for pool in queue.pools or ():
            if pool not in house.pools:
                raise BadInput(f'pools: no pool "{pool}"', nearest(pool, house.pools, "headway pool ls"))
        if queue != known:
            house.queues = {**house.queues, self.name: queue}
            desk.arrange.queues.append(queue)
            _say(desk, "QueueChanged", {"queue": self.name, "by": self.by, **show_queue(queue)})
            desk.book.view.set_queues(house.queues.values())
        return queue


@dataclass(frozen=True, slots=True)
class DropQueue:
    name: str
    by: str = ""

    def apply(self, desk: Desk) -> None:
        house = desk.book.house
        house.queue(self.name)
        inside = sum(job.spec.queue == self.name for job in desk.book.jobs.values())
        if inside and self.name != DEFAULT:
            raise Conflict(
                f'queue "{self.name}" has {inside:,} unfinished {"job" if inside == 1 else "jobs"}',
                f"move them (headway set JOB --queue …) or stop them; headway ps --queue {self.name} lists them",
            )
        house.queues = {name: queue for name, queue in house.queues.items() if name != self.name}
        desk.arrange.dropped_queues.append(self.name)
        _say(desk, "QueueChanged", {"queue": self.name, "by": self.by, "removed": True})
        desk.book.view.set_queues(house.queues.values())


@dataclass(frozen=True, slots=True)
class SetPool:
    name: str
    changes: Words
    by: str = ""
    engines: Engines = field(default_factory=lambda: ONLY_LOCAL)

    def apply(self, desk: Desk) -> Pool:
        house = desk.book.house
        known = house.pools.get(self.name)
        pool = taking_over(known, read_pool(self.name, self._words(known), self.engines), desk.book.nodes)
        if pool != known:
            check_node_names(pool, house.pools.values())
            put_pool(desk, pool)
            _say(desk, "PoolChanged", {"pool": self.name, "by": self.by, **show_pool(pool)})
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

    def apply(self, desk: Desk) -> Pool:
        pool = replace(desk.book.house.pool(self.name), state=LEAVING, nodes_min=0, nodes_max=0)
        put_pool(desk, pool)
        _say(desk, "PoolChanged", {"pool": self.name, "by": self.by, "removed": True})
        return pool


@dataclass(frozen=True, slots=True)
class PoolGone:
    """An engine has nothing left of a pool that leaves: forget it."""

    name: str

    def apply(self, desk: Desk) -> None:
        house = desk.book.house
        known = house.pools.get(self.name)
        if known is None or known.state != LEAVING or any(each.pool == self.name for each in desk.book.nodes.values()):
            return
        house.pools = {name: pool for name, pool in house.pools.items() if name != self.name}
        desk.arrange.dropped_pools.append(self.name)


@dataclass(frozen=True, slots=True)
class LeasesOver:
    """Whatever was granted before this pool's lease was lowered has run out, while we listened."""

    pool: Pool

    def apply(self, desk: Desk) -> None:
        if desk.book.house.pools.get(self.pool.name) is self.pool:
            put_pool(desk, with_leases_of(None, self.pool))


def put_pool(desk: Desk, pool: Pool) -> None:
    """Take over a pool, and look at its nodes anew."""
    house = desk.book.house
    desk.pools_before = desk.pools_before or house.pools
    house.pools = {**house.pools, pool.name: pool}
    desk.arrange.pools.append(pool)
    for node in [each for each in desk.book.nodes.values() if each.pool == pool.name]:
        _look_again(desk, node, house.dressed(node))


def _look_again(desk: Desk, known: Node, node: Node) -> None:
    if node != known:
        desk.save_node(node, node.id not in desk.book.shut, desk.book.shut.get(node.id, ""))
    else:
        desk.book.saw_again(node)


@dataclass(frozen=True, slots=True)
class SetLicences:
    counts: Words

    def apply(self, desk: Desk) -> Mapping[str, int]:
        licences = read_licences(merged(desk.book.house.licences, self.counts))
        desk.book.house.licences = licences
        desk.arrange.licences = licences
        desk.book.view.set_licences(licences)
        return licences


CLOSING = {"cordon": "nothing more is placed there", "drain": "the same, until it is empty", "uncordon": "open again"}


@dataclass(frozen=True, slots=True)
class CloseNode:
    """Cordon a node, drain it, or open it again. A drain may ask what runs there to save itself and start elsewhere."""

    node: NodeId
    how: str
    by: str = ""
    stop: bool = False

    def apply(self, desk: Desk) -> Node:
        known = desk.book.nodes.get(self.node)
        if known is None:
            raise NotFound(f'no node "{self.node}"', nearest(self.node, desk.book.nodes, "headway nodes"))
        closed = self.how != "uncordon"
        node = replace(known, cordoned=closed, draining=self.how == "drain")
        _look_again(desk, known, node)
        if node != known:
            kind = "NodeClosed" if closed else "NodeOpened"
            _say(desk, kind, {"node": node.id, "how": self.how, "by": self.by})
        if self.stop:
            for job in desk.book.jobs_on(node.id):
                if job.state is State.RUNNING:
                    said = f"{node.id} is being drained" + (f" by {self.by}" if self.by else "")
                    desk.step(job, StopDecided(job.number, Cause.PREEMPTED, said))
        return node


def _say(desk: Desk, kind: str, data: Mapping[str, Any]) -> None:
    desk.say(Event(kind, desk.now, data=data))
