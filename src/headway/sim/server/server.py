"""A simulated server process around the real cycle: it can be killed at any touch of the world, and put to sleep.

A touch is a commit (the crash comes before or after it) or the delivery of a reply. What memory held is gone with it;
a restart is a new cycle, made from the store, with a larger leader epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headway.control.leader.clock import SteadyClock
from headway.control.leader.cycle import Cycle, PendingCommand
from headway.control.state.transaction import Command
from headway.core.errors import HeadwayError, Unavailable, Unfinished
from headway.core.model import JobId
from headway.sim.judge.broken import Broken
from headway.sim.network import Answer, Fail
from headway.store.memory.store import MemoryStore
from headway.store.protocol import Batch, Committed, Store
from headway_wire.sync import SyncRequest

if TYPE_CHECKING:
    from headway.sim.run import Simulation

RESTART_S = 3.0
WALL_0 = 1_000_000.0


class Crashed(BaseException):
    """The server's process ends here. Not an Exception: nothing in the product may catch it."""


class SimStore(MemoryStore):
    """The memory store, observed after each save, sometimes full, and a place where the server may die."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(lambda: simulation.world.now + WALL_0)
        self.simulation = simulation
        self.full = False

    def commit(self, batch: Batch, epoch: int | None = None, by: SimServer | None = None) -> Committed:
        world, faults = self.simulation.world, self.simulation.faults
        if world.happens(faults.crash_before_commit):
            raise Crashed("before a commit")
        if self.full:
            raise Unavailable("the disk is full")
        committed = super().commit(batch, epoch)
        self.simulation.oracle.saved(batch, committed, self, by or self.simulation.servers[0], epoch)
        if world.happens(faults.crash_after_commit):
            raise Crashed("after a commit")
        return committed


class SimServer:
    def __init__(self, simulation: Simulation, wall_offset_s: float = WALL_0) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.cycle: Cycle | None = None
        self.wall_offset_s = wall_offset_s
        self.mono_lag_s = 0.0
        self.asleep_until = 0.0
        self.starts = 0
        self.process = ""  # Another one after each start, where there are several servers.
        self.ids = 0
        # In the server's monotonic seconds, which stand still while its machine sleeps:
        self.heard_at: dict[str, float] = {}  # When a call of a node last reached it while it was awake.
        self.listening_since = 0.0
        self._inbox: list[PendingCommand | Callable[[], PendingCommand]] = []
        self._turn_due = False
        self.start()

    # --- the process ---

    def start(self) -> None:
        if self.cycle is not None:
            return
        simulation = self.simulation
        self.starts += 1
        store = simulation.store
        held = store.lead()
        if held is not None:
            store.drop_lead(held.server, held.epoch)
        lead = store.take_lead(f"server-{self.starts}", "", self.wall(), simulation.settings.lead_lease_s)
        assert lead is not None
        self._begin_cycle(store, lead.epoch)
        self.world.tell("server", f"started with epoch {lead.epoch}")

    def _begin_cycle(self, store: Store, epoch: int) -> Cycle:
        simulation = self.simulation
        self._inbox = []
        self._clock = SteadyClock(self.wall, lambda: self.world.now)
        self.cycle = Cycle(
            store, simulation.settings, [simulation.pool], epoch, self.mono(), _ignore,
            storage={"mark": simulation.storage.mark}, engines=simulation.engines, features=simulation.features,
        )  # fmt: skip
        self.listening_since = self.mono()
        self.world.after(simulation.settings.tick_every_s, self._tick, self.cycle)
        self._turn_soon()
        return self.cycle

    def crash(self, why: str) -> None:
        if self.cycle is None:
            return
        self.world.tell("server", f"died: {why}")
        self.cycle = None
        self._rouse()  # Its successor is a new process, and awake.
        self._inbox = []
        self.world.after(self.world.between(0.2, RESTART_S * 2), self.start)

    def sleep(self, for_s: float, clock_stops: bool) -> None:
        if self.cycle is None or self.asleep:
            return
        self.world.tell("server", f"sleeps for {for_s:.1f} s")
        self._fall_asleep(for_s, clock_stops)

    def _fall_asleep(self, for_s: float, clock_stops: bool) -> None:
        self.asleep_until = self.world.now + for_s
        self._slept_at, self._slept_mono = self.world.now, self.mono()
        self._clock_stops = clock_stops
        self.world.at(self.asleep_until, self._wake_from, self.asleep_until)

    def cut_off(self, for_s: float) -> None:
        """A server alone has its database beside it."""

    def _wake_from(self, until: float) -> None:
        if self.asleep_until == until:  # Else it was killed in that sleep, and may be in another by now.
            self.wake()

    def wake(self) -> None:
        if self.asleep_until:
            self._rouse()
            if self.mono() - self._slept_mono > self.simulation.settings.tick_gap_s:
                self.listening_since = self.mono()
            self._turn_soon()

    def _rouse(self) -> None:
        if self.asleep_until and self._clock_stops:
            self.mono_lag_s += self.world.now - self._slept_at
        self.asleep_until = 0.0

    @property
    def asleep(self) -> bool:
        return self.asleep_until > self.world.now

    def wall(self) -> float:
        """The machine's clock, which anybody may set."""
        return self.world.now + self.wall_offset_s

    def now(self) -> float:
        return self._clock()

    def mono(self) -> float:
        return self.world.now - self.mono_lag_s

    def leader(self) -> SimServer | None:
        """Who leads the store, of all who may think so."""
        return self if self.cycle is not None else None

    def at(self, url: str) -> SimServer:
        return self

    def a_server(self) -> SimServer:
        """One to which something happens."""
        return self

    def ask(self, command: Command, answer: Answer, fail: Fail) -> None:
        """A user's request arrives."""
        self.do(command, answer, fail)

    def new_id(self) -> JobId:
        self.ids += 1
        return f"j{self.ids}"

    # --- what arrives ---

    def do(self, command: Command, answer: Answer, fail: Fail) -> None:
        """A command arrives, from a user or from the performer."""
        if self.cycle is None:
            fail(Unavailable("connection refused"))
            return
        self._put(PendingCommand(command, self._touch(answer), self._complain(fail)))

    def sync(self, request: SyncRequest, answer: Answer, fail: Fail) -> None:
        """An agent's call arrives."""
        if self.cycle is None:
            fail(Unavailable("connection refused"))
            return
        cycle = self.cycle

        def begin() -> PendingCommand:
            self.heard_at[request.node] = self.mono()
            sync = cycle.heard(request, self.mono())

            def done(_: object) -> None:
                try:
                    cycle.reply(sync, self.now(), self.mono(), self._granting(cycle, answer, fail))
                except HeadwayError as error:
                    fail(error)

            return PendingCommand(sync, done, self._complain(fail))

        self._put(begin)

    def _granting(self, cycle: Cycle, answer: Answer, fail: Fail) -> Answer:
        """How an agent gets its answer, with which its node's lease is renewed."""
        return self._touch(answer)

    def _touch(self, answer: Answer) -> Answer:
        def deliver(what: Any) -> None:
            if self.world.happens(self.simulation.faults.crash_at_reply):
                raise Crashed("at a reply")
            answer(what)

        return deliver

    def _complain(self, fail: Fail) -> Fail:
        def complain(error: BaseException) -> None:
            if type(error) is HeadwayError or isinstance(error, Unfinished):
                raise Broken("crash", "the server", f"a command could not be done: {error}")
            fail(error)

        return complain

    def _put(self, item: PendingCommand | Callable[[], PendingCommand]) -> None:
        self._inbox.append(item)
        self._turn_soon()

    # --- turns ---

    def _turn_soon(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            self.world.after(self.world.between(0.0005, 0.005), self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        if self.cycle is None or self.asleep:
            return
        try:
            self._work(self.cycle, self._drain())
        except Crashed as crash:
            self.crash(str(crash))

    def _tick(self, cycle: Cycle) -> None:
        if cycle is not self.cycle:
            return
        if self.asleep:
            self.world.at(self.asleep_until, self._tick, cycle)
            return
        try:
            asks = self._drain()  # First hear who has called, then look who is silent: as the control thread does.
            asks += [
                PendingCommand(each, _ignore, self._complain(_ignore)) for each in cycle.tick(self.now(), self.mono())
            ]
            self._work(cycle, asks)
        except Crashed as crash:
            self.crash(str(crash))
            return
        self.world.after(self.simulation.settings.tick_every_s, self._tick, cycle)

    def _drain(self) -> list[PendingCommand]:
        inbox, self._inbox = self._inbox, []
        return [item if isinstance(item, PendingCommand) else item() for item in inbox]

    def _work(self, cycle: Cycle, asks: list[PendingCommand]) -> None:
        if (asks or cycle.plan_due) and cycle.turn(asks, self.now(), self.mono()):
            self._turn_soon()


def _ignore(_: object) -> None:
    pass
