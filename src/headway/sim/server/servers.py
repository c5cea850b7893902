"""Several simulated servers on one store: the real Leadership decides who leads, on simulated clocks, without threads.

Each can be killed, put to sleep and cut off from the database. A sleeper wakes in no particular order: what still
believes to lead may write before it has looked. As in api/web/follower_proxy.py, a server that does not lead passes
users' requests on, and points agents to the leader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from headway.control.leader.cycle import Cycle
from headway.control.leader.election import Change, Leadership, told
from headway.control.state.transaction import Command
from headway.core.errors import NotLeader, Unavailable
from headway.core.model import JobId
from headway.sim.network import Answer, Fail
from headway.sim.server.server import RESTART_S, WALL_0, Crashed, SimServer
from headway.store.protocol import Batch, Committed, Lead, LeaderLost, ServerSeen, Store
from headway_wire.sync import SyncRequest

if TYPE_CHECKING:
    from headway.sim.run import Simulation

ASIDE_S = (0.01, 0.5)
WAKING_S = 0.05
PASSED_ON_S_MAX = 10.0
OFFSET_S_MAX = 90.0  # By how much the servers' wall clocks differ from the database's.


class Way:
    """The way of one server to the store: it can be cut, and an answer can be lost on it."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._store = peer.simulation.store

    def __getattr__(self, name: str) -> Any:
        self._check()
        if self._peer.world.happens(self._peer.simulation.faults.read_fails):
            self._peer.unsure()
            raise Unavailable("the database broke the connection")
        return getattr(self._store, name)

    def _check(self) -> None:
        if self._peer.cut:
            raise Unavailable("the database cannot be reached")

    def _come_back(self) -> None:
        if self._peer.world.happens(self._peer.simulation.faults.commit_unanswered):
            self._peer.unsure()
            raise Unavailable("the database's answer was lost")

    def commit(self, batch: Batch, epoch: int | None = None) -> Committed:
        self._check()
        committed = self._store.commit(batch, epoch, self._peer)
        self._come_back()
        return committed

    def take_lead(self, server: str, address: str, now: float | None, lease_s: float) -> Lead | None:
        self._check()
        lead = self._store.take_lead(server, address, now, lease_s)
        if lead is not None:
            self._peer.simulation.oracle.leads.taken(server, lead, lease_s)
            self._come_back()
        return lead

    def keep_lead(self, server: str, epoch: int, now: float | None, lease_s: float) -> bool:
        self._check()
        kept = self._store.keep_lead(server, epoch, now, lease_s)
        if kept:
            self._peer.simulation.oracle.leads.kept(self._peer, server, epoch, lease_s)
        return kept


class Telling:
    """What Leadership logs is part of the story."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda what, **more: self._peer.tell(f"{what} {more}")


class SimTerm:
    """A simulated server's time as a leader."""

    def __init__(self, peer: Peer, cycle: Cycle) -> None:
        self._peer, self._cycle = peer, cycle

    def stop(self) -> None:
        self._peer.end_term(self._cycle)


class Peer(SimServer):
    """One of several servers."""

    def __init__(self, simulation: Simulation, number: int) -> None:
        self.name = f"s{number}"
        self.address = f"http://{self.name}"
        self.up = self.leading = False
        self.leader_url = ""
        self.cut_until = 0.0
        self.able_since = 0.0
        self._leadership: Leadership | None = None
        chance = simulation.world.chance
        super().__init__(simulation, WALL_0 + chance.uniform(-OFFSET_S_MAX, OFFSET_S_MAX))

    def tell(self, what: str) -> None:
        self.world.tell("server", f"{self.name} {what}")

    # --- the process ---

    def start(self) -> None:
        if self.up:
            return
        self.up = True
        self.starts += 1
        self.process = f"{self.name}.{self.starts}"
        self.able_since = 0.0
        self.unsure()
        self._way = cast(Store, Way(self))
        self._me = ServerSeen(self.process, self.address, started_at=self.wall())
        settings = self.simulation.settings
        self._leadership = Leadership(
            self._way,
            self._me,
            settings.lead_lease_s,
            settings.glance_every_s,
            self._begin,
            self._changed,
            clock=lambda: self.world.now,
            now=self.wall,
            aside=self._aside,
            log=Telling(self),
        )
        self.tell("started")
        self.world.after(self.world.between(0.0, 0.5), self._lead, self._leadership)

    def crash(self, why: str) -> None:
        if not self.up:
            return
        self.tell(f"died: {why}")
        self.up = self.leading = False
        self.leader_url, self.cycle, self._leadership, self._inbox = "", None, None, []
        self._rouse()
        self.world.after(self.world.between(0.2, RESTART_S * 5), self.start)

    def sleep(self, for_s: float, clock_stops: bool) -> None:
        if self.up and not self.asleep:
            self.tell(f"sleeps for {for_s:.1f} s")
            self._fall_asleep(for_s, clock_stops)

    def wake(self) -> None:
        if self.asleep_until:
            self.unsure()
        super().wake()

    def cut_off(self, for_s: float) -> None:
        self.tell(f"cannot reach the database for {for_s:.1f} s")
        self.cut_until = max(self.cut_until, self.world.now + for_s)
        self.able_since = max(self.able_since, self.cut_until)

    def heal(self) -> None:
        if self.cut:
            self.cut_until = 0.0
            self.unsure()

    def unsure(self) -> None:
        """From now on it is expected to take the lead where nobody has it; before, it could not."""
        self.able_since = max(self.able_since, self.world.now, self.cut_until)  # It may be letting others go first.

    @property
    def cut(self) -> bool:
        return self.cut_until > self.world.now

    @property
    def able(self) -> bool:
        return self.up and not self.asleep and not self.cut

    # --- the lead ---

    def _lead(self, leadership: Leadership) -> None:
        if leadership is not self._leadership:
            return
        if self.asleep:
            self._when_awake(self._lead, leadership)
        else:
            self.world.after(leadership.turn(), self._lead, leadership)

    def _when_awake(self, do: Callable[..., None], *arguments: Any) -> None:
        self.world.at(self.asleep_until + self.world.between(0.0, WAKING_S), do, *arguments)

    def _aside(self, name: str, work: Callable[[], None]) -> None:
        self.world.after(self.world.between(*ASIDE_S), self._do_aside, self._leadership, work)

    def _do_aside(self, leadership: Leadership, work: Callable[[], None]) -> None:
        if leadership is not self._leadership:
            return
        if self.asleep:
            self._when_awake(self._do_aside, leadership, work)
            return
        try:
            work()
        except Crashed as crash:
            self.crash(str(crash))

    def _begin(self, change: Change) -> SimTerm:
        """As wiring.py does it."""
        epoch = change.lead.epoch
        try:
            self._way.commit(told(change, self._me, self.wall()), epoch)
            leadership = self._leadership
            assert leadership is not None
            self._let_down()
            cycle = self._begin_cycle(self._way, epoch)
        except Exception as error:
            # It lets the others go first, and nobody else can before its lease is over.
            self.able_since = self.world.now + 3 * self.simulation.settings.lead_lease_s
            self.simulation.oracle.leads.leaderless_since = self.world.now
            raise error
        cycle.servers = lambda: leadership.addresses
        self.tell(f"leads in epoch {epoch}")
        return SimTerm(self, cycle)

    def _changed(self) -> None:
        assert self._leadership is not None
        self.leading = self._leadership.term is not None
        self.leader_url = self._leadership.leader

    def end_term(self, cycle: Cycle) -> None:
        """What is at hand is done, as far as the store takes it; whoever else waits is let down."""
        if self.cycle is cycle:
            self._work(cycle, self._drain())
            self._end_cycle(cycle)

    def _work(self, cycle: Cycle, asks: list[Any]) -> None:
        try:
            super()._work(cycle, asks)
        except LeaderLost as error:
            self.tell(f"was refused: {error.message}")
            self._end_cycle(cycle)
            leadership = self._leadership
            assert leadership is not None
            leadership.lost(cycle.epoch)
            self.world.after(self.world.between(0.0, WAKING_S), self._look_now, leadership)

    def _look_now(self, leadership: Leadership) -> None:
        if leadership is self._leadership and not self.asleep:
            leadership.turn()

    def _end_cycle(self, cycle: Cycle) -> None:
        if self.cycle is cycle:
            self._let_down()
            cycle.let_all_go(self.now())
            self.cycle = None

    def _let_down(self) -> None:
        for ask in self._drain() if self.cycle is not None else ():
            ask.failed(Unavailable("the server no longer leads"))

    # --- what arrives ---

    def ask(self, command: Command, answer: Answer, fail: Fail, passed: bool = False) -> None:
        if not self.up:
            fail(Unavailable("connection refused"))
        elif self.asleep:
            self._when_awake(self.ask, command, answer, fail, passed)
        elif self.leading:
            self.do(command, answer, fail)
        elif passed or not self.leader_url:
            fail(Unavailable("no server leads"))
        else:
            other = self.simulation.peer_at(self.leader_url)
            self.simulation.network.call(
                f"{self.name} to {other.name}",
                lambda answer, fail: other.ask(command, answer, fail, passed=True),
                answer,
                fail,
                PASSED_ON_S_MAX,
            )

    def sync(self, request: SyncRequest, answer: Answer, fail: Fail) -> None:
        if not self.up:
            fail(Unavailable("connection refused"))
        elif self.asleep:
            self._when_awake(self.sync, request, answer, fail)
        elif self.leading:
            super().sync(request, answer, fail)
        else:
            fail(NotLeader(self.leader_url))

    def _granting(self, cycle: Cycle, answer: Answer, fail: Fail) -> Answer:
        give, leadership = self._touch(answer), self._leadership

        def deliver(reply: Any) -> None:
            # As control/leader/thread.py: who may have been replaced grants no lease.
            if leadership is not None and leadership.sure(cycle.epoch):
                give(reply)
            else:
                fail(Unavailable("this server may no longer lead"))

        return deliver


class Several:
    """All servers, where the world speaks of the server."""

    def __init__(self, simulation: Simulation, count: int) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.ids = 0
        self.peers = [Peer(simulation, number) for number in range(1, count + 1)]
        self.world.after(1.0, simulation.oracle.leads.watch)

    def new_id(self) -> JobId:
        self.ids += 1
        return f"j{self.ids}"

    def leader(self) -> SimServer | None:
        epoch = self.simulation.oracle.leads.epoch
        return next((peer for peer in self.peers if peer.cycle is not None and peer.cycle.epoch == epoch), None)

    def at(self, url: str) -> SimServer:
        return self.simulation.peer_at(url)

    def a_server(self) -> SimServer:
        """Rather the leader than another: that is where it hurts."""
        leader = self.leader()
        return leader if leader is not None and self.world.happens(0.6) else self.world.chance.choice(self.peers)

    def ask(self, command: Command, answer: Answer, fail: Fail) -> None:
        self.world.chance.choice(self.peers).ask(command, answer, fail)

    def crash(self, why: str) -> None:
        for peer in self.peers:
            peer.crash(why)

    def wake(self) -> None:
        for peer in self.peers:
            peer.heal()
            peer.wake()
