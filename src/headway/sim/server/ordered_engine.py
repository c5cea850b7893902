"""A simulated engine of ordered nodes: orders come late, never or to nothing, allocations end early, warned or not.

Only the real commands of control/nodes/orders.py decide. The platform's word that an allocation has ended may be wrong:
its machines then live on, and must be told to leave.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.control.nodes.orders import GivenBack, Ordered, SawOrders
from headway.core.growth.grow import Order, Release
from headway.core.growth.node_orders import order_of
from headway.core.model import Resources
from headway.engines.protocol import Sight, Sighting, Sightings
from headway.sim.judge.broken import Broken

if TYPE_CHECKING:
    from headway.control.leader.cycle import Cycle
    from headway.sim.node.machine import Machine
    from headway.sim.run import Simulation
    from headway.sim.server.server import SimServer

SHAPE = Resources(4.0, 16 * 2**30, 0)
LOOK_AT_ALLOCATIONS_S = 7.0


@dataclass
class SimAllocation:
    nodes: tuple[str, ...]
    up: bool = False
    machines: list[Machine] = field(default_factory=list)


class OrderedEngine:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.world = simulation.world
        chance = self.world.chance
        self.allocations: dict[str, SimAllocation] = {}
        self.never, self.fails = chance.choice((0.0, 0.1, 0.3)), chance.choice((0.0, 0.2, 0.4))
        self.ends_per_look, self.lives_on = chance.choice((0.0, 0.02, 0.1)), chance.choice((0.0, 0.5))
        self.world.after(self.world.between(0.0, 2.0), self._round)
        self.world.after(LOOK_AT_ALLOCATIONS_S, self._weather)

    # --- the platform ---

    def order(self, order: Order) -> None:
        if order.id in self.allocations:
            return
        taken = sum(len(each.nodes) for each in self.allocations.values())
        if taken + len(order.nodes) > self.simulation.pool.nodes_max:
            raise Broken(
                "safety", "server", f"{taken} nodes are ordered, and {order.id} asks for {len(order.nodes)} more"
            )
        self.world.tell("server", f"ordered {order.id} with {len(order.nodes)} nodes")
        self.allocations[order.id] = SimAllocation(order.nodes)
        if self.calm or not self.world.happens(self.never):
            self.world.after(self.world.between(0.5, 60.0), self._fill, order.id)

    @property
    def calm(self) -> bool:
        return self.simulation.weather.clear

    def _fill(self, name: str) -> None:
        allocation = self.allocations.get(name)
        if allocation is None or allocation.up:
            return
        if not self.calm and self.world.happens(self.fails):
            self.world.tell("server", f"order {name} came to nothing")
            del self.allocations[name]
            return
        allocation.up = True
        for node in allocation.nodes:
            allocation.machines.append(self.simulation.new_machine(node, SHAPE))

    def _weather(self) -> None:
        """Orders that would never come are filled in the end; some allocations are taken back early."""
        self.world.after(LOOK_AT_ALLOCATIONS_S, self._weather)
        for machine in self.simulation.machines.values():
            machine.start_agent()  # Whoever started the agent starts it again.
        for name, allocation in list(self.allocations.items()):
            if self.calm and not allocation.up:
                self._fill(name)
            elif not self.calm and allocation.up and self.world.happens(self.ends_per_look):
                notice_s = self.world.chance.choice((0.0, 10.0, 40.0))
                for machine in allocation.machines:
                    if notice_s and machine.agent is not None and machine.up:
                        machine.agent.notice(notice_s)
                self.world.after(notice_s, self._end, name, self.world.happens(self.lives_on))

    def _end(self, name: str, lives_on: bool) -> None:
        allocation = self.allocations.pop(name, None)
        for machine in allocation.machines if allocation else ():
            self.world.tell(machine.name, "its allocation ended" + (", it lives on" if lives_on else ""))
            if not lives_on:
                machine.retire()

    def release(self, nodes: tuple[str, ...]) -> None:
        for name in {order_of(node) for node in nodes}:
            allocation = self.allocations.pop(name, None)
            for machine in allocation.machines if allocation else ():
                living = [each.task for each in machine.processes.values() if not each.orphan]
                if living:
                    raise Broken("safety", living[0].split("/")[0], f"{machine.name} was given back under {living[0]}")
                machine.retire()

    def sightings(self) -> Sightings:
        seen: dict[str, Sighting] = {}
        for allocation in self.allocations.values():
            sight = Sighting(Sight.UP) if allocation.up else Sighting(Sight.WAITING, "the platform says: Resources")
            seen.update(dict.fromkeys(allocation.nodes, sight))
        return Sightings(seen, not self.world.happens(self.simulation.faults.engine_partly_silent))

    # --- the performer ---

    def _round(self) -> None:
        self.world.after(self.simulation.settings.look_every_s, self._round)
        for server in self.simulation.servers:
            if server.cycle is not None and not server.asleep:
                self._look(server, server.cycle)

    def _look(self, server: SimServer, cycle: Cycle) -> None:
        saw = SawOrders(self.simulation.pool, self.sightings(), dict(cycle.book.nodes))
        late = self.world.happens(self.simulation.faults.engine_late)
        delay_s = self.world.between(1.0, 4.0) if late else self.world.between(0.01, 0.2)
        self.world.after(delay_s, self._tell, server, cycle, saw)

    def _tell(self, server: SimServer, cycle: Cycle, saw: SawOrders) -> None:
        if server.cycle is cycle:
            server.do(saw, lambda asks: self._carry_out(server, cycle, asks), _ignore)

    def _carry_out(self, server: SimServer, cycle: Cycle, asks: list[Order | Release]) -> None:
        """The calls, each before the next look: the real performer works in turn, too. Some are lost."""
        for ask in asks:
            if self.world.happens(self.simulation.faults.lost):
                continue
            if isinstance(ask, Order):
                self.order(ask)
                self._answer(server, cycle, Ordered(ask.id))
            else:
                self.release(ask.nodes)
                self._answer(server, cycle, GivenBack(ask.nodes))

    def _answer(self, server: SimServer, cycle: Cycle, command: Ordered | GivenBack) -> None:
        if server.cycle is cycle:
            self.world.after(0.01, self._do, server, cycle, command)

    def _do(self, server: SimServer, cycle: Cycle, command: Ordered | GivenBack) -> None:
        if server.cycle is cycle:
            server.do(command, _ignore, _ignore)

    def left(self) -> tuple[str, str] | None:
        """What is still there when all is over and the idle time has passed."""
        for name in self.allocations:
            return "server", f"order {name} is left on the platform"
        for name, machine in self.simulation.machines.items():
            if machine.up:
                return name, f"{name} is still up, and nobody needs it"
        for order in self.simulation.store.orders():
            return "server", f"order {order.id} is left in the store as {order.state}"
        return None


def _ignore(_: object) -> None:
    """The next look tells it again."""
