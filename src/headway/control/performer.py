"""Carries out what is asked of engines: one thread per pool, calls with a time limit, repeated until the world agrees.

It decides nothing. What to ask is derived from what the engine sees and what the book holds, so any call may be lost,
repeated or late.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import structlog

from headway.control.desk import Desk
from headway.control.syncing import lose_node
from headway.control.thread import ControlThread
from headway.core.errors import HeadwayError
from headway.core.grow import Order, Release, grow
from headway.core.model import Node, NodeId, Pool
from headway.engines.protocol import Engine, Sight, Sightings

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Saw:
    """What an engine sees of its nodes; answers what to ask of it."""

    pool: Pool
    sightings: Sightings
    before: Mapping[NodeId, Node]  # The nodes known before the look: proof of death concerns those, not who came since.

    def apply(self, desk: Desk) -> list[Order | Release]:
        seen = self.sightings.nodes
        for node, sighting in seen.items():
            # Only proof ends anything: a claim, or a node that was not seen, does not.
            if sighting.sight is Sight.GONE and _same_life(self.before.get(node), desk.book.nodes.get(node)):
                lose_node(desk, node, sighting.why or f"{node} is gone")
        if not self.sightings.complete:
            return []
        up = [node for node, sighting in seen.items() if sighting.sight in (Sight.UP, Sight.WAITING)]
        there = [node for node, sighting in seen.items() if sighting.sight is not Sight.GONE]
        busy = {node: len(tasks) for node, tasks in desk.book.on_node.items()}
        return grow(self.pool, up, there, busy)


def _same_life(before: Node | None, now: Node | None) -> bool:
    if before is None or now is None:
        return False
    return (before.boot_id, before.agent_epoch) == (now.boot_id, now.agent_epoch)


class Performer:
    def __init__(self, pools: Mapping[str, Pool], engines: Mapping[str, Engine], control: ControlThread) -> None:
        self._pools = pools
        self._engines = engines
        self._control = control
        self._stop = threading.Event()
        self._look_now = threading.Event()
        self._calls = ThreadPoolExecutor(max_workers=2 * max(1, len(pools)), thread_name_prefix="engine")
        self._threads = [
            threading.Thread(target=self._tend, args=(pool,), name=f"pool-{pool.name}", daemon=True)
            for pool in pools.values()
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._look_now.set()
        for thread in self._threads:
            thread.join(timeout=5)
        self._calls.shutdown(wait=False, cancel_futures=True)

    def look(self) -> None:
        """Look at the engines now rather than at the next round."""
        self._look_now.set()

    def _tend(self, pool: Pool) -> None:
        settings = self._control.cycle.settings
        while not self._stop.is_set():
            try:
                self._round(pool)
                self._control.cycle.troubles.pop(f"pool {pool.name}", None)
            except Exception as error:
                said = error.message if isinstance(error, HeadwayError) else repr(error)
                self._control.cycle.troubles[f"pool {pool.name}"] = said
                log.warning("engine call failed", pool=pool.name, error=said)
            self._look_now.wait(settings.look_every_s)
            self._look_now.clear()

    def _round(self, pool: Pool) -> None:
        engine = self._engines[pool.name]
        before = dict(self._control.cycle.book.nodes)
        sightings: Sightings = self._call(engine.sightings)
        asks = self._control.do(Saw(pool, sightings, before)).result(timeout=60)
        for ask in asks:
            if isinstance(ask, Order):
                self._call(engine.order, engine.render(ask))
            else:
                self._call(engine.release, ask.nodes)

    def _call(self, method: Any, *arguments: Any) -> Any:
        return self._calls.submit(method, *arguments).result(timeout=self._control.cycle.settings.engine_call_s_max)
