"""The weather: which faults a seed draws, how often each strikes, and what it strikes.

Swarm: most seeds have only a few kinds of faults, so that rare combinations are met undisturbed by all others.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from random import Random
from typing import TYPE_CHECKING

from headway.control.cluster.commands import SetPool

if TYPE_CHECKING:
    from headway.sim.run import Simulation


@dataclass
class Faults:
    """Chances are per call or per touch of the world; `_per_hour` is how often something strikes somewhere."""

    lost: float = 0.0
    lost_back: float = 0.0
    slow: float = 0.0
    repeated: float = 0.0
    late: float = 0.0
    crash_before_commit: float = 0.0
    crash_after_commit: float = 0.0
    crash_at_reply: float = 0.0
    claim_refused: float = 0.0
    engine_late: float = 0.0
    engine_partly_silent: float = 0.0
    node_dies_per_hour: float = 0.0
    node_burns_per_hour: float = 0.0
    agent_dies_per_hour: float = 0.0
    keeper_dies_per_hour: float = 0.0
    both_die_per_hour: float = 0.0
    short_cut_per_hour: float = 0.0
    long_cut_per_hour: float = 0.0
    server_dies_per_hour: float = 0.0
    server_sleeps_per_hour: float = 0.0
    node_sleeps_per_hour: float = 0.0
    clock_jumps_per_hour: float = 0.0
    store_fills_per_hour: float = 0.0
    storage_fails_per_hour: float = 0.0
    storage_moves_per_hour: float = 0.0
    lease_changes_per_hour: float = field(default=0.0, repr=False)  # Drawn last.
    events_lost: float = field(default=0.0, repr=False)  # The kernel's queue runs over, at so many of its events.
    database_cut_per_hour: float = field(default=0.0, repr=False)  # Not of a single server's weather.
    commit_unanswered: float = field(default=0.0, repr=False)  # Not of a single server's weather.
    read_fails: float = field(default=0.0, repr=False)  # Not of a single server's weather.
    # Alike short jobs come at once; above 1.0 urgent ones follow, and with 2.0 these preempt them: see workload.py.
    floods: float = field(default=0.0, repr=False)
    # Arrays come that say how many of their jobs may run at once: see arrays.py.
    arrays: float = field(default=0.0, repr=False)

    def stop(self) -> None:
        for each in fields(self):
            setattr(self, each.name, 0.0)


MOST: dict[str, float] = {
    "lost": 0.2,
    "lost_back": 0.2,
    "slow": 0.2,
    "repeated": 0.2,
    "late": 0.15,
    "crash_before_commit": 0.05,
    "crash_after_commit": 0.05,
    "crash_at_reply": 0.03,
    "claim_refused": 0.2,
    "engine_late": 0.3,
    "engine_partly_silent": 0.3,
    "node_dies_per_hour": 40.0,
    "node_burns_per_hour": 20.0,
    "agent_dies_per_hour": 120.0,
    "keeper_dies_per_hour": 60.0,
    "both_die_per_hour": 40.0,
    "short_cut_per_hour": 60.0,
    "long_cut_per_hour": 30.0,
    "server_dies_per_hour": 60.0,
    "server_sleeps_per_hour": 30.0,
    "node_sleeps_per_hour": 30.0,
    "clock_jumps_per_hour": 60.0,
    "store_fills_per_hour": 30.0,
    "storage_fails_per_hour": 60.0,
}


LEASES_S = (30.0, 60.0, 120.0, 600.0)
MOVES_MOST = 60.0
LEASE_CHANGES_MOST = 60.0
EVENTS_LOST_MOST = 0.05
UPSETS = ("agent_dies_per_hour", "both_die_per_hour")  # Who watches files may be dead when one is closed,
DEAFENS = ("node_sleeps_per_hour", "events_lost")  # or deaf, or find that half a minute has passed.
MOST_OF_SEVERAL: dict[str, float] = {  # Where several servers share a store, besides all else.
    "server_dies_per_hour": 120.0,
    "server_sleeps_per_hour": 120.0,
    "database_cut_per_hour": 120.0,
    "commit_unanswered": 0.03,
    "read_fails": 0.03,
}


def draw_for_several(faults: Faults, chance: Random) -> None:
    """What strikes servers, drawn apart: the worlds of a single server stay as they are."""
    for name, most in MOST_OF_SEVERAL.items():
        if chance.random() < 0.6:
            setattr(faults, name, most * 10 ** chance.uniform(-1.0, 0.0))


def draw(chance: Random) -> Faults:
    """A mix of its own for each seed: each kind is on or off, and when on, anything between rare and often."""
    faults = Faults()
    share = chance.choice((0.0, 0.15, 0.3, 0.3, 0.5, 0.8))
    for name, most in MOST.items():
        if chance.random() < share:
            setattr(faults, name, most * 10 ** chance.uniform(-1.5, 0.0))
    # From a source of its own, which came later: so the seeds of before meet the weather of before.
    own = Random(repr(faults))
    if own.random() < share / 2:
        faults.storage_moves_per_hour = MOVES_MOST * 10 ** own.uniform(-1.5, 0.0)
    if own.random() < share / 4:
        faults.lease_changes_per_hour = LEASE_CHANGES_MOST * 10 ** own.uniform(-1.0, 0.0)
    if own.random() < share / 4:
        faults.events_lost = EVENTS_LOST_MOST * 10 ** own.uniform(-1.5, 0.0)
    return faults


def _whatever(answer: object) -> None:
    """Whether it was done shows in what nodes are granted."""


class Weather:
    """Lets the drawn faults strike, until it is told to clear up."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.faults = simulation.faults
        self.clear = False
        for name in (*(MOST | MOST_OF_SEVERAL), "storage_moves_per_hour", "lease_changes_per_hour"):
            if name.endswith("_per_hour") and getattr(self.faults, name):
                self._next(name)

    def _next(self, name: str) -> None:
        rate: float = getattr(self.faults, name)
        if rate:
            self.world.after(self.world.chance.expovariate(rate / 3600.0), self._strike, name)

    def _strike(self, name: str) -> None:
        if self.clear:
            return
        if self.simulation.machines:
            getattr(self, "_" + name.removesuffix("_per_hour"))()
        self._next(name)

    def clear_up(self) -> None:
        """No more faults: cuts heal, sleepers wake, what is down comes up again."""
        self.clear = True
        self.faults.stop()
        simulation = self.simulation
        simulation.network.heal()
        simulation.store.full = False
        simulation.storage.broken = False
        self._upset()
        simulation.server.wake()
        for machine in simulation.machines.values():
            machine.wake()
        self.world.tell("weather", "cleared up")

    def _node_dies(self) -> None:
        self._a_machine().die(disk_lost=False)

    def _node_burns(self) -> None:
        self._a_machine().die(disk_lost=True)

    def _agent_dies(self) -> None:
        self._a_machine().kill_agent()

    def _keeper_dies(self) -> None:
        self._a_machine().kill_keeper()

    def _both_die(self) -> None:
        machine = self._a_machine()
        machine.kill_agent()
        machine.kill_keeper()

    def _short_cut(self) -> None:
        self._cut(self.world.between(1.0, self.simulation.lease_s * 0.9))

    def _long_cut(self) -> None:
        self._cut(self.world.between(self.simulation.lease_s * 0.8, self.simulation.lease_s * 3.0))

    def _cut(self, for_s: float) -> None:
        chance = self.world.chance
        names = sorted(self.simulation.machines)
        for name in chance.sample(names, chance.randint(1, len(names))):
            self.simulation.network.cut(name, for_s)

    def _server_dies(self) -> None:
        self.simulation.server.a_server().crash("killed")

    def _server_sleeps(self) -> None:
        # A suspended machine stops the monotonic clock, a stopped process does not.
        server = self.simulation.server.a_server()
        server.sleep(self._short_s() if self.simulation.peers else self._nap_s(), self.world.chance.random() < 0.5)

    def _database_cut(self) -> None:
        self.simulation.server.a_server().cut_off(self._short_s())

    def _short_s(self) -> float:
        """Around the lease of a leader, seldom much longer."""
        return self.simulation.settings.lead_lease_s * self.world.chance.choice((0.5, 1.0, 1.3, 2.0, 8.0))

    def _node_sleeps(self) -> None:
        self._a_machine().sleep(self._nap_s())

    def _nap_s(self) -> float:
        return self.world.between(2.0, self.simulation.lease_s * self.world.chance.choice((0.5, 2.0)))

    def _clock_jumps(self) -> None:
        by_s = self.world.between(-120.0, 120.0)
        if self.world.chance.random() < 0.5:
            self.simulation.server.a_server().wall_offset_s += by_s
        else:
            self._a_machine().wall_offset_s += by_s * 100

    def _store_fills(self) -> None:
        self.simulation.store.full = True
        self.world.tell("server", "the store is full")
        self.world.after(self.world.between(1.0, 60.0), self._store_empties)

    def _store_empties(self) -> None:
        self.simulation.store.full = False

    def _upset(self) -> None:
        for machine in self.simulation.machines.values():
            machine.upset += 1

    def _storage_fails(self) -> None:
        self._upset()
        self.simulation.storage.broken = True
        self.world.after(self.world.between(1.0, 60.0), self._storage_mends)

    def _storage_mends(self) -> None:
        self._upset()
        self.simulation.storage.broken = False

    def _storage_moves(self) -> None:
        """Its operator stops the server, copies everything elsewhere, and lets it start with the new place."""
        self.simulation.server.crash("its storage moves")
        self.simulation.storage.move()
        self._upset()
        self.world.tell("server", f"storage is {self.simulation.storage.mark} now")

    def _lease_changes(self) -> None:
        """Its operator gives the pool another lease; who is cut off does not hear of it."""
        lease_s = self.world.chance.choice(LEASES_S)
        pool = self.simulation.pool
        asked = SetPool(pool.name, {"lease": lease_s})
        self.world.tell("server", f"is asked for a lease of {lease_s:g} s")
        self.simulation.server.ask(asked, _whatever, _whatever)

    def _a_machine(self) -> Machine:
        machines = self.simulation.machines
        return machines[self.world.chance.choice(sorted(machines))]


if TYPE_CHECKING:
    from headway.sim.node.machine import Machine
