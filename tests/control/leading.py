"""A leader without threads: the real cycle on a store, with commands done at once, and a clock that tests set."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from headway.control.leader.cycle import Cycle, PendingCommand
from headway.control.state.transaction import Command
from headway.control.views.snapshot import Published
from headway.core.model import Pool
from headway.core.protocol import read_sync
from headway.features.catalog import load
from headway.settings import Settings
from headway.store.protocol import Store
from tests.builders import ENGINES, NOW


class Leader:
    """Does what the control thread does, in the caller's thread."""

    def __init__(self, store: Store, settings: Settings | None = None) -> None:
        self.now = NOW
        self.said: list[Published] = []
        pool = Pool("local", "local", nodes_min=1, lease_s=86400.0)
        self.cycle = Cycle(
            store, settings or Settings(), [pool], 0, self.now, self.said.append, engines=ENGINES, features=load()
        )

    def do(self, command: Command) -> Future[Any]:
        future: Future[Any] = Future()
        self.cycle.turn([PendingCommand(command, future.set_result, future.set_exception)], self.now, self.now)
        return future

    def sync(self, **body: Any) -> None:
        """A sync of node `n1`; its reply is thrown away."""
        said = {"protocol": 1, "node": "n1", "pool": "local", "boot_id": "b", "agent_epoch": 1, **body}
        self.do(self.cycle.heard(read_sync(said), self.now)).result()

    def join(self, cpus: float = 8.0) -> None:
        self.sync(full=True, facts={"cpus": cpus, "memory_bytes": 2**40})

    def tick(self, later_s: float = 1.0) -> None:
        self.now += later_s
        for command in self.cycle.tick(self.now, self.now):
            self.do(command).result()
        self.cycle.turn([], self.now, self.now)
