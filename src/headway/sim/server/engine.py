"""A simulated engine and its performer: it sees machines, with or without proof of their death, and starts them again.

The look takes time: what is told to the server may have changed since. Only the real command `Saw` decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.control.leader.engine_calls import Saw
from headway.core.growth.grow import Order, Release
from headway.engines.protocol import Sight, Sighting, Sightings

if TYPE_CHECKING:
    from headway.control.leader.cycle import Cycle
    from headway.sim.run import Simulation
    from headway.sim.server.server import SimServer


class SimEngine:
    def __init__(self, simulation: Simulation, proves_death: bool) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.proves_death = proves_death
        self.world.after(self.world.between(0.0, 2.0), self._round)

    def sightings(self) -> Sightings:
        seen: dict[str, Sighting] = {}
        silent: list[str] = []
        for name, machine in self.simulation.machines.items():
            if self.world.happens(self.simulation.faults.engine_partly_silent):
                silent.append(name)
                continue
            if machine.up:
                seen[name] = Sighting(Sight.UP if machine.agent is not None else Sight.AGENTLESS)
            elif machine.boots:
                seen[name] = Sighting(Sight.GONE if self.proves_death else Sight.GONE_CLAIMED, "the machine is off")
        return Sightings(seen, not silent, tuple(silent))

    def _round(self) -> None:
        self.world.after(self.simulation.settings.look_every_s, self._round)
        for server in self.simulation.servers:
            if server.cycle is not None and not server.asleep:
                self._look(server, server.cycle)

    def _look(self, server: SimServer, cycle: Cycle) -> None:
        before = dict(cycle.book.nodes)
        saw = Saw(self.simulation.pool, self.sightings(), before)
        late = self.world.happens(self.simulation.faults.engine_late)
        delay_s = self.world.between(5.0, 60.0) if late else self.world.between(0.01, 0.2)
        self.world.after(delay_s, self._tell, server, cycle, saw)

    def _tell(self, server: SimServer, cycle: Cycle, saw: Saw) -> None:
        # The performer lives in the server's process: a look dies with it.
        if server.cycle is cycle:
            server.do(saw, self._carry_out, _ignore)

    def _carry_out(self, asks: list[Order | Release]) -> None:
        for ask in asks:
            assert isinstance(ask, Order), "no machine of the simulated pool is a stranger"
            for name in ask.nodes:
                self.world.after(self.world.between(0.1, 3.0), self._order, name)

    def _order(self, name: str) -> None:
        machine = self.simulation.machines[name]
        if machine.asleep:
            return
        machine.boot()
        machine.start_agent()


def _ignore(_: object) -> None:
    """The next look tells it again."""
