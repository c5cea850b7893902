"""The judge of leads: who may write, since when, and whether anybody leads who can.

It hears of every lead that the store gives, renews or takes back, and of every write that the store takes. Its clock is
the world's, which is the database's; what a server believes of its lease plays no part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.sim.judge.broken import Broken
from headway.store.protocol import Lead

if TYPE_CHECKING:
    from headway.sim.run import Simulation
    from headway.sim.server.server import SimServer
    from headway.sim.server.servers import Peer

WATCH_EVERY_S = 1.0
SLACK_S = 1.5  # Looking, taking the lead, reading everything.
DUST_S = 1e-3


class Leads:
    def __init__(self, simulation: Simulation) -> None:
        self.world = simulation.world
        self.simulation = simulation
        self.owner: dict[int, str] = {}  # Epoch -> the process that led in it.
        self.epoch = 0
        self.until = 0.0
        self.leaderless_since = 0.0

    # --- what the store did ---

    def taken(self, by: str, lead: Lead, lease_s: float) -> None:
        left_s = self.until - self.world.now
        before = self.owner.get(self.epoch, "")
        if left_s > DUST_S and before != by:
            self._breaks(f"{by} took the lead from {before}, whose lease ran for another {left_s:.2f} s")
        if lead.epoch <= self.epoch:
            self._breaks(f"{by} was given epoch {lead.epoch} after epoch {self.epoch} had begun")
        self.epoch, self.owner[lead.epoch], self.until = lead.epoch, by, self.world.now + lease_s
        self.leaderless_since = self.world.now  # It may still die before it has begun; then its lease has to pass.

    def kept(self, peer: Peer, by: str, epoch: int, lease_s: float) -> None:
        if (self.epoch, self.owner.get(self.epoch)) != (epoch, by):
            self._breaks(f"{by} renewed the lead of epoch {epoch} in epoch {self.epoch}")
        self.until = self.world.now + lease_s
        if peer.leading:
            self.leaderless_since = self.world.now

    def wrote(self, by: SimServer, epoch: int | None) -> None:
        """A write was taken. It must be of the one process that leads in the newest epoch."""
        if self.epoch and (epoch != self.epoch or self.owner[self.epoch] != by.process):
            owner = self.owner[self.epoch]
            self._breaks(f"a write of {by.process} with epoch {epoch} was taken in epoch {self.epoch} of {owner}")

    def _breaks(self, sentence: str) -> None:
        broken = Broken("safety", "server", sentence)
        self.world.after(0.0, _raise, broken)  # The product takes any error of its store for a store that is away.
        raise broken

    # --- whether anybody leads ---

    def watch(self) -> None:
        """Once the lease of a leader that is gone is over, a server that can lead does."""
        self.world.after(WATCH_EVERY_S, self.watch)
        peers, now = self.simulation.peers, self.world.now
        if self.simulation.store.full or any(self._leads(peer) for peer in peers):
            self.leaderless_since = now
            return
        able_since = min((peer.able_since for peer in peers if peer.able), default=now)
        settings = self.simulation.settings
        waited_s = now - max(self.leaderless_since, able_since)
        if waited_s > settings.lead_lease_s + settings.glance_every_s + SLACK_S + WATCH_EVERY_S:
            self._late(waited_s)

    def _leads(self, peer: Peer) -> bool:
        return peer.able and peer.leading and peer.cycle is not None and peer.cycle.epoch == self.epoch

    def _late(self, waited_s: float) -> None:
        able = [peer.name for peer in self.simulation.peers if peer.able]
        raise Broken("liveness", "server", f"nobody led for {waited_s:.1f} s, though {', '.join(able)} could")


def _raise(error: Broken) -> None:
    raise error
