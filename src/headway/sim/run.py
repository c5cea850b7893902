"""One seed: a world is drawn, lives through its faults, is left in peace, and is judged.

Phase 1: faults on, safety is checked after every save and at every birth and death of a process. Phase 2: faults off,
everything must settle in bounded time.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from headway.control.state.feature import NONE, Features
from headway.core.model import Pool, Resources
from headway.core.spec.engine import EngineRules
from headway.settings import Settings
from headway.sim import faults
from headway.sim.judge import judgement
from headway.sim.judge.broken import Broken
from headway.sim.judge.checkpoints import Checkpoints
from headway.sim.judge.oracle import Oracle
from headway.sim.network import Network
from headway.sim.node.machine import Machine
from headway.sim.server.engine import SimEngine
from headway.sim.server.ordered_engine import SHAPE, OrderedEngine
from headway.sim.server.server import SimServer, SimStore
from headway.sim.server.servers import Peer, Several
from headway.sim.server.storage import SimStorage
from headway.sim.workload import Workload
from headway.sim.world import World

SETTLES_WITHIN_S = 6000.0
STAYS_FOR_S = 30.0
LOOK_INTO_THE_BOOK_EVERY_S = 47.0
POOL = "sim"


class Simulation:
    """All parts of one world."""

    def __init__(
        self,
        seed: int,
        weather: Mapping[str, float] | None = None,
        ordered: bool = False,
        servers: int | None = None,
        features: Features = NONE,
    ) -> None:
        self.features = features
        self.ordered = ordered
        self.world = World(seed)
        chance = self.world.chance
        self.faults = faults.draw(chance)
        apart = Random(f"{seed} servers")
        several = servers_of(seed, apart) if servers is None else servers
        if several > 1:
            faults.draw_for_several(self.faults, apart)
        if weather is not None:
            self.faults = faults.Faults(**weather)
        else:
            self.faults.floods = Random(f"{seed} floods").choice((0.0, 0.0, 0.0, 1.0, 1.5, 2.0))
            self.faults.arrays = Random(f"{seed} arrays").choice((0.0, 0.0, 0.0, 0.0, 1.0))
        self.drawn = dict(vars(self.faults))
        self.lease_s = chance.choice(faults.LEASES_S)
        machines = chance.randint(2, 5)
        lead_lease_s = apart.choice((3.0, 6.0, 12.0))
        self.settings = Settings(
            look_every_s=5.0, tick_every_s=2.0, lead_lease_s=lead_lease_s, glance_every_s=lead_lease_s / 4,
            line_ahead_s=120.0 if self.drawn["floods"] or self.drawn["arrays"] else 0.0,
            preemption="on" if self.drawn["floods"] == 2.0 else "off",
        )  # fmt: skip
        self.nearby = apart.random() < 0.5  # Whether storage is as quick as the disk.
        self.pool = Pool(POOL, "sim", machines, machines, lease_s=self.lease_s)
        if ordered:
            self.pool = Pool(
                POOL, "sim", 0, machines, lease_s=self.lease_s, idle_s=chance.choice((5.0, 60.0)), shape=SHAPE
            )
        self.engines = {"sim": EngineRules(name="sim", ordered=ordered)}
        self.oracle = Oracle(self)
        self.checkpoints = Checkpoints(self)
        self.storage = SimStorage()
        self.store = SimStore(self)
        self.network = Network(self.world, self.faults)
        self.machines: dict[str, Machine] = {}
        self.granted = [SHAPE] * machines
        if not ordered:
            self.machines = {machine.name: machine for machine in map(self._machine, range(1, machines + 1))}
            self.granted = [machine.granted for machine in self.machines.values()]
        self.peers: list[Peer] = []
        self.server: SimServer | Several
        if several > 1:
            self.server = Several(self, several)
            self.peers = self.server.peers
        else:
            self.server = SimServer(self)
        self.engine = OrderedEngine(self) if ordered else SimEngine(self, proves_death=chance.random() < 0.5)
        self.busy_s = chance.choice((120.0, 300.0, 600.0))
        self.workload = Workload(self, chance.randint(5, 12), self.busy_s * 0.7)
        self.weather = faults.Weather(self)
        self.world.after(LOOK_INTO_THE_BOOK_EVERY_S, self._look_into_the_book)

    @property
    def servers(self) -> Sequence[SimServer]:
        return [self.server] if isinstance(self.server, SimServer) else self.peers

    def peer_at(self, url: str) -> Peer:
        return next(peer for peer in self.peers if peer.address == url)

    def _machine(self, number: int) -> Machine:
        chance = self.world.chance
        granted = Resources(float(chance.choice((2, 4, 8))), 16 * 2**30, chance.choice((0, 0, 2)))
        return Machine(self, f"{POOL}-{number}", granted)

    def new_machine(self, name: str, granted: Resources) -> Machine:
        machine = self.machines[name] = Machine(self, name, granted)
        machine.boot()
        return machine

    def _look_into_the_book(self) -> None:
        judgement.check_working_copy(self)
        self.world.after(LOOK_INTO_THE_BOOK_EVERY_S, self._look_into_the_book)

    def live(self) -> None:
        """Both phases. Raises Broken."""
        self.world.run(self.busy_s)
        self.weather.clear_up()
        by = self.world.now + SETTLES_WITHIN_S
        while not self._rests(by):
            left = judgement.unsettled(self)
            if left is not None and self.world.now >= by:
                raise Broken("liveness", *left)
        judgement.check_end(self)

    def _rests(self, by: float) -> bool:
        """Whether everything has settled and stays so: a node may just be on its way back from a cut."""
        self.world.run(by, lambda: judgement.unsettled(self) is None)
        self.world.run(self.world.now + STAYS_FOR_S)
        return judgement.unsettled(self) is None


@dataclass(frozen=True, slots=True)
class Result:
    """How a seed went. `kind` is empty when all was well."""

    seed: int
    trace: str
    steps: int
    kind: str = ""
    sentence: str = ""
    story: str = ""


def servers_of(seed: int, chance: Random) -> int:
    """Every eighth world has several servers; the others have one, as they always had."""
    return chance.choice((2, 3)) if seed % 8 == 3 else 1


def run_seed(
    seed: int,
    weather: Mapping[str, float] | None = None,
    ordered: bool = False,
    servers: int | None = None,
    features: Features = NONE,
) -> Result:
    """Live through one seed, in its own weather or in this one, and say how it went."""
    simulation = Simulation(seed, weather, ordered, servers, features)
    world = simulation.world
    try:
        simulation.live()
    except Broken as broken:
        world.tell(broken.about, f"BROKEN: {broken.sentence}")
        return Result(seed, world.trace, world.steps, broken.kind, broken.sentence, story_of(simulation, broken.about))
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        story = story_of(simulation, "server") + "\n" + traceback.format_exc()
        return Result(seed, world.trace, world.steps, "crash", said, story)
    return Result(seed, world.trace, world.steps)


def story_of(simulation: Simulation, about: str) -> str:
    """What happened to one job, with what happened to its nodes, the server and the weather, in order."""
    concerns = {about, "server", "weather"}
    for (job, _), real in simulation.oracle.real.items():
        if job == about:
            concerns |= real.nodes
    attempt = simulation.oracle.jobs[about].attempt if about in simulation.oracle.jobs else None
    concerns |= set(attempt.nodes) if attempt else set()
    drawn = {name: round(rate, 4) for name, rate in simulation.drawn.items() if rate}
    lines = [f"seed {simulation.world.seed}: lease {simulation.lease_s:g} s, faults {drawn}"]
    lines += [f"{when:10.3f}  {who:8}  {what}" for when, who, what in simulation.world.story if who in concerns]
    lines += [
        f"  event {event.seq} at {event.at:.3f}: {event.kind} of attempt {event.attempt} {dict(event.data)}"
        for event in simulation.store.events(0, 100_000, about)
    ]
    return "\n".join(lines)
