"""Queues, pools, licences and the account of use in memory: the part of store.py that knows the set-up."""

from __future__ import annotations

import threading

from headway.core.files.storage_identity import Place
from headway.core.growth.node_orders import NodeOrder
from headway.core.model import Pool, Queue
from headway.store.protocol import Setup, UseAccount


class MemorySetup:
    _lock: threading.RLock

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}
        self._pools: dict[str, Pool] = {}
        self._licences: dict[str, int] = {}
        self._use: dict[tuple[str, str, str], UseAccount] = {}
        self._orders: dict[str, NodeOrder] = {}
        self._places: dict[int, Place] = {}

    def _save_setup(self, setup: Setup) -> None:
        self._queues.update({each.name: each for each in setup.queues})
        self._pools.update({each.name: each for each in setup.pools})
        self._orders.update({each.id: each for each in setup.orders})
        self._places.update({each.turn: each for each in setup.places})
        for kept, dropped in (
            (self._queues, setup.dropped_queues),
            (self._pools, setup.dropped_pools),
            (self._orders, setup.dropped_orders),
        ):
            for name in dropped:
                kept.pop(name, None)
        if setup.licences is not None:
            self._licences = dict(setup.licences)
        if setup.use is not None:
            self._use = {(each.queue, each.project, each.user): each for each in setup.use}

    def queues(self) -> list[Queue]:
        with self._lock:
            return [self._queues[name] for name in sorted(self._queues)]

    def pools(self) -> list[Pool]:
        with self._lock:
            return [self._pools[name] for name in sorted(self._pools)]

    def licences(self) -> dict[str, int]:
        with self._lock:
            return dict(sorted(self._licences.items()))

    def use(self) -> list[UseAccount]:
        with self._lock:
            return [self._use[key] for key in sorted(self._use)]

    def orders(self) -> list[NodeOrder]:
        with self._lock:
            return [self._orders[name] for name in sorted(self._orders)]

    def places(self) -> list[Place]:
        with self._lock:
            return [self._places[turn] for turn in sorted(self._places)]
