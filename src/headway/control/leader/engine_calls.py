"""Carries out what is asked of engines: one thread per pool, calls with a time limit, repeated until the world agrees.

It decides nothing. What to ask is derived from what the engine sees and what the book holds, so any call may be lost,
repeated or late.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import structlog

from headway.control.cluster.commands import PoolGone, put_pool
from headway.control.leader.thread import ControlThread
from headway.control.nodes.orders import GivenBack, NotOrdered, Ordered, SawOrders
from headway.control.nodes.release import ReleasedByHand
from headway.control.nodes.render import rendered
from headway.control.nodes.sync import lose_node, machine_restarted
from headway.control.state.transaction import Command, Transaction
from headway.core.errors import HeadwayError, for_log
from headway.core.growth.grow import Order, Release, grow
from headway.core.model import Node, NodeId, Pool
from headway.core.spec.hosts import node_of
from headway.core.spec.pool import LEAVING
from headway.engines.protocol import Engine, Examinable, Sight, Sightings

log = structlog.get_logger()
CALLS_MOST = 32
WATCH_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Saw:
    """What an engine sees of its nodes; answers what to ask of it."""

    pool: Pool
    sightings: Sightings
    before: Mapping[NodeId, Node]  # The nodes known before the look: proof of death concerns those, not who came since.

    def apply(self, tx: Transaction) -> list[Order | Release]:
        seen = self.sightings.nodes
        for node, sighting in seen.items():
            # Only proof ends anything: a claim, or a node that was not seen, does not.
            if sighting.sight is Sight.GONE and _same_life(self.before.get(node), tx.book.nodes.get(node)):
                lose_node(tx, node, sighting.why or f"{node} is gone")
            if sighting.sight is Sight.RESTARTED and _same_life(self.before.get(node), tx.book.nodes.get(node)):
                machine_restarted(tx, node, sighting.why or f"{node} was started anew")
        if not self.sightings.complete:
            return []
        up = [node for node, sighting in seen.items() if sighting.sight in (Sight.UP, Sight.WAITING, Sight.SILENT)]
        there = [
            node for node, sighting in seen.items() if sighting.sight not in (Sight.GONE, Sight.RESTARTED, Sight.SILENT)
        ]
        busy = {node: len(tasks) for node, tasks in tx.book.on_node.items()}
        asks = grow(self.pool, up, there, busy)
        tx.must_lead = tx.must_lead or bool(asks)
        return asks


def _same_life(before: Node | None, now: Node | None) -> bool:
    if before is None or now is None:
        return False
    return (before.boot_id, before.agent_epoch) == (now.boot_id, now.agent_epoch)


@dataclass(frozen=True, slots=True)
class Released:
    """An engine gave nodes back: nothing of them is left."""

    nodes: tuple[NodeId, ...]

    def apply(self, tx: Transaction) -> None:
        for node in self.nodes:
            lose_node(tx, node, f"{node} was given back")
        for pool in list(tx.book.house.pools.values()):
            left = [host for host in pool.former_hosts if node_of(pool.name, host) not in self.nodes]
            if len(left) < len(pool.former_hosts):
                put_pool(tx, replace(pool, options={**pool.options, "former_hosts": left}))


def said_of(error: Exception) -> str:
    return error.message if isinstance(error, HeadwayError) else repr(error)


class Performer:
    """A thread for each pool of the house; pools come and go while it works."""

    def __init__(self, control: ControlThread, engine_for: Callable[[Pool], Engine]) -> None:
        self._control = control
        self._engine_for = engine_for
        self._engines: dict[str, tuple[Pool, Engine]] = {}
        self._stop = threading.Event()
        self._look_now: dict[str, threading.Event] = {}
        self._calls = ThreadPoolExecutor(max_workers=CALLS_MOST, thread_name_prefix="engine")
        self._threads: dict[str, threading.Thread] = {}
        self._watcher = threading.Thread(target=self._watch, name="pools", daemon=True)

    def start(self) -> None:
        self._watcher.start()

    def stop(self) -> None:
        self._stop.set()
        self.look()
        for thread in (self._watcher, *self._threads.values()):
            thread.join(timeout=5)
        self._calls.shutdown(wait=False, cancel_futures=True)

    def examine(self) -> list[dict[str, Any]]:
        """How the hosts are, of all pools whose engine has hosts that can be asked."""
        found: list[dict[str, Any]] = []
        for pool in list(self._control.cycle.book.house.pools.values()):
            engine = self._engine(pool)
            if isinstance(engine, Examinable):
                found += [{"pool": pool.name, **each} for each in self._call(engine.examine)]
        return found

    def render(self, name: str, nodes: int) -> dict[str, Any]:
        """What the engine of a pool would be asked for so many nodes. Nothing is asked of it."""
        house = self._control.cycle.book.house
        pool = house.pool(name)
        return rendered(pool, self._engine(pool), nodes, house.is_ordered(pool))

    def release(self, node: Node) -> None:
        """Give one node back now. A standing one comes back at the next look, which also ends an order."""
        house = self._control.cycle.book.house
        pool = house.pool(node.pool)
        if not house.is_ordered(pool):
            self._call(self._engine(pool).release, (node.id,))
            self._do(ReleasedByHand(node))
        self.look()

    def look(self) -> None:
        """Look at the engines now rather than at the next round."""
        for event in list(self._look_now.values()):
            event.set()

    def _pool(self, name: str) -> Pool | None:
        return self._control.cycle.book.house.pools.get(name)

    def _watch(self) -> None:
        """See that every pool of the house has its thread."""
        seen: object = None
        while not self._stop.is_set():
            pools = self._control.cycle.book.house.pools
            for name in pools:
                thread = self._threads.get(name)
                if thread is None or not thread.is_alive():
                    self._look_now[name] = threading.Event()
                    thread = threading.Thread(target=self._tend, args=(name,), name=f"pool-{name}", daemon=True)
                    self._threads[name] = thread
                    thread.start()
            if seen is not None and pools is not seen:
                self.look()
            seen = pools
            self._stop.wait(WATCH_EVERY_S)

    def _tend(self, name: str) -> None:
        settings = self._control.cycle.settings
        look_now = self._look_now[name]
        while not self._stop.is_set() and (pool := self._pool(name)) is not None:
            try:
                trouble = self._round(pool)
                if trouble:
                    self._control.cycle.troubles[f"pool {name}"] = trouble
                else:
                    self._control.cycle.troubles.pop(f"pool {name}", None)
            except Exception as error:
                said = said_of(error)
                self._control.cycle.troubles[f"pool {name}"] = said
                log.warning("engine call failed", pool=name, error=for_log(error))
            look_now.wait(settings.look_every_s)
            look_now.clear()

    def _engine(self, pool: Pool) -> Engine:
        """The engine of a pool. It keeps no memory, so a changed pool simply gets a new one."""
        known = self._engines.get(pool.name)
        if known is None or known[0] != pool:
            known = self._engines[pool.name] = (pool, self._engine_for(pool))
        return known[1]

    def _round(self, pool: Pool) -> str:
        """One look and what follows from it. What one node refuses does not keep the others waiting."""
        engine = self._engine(pool)
        before = dict(self._control.cycle.book.nodes)
        sightings: Sightings = self._call(engine.sightings)
        ordered = self._control.cycle.book.house.is_ordered(pool)
        asks = self._do((SawOrders if ordered else Saw)(pool, sightings, before))
        speaking = (Sight.SILENT, Sight.UP)  # An agent that is up may still be short of something.
        troubles = [
            f"{node}: {each.why}" for node, each in sightings.nodes.items() if each.why and each.sight in speaking
        ]
        calls = [(ask, self._calls.submit(engine.order, engine.render(ask))) for ask in asks if isinstance(ask, Order)]
        for ask, call in calls:
            try:
                call.result(timeout=self._control.cycle.settings.engine_call_s_max)
                if ordered:
                    self._do(Ordered(ask.id))
            except HeadwayError as error:
                # The others must not suffer: an order that is refused keeps no node from being given back.
                troubles.append(error.message)
                if ordered:
                    self._do(NotOrdered(ask.id, error.message))
        for ask in asks:
            if isinstance(ask, Release):
                self._call(engine.release, ask.nodes)
                self._do((GivenBack if ordered else Released)(ask.nodes))
        # A host that is silent since before its lease was over has nothing of ours that runs; it keeps nobody here.
        left = [node for node, each in sightings.nodes.items() if each.sight is not Sight.SILENT or node in before]
        if pool.state == LEAVING and not asks and sightings.complete and not left:
            self._do(PoolGone(pool.name))
        return "; ".join(troubles)

    def _do(self, command: Command) -> Any:
        return self._control.do(command).result(timeout=60)

    def _call(self, method: Any, *arguments: Any) -> Any:
        return self._calls.submit(method, *arguments).result(timeout=self._control.cycle.settings.engine_call_s_max)
