"""The leader's heart: take commands, plan, save everything in one commit, then answer and tell the nodes.

Single-threaded and without a clock of its own: thread.py runs it in a server, the simulator runs it in a simulated one.
Nothing is answered before it is saved.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from headway.control.cluster.commands import LeasesOver
from headway.control.files.log_index import TrimLogs
from headway.control.jobs.commands import NewId, Why, WhyMany
from headway.control.jobs.submit import numbered
from headway.control.leader import overdue
from headway.control.leader.placement import SAVE_USE_S, SaveUse, carry_out, new_view, policy_of
from headway.control.nodes import file_reports, saver_questions, sessions
from headway.control.nodes.orders import Memory
from headway.control.nodes.sessions import Parked, Session
from headway.control.nodes.sync import Sync, lose_node
from headway.control.state.cluster_config import read_house
from headway.control.state.feature import NONE, Beat, Features
from headway.control.state.forecast_cache import at_once
from headway.control.state.transaction import Command, Transaction
from headway.control.state.working_copy import WorkingCopy, read_book
from headway.control.views.snapshot import Published, first_snapshot, next_snapshot, with_troubles
from headway.core.errors import BadInput, HeadwayError, Unavailable, Unfinished
from headway.core.growth.node_orders import order_of
from headway.core.job.events import Event
from headway.core.model import JobId, NodeId, Pool
from headway.core.scheduling import waiting_lines
from headway.core.scheduling.scheduler import View
from headway.core.spec.engine import Engines
from headway.core.units import show_duration
from headway.settings import Settings
from headway.store.protocol import Committed, LeaderLost, Store
from headway_wire import digests, kinds
from headway_wire.reply import Reply, StorageTold
from headway_wire.storage_marks import is_here
from headway_wire.sync import SyncRequest

log = structlog.get_logger()
AGAIN_MOST = 5
FEW = 64


@dataclass
class PendingCommand:
    """A command with somebody who waits for its result."""

    command: Command
    done: Callable[[Any], None]
    failed: Callable[[BaseException], None]
    result: Any = None
    touched: set[str] = field(default_factory=set)
    tries: int = 0
    alone: bool = False  # Others that it shared a commit with could not be saved.
    request: str = ""  # The id of the call that it came with.


class Cycle:
    def __init__(
        self,
        store: Store,
        settings: Settings,
        pools: Iterable[Pool],
        epoch: int,
        mono: float,
        publish: Callable[[Published], None],
        agent_version: str = "",
        new_id: NewId | None = None,
        secret: bytes = b"",
        elsewhere: Callable[[Callable[[], None]], None] = at_once,
        storage: Mapping[str, str] | None = None,
        engines: Engines | None = None,
        features: Features = NONE,
    ) -> None:
        self.engines = engines or {}
        self.secret = secret
        self.features = features
        self.storage = dict(storage or {})  # What nodes are told of it: its mark, and where it is on this host.
        self.elsewhere = elsewhere  # Where forecasts are made.
        self.store = store
        self.settings = settings
        self.given = tuple(pools)
        self.epoch = epoch
        self.book: WorkingCopy = self._read_book(None, 0.0, None)
        self.snapshot = first_snapshot(self.book, epoch, self.storage.get("mark", ""))  # What other threads see.
        self.use_saved_at = mono
        self.sessions: dict[NodeId, Session] = {}
        self.publish = publish
        self.agent_version = agent_version
        self.new_id = new_id  # For jobs that features submit.
        self.last_tick, self.ticked_at = mono, 0.0
        self.steps_saved_at = mono
        self.lowered: dict[str, tuple[Pool, float]] = {}  # Pools whose lease was longer, and since when it is not.
        self.listening_since: float | None = None
        self.plan_due = True
        self.doubtful = False  # Whether the book may differ from the store.
        self.follow: dict[str, float] = {}  # Job -> until when (monotonic) somebody follows its log.
        self.troubles: dict[str, str] = {}
        self.away_since: float | None = None  # Since when the store takes nothing.
        self.name = ""  # The id of the turn: events that come of nobody's call repeat it.
        self.servers: Callable[[], tuple[str, ...]] = tuple  # Where agents find a server, should this one go.
        # Every lease begins anew: nobody was listening before this moment.
        for node in self.book.nodes:
            self.session(node, mono)

    # --- one turn ---------------------------------------------------------------------------------------------------

    def turn(self, asks: list[PendingCommand], now: float, mono: float, place: bool = True) -> bool:
        """Do these commands and whatever the plan allows; save; answer. Says whether another turn is due at once.

        Without `place` the plan is left for a later turn: in a stream of submits, several share one.
        """
        self._read_again_if_doubtful(now)
        tx = Transaction(self.book, self.store, now, request=self.name)
        if self.away_since is not None and not self.doubtful:
            data = {"since": self.away_since, "away_s": round(now - self.away_since, 1)}
            tx.say(Event("DatabaseBack", now, data={**data, "why": self.troubles.get("store", "")[:500]}))
        good: list[PendingCommand] = []
        untried = list(reversed(self._not_in_doubt(asks) if self.doubtful else asks))
        try:
            while untried:
                if self._try(untried[-1], tx):
                    good.append(untried[-1])
                untried.pop()
            tx.request = self.name
            plans = place and not self.doubtful and (self.plan_due or tx.makes_room)
            again_due = self._plan(tx, now) if plans else bool(tx.changed or tx.nodes or tx.setup)
        except Unavailable as error:
            # The store could not be read half way: nothing of this turn is worth keeping.
            self._not_saved(tx, [*good, *untried], error)
            return False
        try:
            committed = self._commit(tx, good)
        except HeadwayError:
            raise
        except Exception as error:
            if not good:
                raise  # Nobody's command but our own plan: what else may be wrong, nobody knows.
            self._one_by_one(tx, good, error, now, mono)
            return self.plan_due
        if committed is None:
            return False
        again = [ask for ask in good if committed.stale and ask.touched & committed.stale]
        if committed.stale:
            self._take_over_stale(tx, committed.stale)
        # Few new jobs are entered first: whoever made them is shown what the book says. Many are entered after the
        # answers: what is on disk is accepted, and nobody need wait for what we make of it in memory.
        few = len(tx.new) <= FEW
        if few:
            self._enter_new(tx, committed)
        self._show()
        for ask in good:
            if ask not in again:
                ask.done(ask.result)
        if not few:
            self._enter_new(tx, committed)
            self._show()
        left = self.plan_due and not place
        self.plan_due = left or again_due or bool(tx.new)
        if not tx.empty:
            said = Published(committed.last_seq, tuple(tx.logs), tuple(tx.loose_keys), tuple(tx.changed))
            said.dropped = tuple(tx.files.dropped) if tx.files else ()
            self.publish(said)
        self._tell_nodes(now)
        if again:
            self.turn([ask for ask in again if self._once_more(ask)], now, mono)
        return self.plan_due

    def _plan(self, tx: Transaction, now: float) -> bool:
        return carry_out(tx, now, self.settings.line_ahead_s, self.agent_version)

    def _not_in_doubt(self, asks: list[PendingCommand]) -> list[PendingCommand]:
        """Those that may be tried though the book may differ from the store, which cannot be read now.

        A change that was not saved may still stand in the book: asked for again, it would seem done. Agents are heard,
        or their leases would run out; and whoever asks why is told what is known.
        """
        for ask in asks:
            if not isinstance(ask.command, Sync | Why | WhyMany):
                ask.failed(Unavailable(self.troubles.get("store", "the database is away"), "try again in a moment"))
        return [ask for ask in asks if isinstance(ask.command, Sync | Why | WhyMany)]

    def _try(self, ask: PendingCommand, tx: Transaction) -> bool:
        tx.touched, tx.request = ask.touched, ask.request or self.name
        try:
            ask.result = ask.command.apply(tx)
        except Unavailable:
            raise
        except HeadwayError as error:
            ask.failed(error)
            return False
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            # A command reads its caller's words; words that cannot be read are the caller's mistake, not our end.
            ask.failed(BadInput(f"{type(ask.command).__name__} could not be done: {error!r}"))
            return False
        except Exception as error:
            self._unfinished(ask, error)
            return False
        return True

    def _unfinished(self, ask: PendingCommand, error: Exception) -> None:
        what = type(ask.command).__name__
        said, last = repr(getattr(error, "orig", error))[:300], traceback.extract_tb(error.__traceback__)[-1]
        log.error(
            "command not done",
            request=ask.request or self.name,
            command=what,
            error=said,
            at=f"{last.name}:{last.lineno}",
        )
        ask.failed(Unfinished(f"{what} met something unexpected ({type(error).__name__}); nothing of it was saved"))

    def _once_more(self, ask: PendingCommand) -> bool:
        ask.tries += 1
        ask.touched = set()
        if ask.tries > AGAIN_MOST:
            ask.failed(Unavailable("somebody else keeps changing this job", "try again"))
        return ask.tries <= AGAIN_MOST

    def _commit(self, tx: Transaction, asks: list[PendingCommand]) -> Committed | None:
        if tx.empty:
            return Committed(last_seq=0)
        try:
            committed = self.store.commit(tx.batch(), self.epoch)
        except HeadwayError as error:
            self._not_saved(tx, asks, error)
            if isinstance(error, LeaderLost):
                raise
            return None
        self.troubles.pop("store", None)
        self.away_since = None
        for stream, end in committed.log_ends.items():
            self.book.log_ends.set(stream, end)
        for job in committed.fenced:
            self.book.trail.forget(job)
        return committed

    def _one_by_one(
        self, tx: Transaction, asks: list[PendingCommand], error: Exception, now: float, mono: float
    ) -> None:
        """The store cannot hold what one of these says: find out which by saving each alone. The others go on."""
        tx.undo()
        self.doubtful = True
        if len(asks) == 1 and asks[0].alone:
            self._unfinished(asks[0], error)
            self.plan_due = True
            return
        for ask in asks:
            ask.alone, ask.touched = True, set()
            self.turn([ask], now, mono, place=False)

    def _not_saved(self, tx: Transaction, asks: list[PendingCommand], error: HeadwayError) -> None:
        tx.undo()
        self.doubtful = True
        self.plan_due = False  # The next tick tries again; until then nothing turns in vain.
        self.troubles["store"] = error.message
        self.away_since = tx.now if self.away_since is None else self.away_since
        self.snapshot = with_troubles(self.snapshot, self.troubles, self.sessions)
        for ask in asks:
            ask.failed(error)

    def _take_over_stale(self, tx: Transaction, stale: frozenset[JobId]) -> None:
        try:
            tx.take_over_stale(stale)
        except Unavailable as error:
            self.doubtful = True  # All is read again before anything else is done.
            self.troubles["store"] = error.message

    def _read_book(self, older: View | None, now: float, before: WorkingCopy | None) -> WorkingCopy:
        house = read_house(self.store, self.given, self.engines)
        view = new_view(self.store, house, policy_of(self.settings), older, now)
        book = read_book(self.store, house, view, self.features, before)
        book.ordering = Memory()
        book.secret = self.secret
        book.foresight.elsewhere = self.elsewhere
        return book

    def _read_again_if_doubtful(self, now: float) -> None:
        """After a failed commit nobody knows for sure what was written (the answer may have been lost): read it."""
        if self.doubtful:
            trail, ordering, silent = self.book.trail, self.book.ordering, self.book.silent
            try:
                self.book = self._read_book(self.book.view, now, self.book)
            except HeadwayError as error:
                self.troubles["store"] = error.message
                return
            self.doubtful = False
            self.plan_due = True
            fresh = first_snapshot(self.book, self.epoch, self.snapshot.storage_mark)
            self.snapshot = with_troubles(fresh, self.troubles, self.sessions)
            self.book.trail.take_over(trail, self.book.jobs)
            self.book.ordering, self.book.silent = ordering, silent
            for session in self.sessions.values():
                if session.closed and session.node in self.book.nodes:
                    self.book.saw_node(self.book.nodes[session.node], False, session.closed)

    def _show(self) -> None:
        """Let other threads see what is saved. What is in doubt is not shown: it is read again first."""
        if not self.doubtful:
            self.snapshot = next_snapshot(self.snapshot, self.book)
            if self.book.troubled:  # Whoever hears of it by an event finds it here.
                self.book.troubled = False
                self.snapshot = with_troubles(self.snapshot, self.troubles, self.sessions)

    def _enter_new(self, tx: Transaction, committed: Committed) -> None:
        accepted = [change.job for change in tx.new if change.job.id not in committed.stale]
        for number, job in enumerate(accepted):
            self.book.saw(None, numbered(job, committed.first_job_seq + number))

    # --- nodes ------------------------------------------------------------------------------------------------------

    def session(self, node: NodeId, mono: float) -> Session:
        known = self.sessions.get(node)
        if known is None:
            pool = self.book.house.pools.get(self.book.nodes[node].pool) if node in self.book.nodes else None
            # Whoever led before us may have granted it this much; should the lease be lowered now, that still counts.
            held_s = max(pool.lease_s, pool.lease_held_s) if pool else 0.0
            known = self.sessions[node] = Session(node, heard_at=mono, leased_until=mono + held_s * 1.01)
        return known

    def heard(self, request: SyncRequest, mono: float) -> Sync:
        """An agent calls. Hearing it renews its lease, and writes nothing."""
        session = self.session(request.node, mono)
        session.heard_at = mono
        session.digests_marks(request.marks)
        if session.silent:
            session.silent = False
            self.book.silent.pop(session.node, None)
            self._reopen(session.node)
        here = is_here(request.storage or "", self.storage.get("mark", ""))
        return Sync(request, session, current=request.leader_epoch == self.epoch, here=here)

    def reply(self, sync: Sync, now: float, mono: float, deliver: Callable[[Reply], None]) -> None:
        """Answer a sync that was saved: at once when there is news or no patience, else when there is something."""
        session, request = sync.session, sync.request
        full = request.full or request.duties_digest != digests.shown(session.sent_digest)
        known = session.node in self.book.nodes and request.reports_digest == digests.shown(session.reported_digest)
        resend = not request.full and not known
        asks = saver_questions.asks_anew(self.book, session.node, session.asked)
        said = self._say(session, now, full)
        wait_s = min(request.wait_s, self.settings.sync_wait_s)
        other_leader = request.leader_epoch != self.epoch
        news = (full or resend or other_leader or said.duties or said.gone or request.logs or request.reports) or (
            asks or self.features.heard_in(said.more)
        )
        if request.storage is not None and request.storage != self.storage.get("mark", ""):
            said = kinds.replace(said, storage=StorageTold(**self.storage))
            news = True
        if sync.here and file_reports.brings(request):
            said = file_reports.answered(said, request)
            news = True
        at_once = bool(news) or wait_s <= 0 or request.agent_version != self.agent_version
        # An agent holds one call. Whoever made those before is dead or has hung up: what they are told, nobody hears.
        for left in [each for each in session.parked if not at_once or each.agent_epoch != session.agent_epoch]:
            session.parked.remove(left)
            left.deliver(kinds.replace(said, duties=(), gone=()))
        if at_once:
            deliver(kinds.replace(said, resend=resend, safe=self._safe(request, full, session)))
        else:
            session.parked.append(Parked(deliver, mono + wait_s, session.agent_epoch))

    def _told(self, session: Session, now: float) -> Reply:
        """What there is to say to a node that waits. What the store would have to be asked for is said later."""
        try:
            return self._say(session, now, False)
        except Unavailable as error:
            self.troubles["store"] = error.message
            self.book.touched.add(session.node)
            return self._say(session, now, False, duties=False)

    def _say(self, session: Session, now: float, full: bool, duties: bool = True) -> Reply:
        to_do, gone = sessions.changes(session, self.book, now, full) if duties else ((), ())
        for key in gone:
            session.forget(key)
        if full:
            for key in [key for key in session.reported if key not in session.sent]:
                session.forget(key)
        node = self.book.nodes.get(session.node)
        pool = self.book.house.pools.get(node.pool) if node else None
        session.follow = self._followed(session)
        session.said += 1
        # A node that we do not know holds no lease: nobody here counts it.
        lease_s = None if node is None else pool.lease_s if pool else 60.0
        session.leased_until = max(session.leased_until, session.heard_at + (lease_s or 0.0) * 1.01)
        session.asked = saver_questions.questions(self.book, session.node)
        return Reply(
            leader_epoch=self.epoch,
            said=session.said,
            lease_left_s=lease_s,
            full=full,
            duties=to_do,
            gone=gone,
            duties_digest=digests.shown(session.sent_digest),
            agent_version=self.agent_version,
            follow=tuple(sorted(session.follow)),
            saved=session.asked,
            leave=self._unwanted(session),
            servers=self._other_servers(session, full),
            more=self.features.told(session.node, self.book, now),
        )

    def _unwanted(self, session: Session) -> bool:
        """Whether a node calls that no order explains, or that its platform has no longer: it is told to leave."""
        if self.book.on_node.get(session.node):
            return False
        node = self.book.nodes.get(session.node)
        if session.node in self.book.ordering.strangers:
            return True
        house = self.book.house
        pool = house.pools.get(node.pool) if node else None
        return pool is not None and house.is_ordered(pool) and order_of(session.node) not in house.orders

    def _other_servers(self, session: Session, full: bool) -> tuple[str, ...]:
        """Where to ask when this server is gone, if the node does not know it yet."""
        servers = self.servers()
        if servers == session.servers and not full:
            return ()
        session.servers = servers
        return servers

    def _safe(self, request: SyncRequest, full: bool, session: Session) -> dict[str, dict[str, int]]:
        """Up to which byte each task's output is indexed: for those that sent output, and for all after a restart."""
        tasks = {str(piece.task) for piece in request.logs}
        if full:
            tasks.update(session.sent)
        safe: dict[str, dict[str, int]] = {}
        for key in tasks:
            job, attempt, index = key.split("/")
            ends = self.book.log_ends.of(job, int(attempt), int(index), self.store)
            safe[key] = {f"{rank}/{stream}": end for (rank, stream), end in ends.items()}
        return safe

    def _followed(self, session: Session) -> frozenset[str]:
        if not self.follow:
            return frozenset()
        here = self.book.on_node.get(session.node, {})
        return frozenset(key for key, (job, _) in here.items() if job in self.follow)

    def _tell_nodes(self, now: float) -> None:
        """Answer parked syncs of nodes whose duties changed."""
        touched, self.book.touched = self.book.touched, set()
        for node in sorted(touched):
            session = self.sessions.get(node)
            if session is None or not session.parked:
                continue
            asks = saver_questions.asks_anew(self.book, node, session.asked)
            said = self._told(session, now)
            if said.duties or said.gone or asks or self.features.heard_in(said.more):
                session.parked.pop(0).deliver(said)

    def follow_log(self, job: str, until: float, now: float) -> None:
        """Somebody follows a job's log until then (monotonic): its nodes ship at once rather than at ease."""
        self.follow[job] = until
        held = self.book.active.get(job)
        for task in held.alive if held else ():
            session = self.sessions.get(task.node)
            if session is not None and session.parked and self._followed(session) != session.follow:
                session.parked.pop(0).deliver(self._told(session, now))

    def _reopen(self, node: NodeId) -> None:
        known = self.book.nodes.get(node)
        if known is not None:
            closed = self.sessions[node].closed
            self.book.saw_node(known, not closed, closed)
            self.plan_due = True

    # --- time -------------------------------------------------------------------------------------------------------

    def tick(self, now: float, mono: float) -> list[Command]:
        """Look at everything that time alone can bring about; returns what is to be done about it."""
        if mono - self.last_tick > self.settings.tick_gap_s:
            # We were not listening (a suspended machine, a stopped process): silence in the gap proves nothing.
            for session in self.sessions.values():
                session.heard_at = mono
        self.last_tick, self.ticked_at = mono, now
        self.snapshot = with_troubles(self.snapshot, self.troubles, self.sessions)
        if self.listening_since is None:
            self.listening_since = now
        self.follow = {job: until for job, until in self.follow.items() if until > mono}
        servers = self.servers()
        for session in self.sessions.values():
            # Who does not know of a new server yet is told at once: this one may be gone in a moment.
            self._let_go(session, now, mono if session.servers == servers else float("inf"))
        if "store" in self.troubles:
            self.plan_due = True
        late = waiting_lines.next_overdue(self.book.view, self.settings.line_ahead_s)
        self.plan_due = self.plan_due or (late is not None and late <= now)
        woken = self.book.view.next_wake()
        if woken is not None and woken <= now:
            self.plan_due = True
        due: list[Command] = []
        if overdue.any_at(self, now):
            due.append(overdue.Overdue(self))
        if self.book.overgrown:
            due.append(TrimLogs(frozenset(self.book.overgrown)))
            self.book.overgrown.clear()
        if mono - self.use_saved_at >= SAVE_USE_S:
            self.use_saved_at = mono
            due.append(SaveUse())
        for feature in self.features.who_tick:
            due.extend(feature.tick(Beat(self.book, now, self.new_id)))
        due.extend(self._progress(now, mono))
        due.extend(self._leases(now, mono))
        due.extend(self._leases_over(mono))
        return due

    def _progress(self, now: float, mono: float) -> list[Command]:
        """Steps to be saved, and jobs that have waited longer than they wanted to."""
        trail = self.book.trail
        due: list[Command] = []
        if trail.seen and mono - self.steps_saved_at >= file_reports.SAVE_STEPS_S:
            self.steps_saved_at = mono
            due.append(file_reports.SaveSteps())
        if trail.pending and min(trail.pending.values()) <= now:
            due.append(file_reports.EndPending())
        return due

    def _let_go(self, session: Session, now: float, mono: float) -> None:
        for parked in [each for each in session.parked if each.until <= mono]:
            session.parked.remove(parked)
            parked.deliver(self._told(session, now))

    def let_all_go(self, now: float) -> None:
        """The server is ending: no agent's call is held any longer."""
        for session in self.sessions.values():
            while session.parked:
                session.parked.pop(0).deliver(self._told(session, now))

    def _leases(self, now: float, mono: float) -> list[Command]:
        due: list[Command] = []
        for node, known in list(self.book.nodes.items()):
            session = self.session(node, mono)
            silent_s = mono - session.heard_at
            pool = self.book.house.pools.get(known.pool)
            lease_s = pool.lease_s if pool else 1800.0
            over_at = max(session.heard_at + lease_s * 1.01, session.leased_until)
            if mono > over_at + self.settings.lease_margin_s:
                said = f"{node} was silent for {show_duration(silent_s)}, longer than its lease"
                due.append(GiveUp(node, said, silent_s))
            elif silent_s > self.settings.silent_after_s and not session.silent and not session.parked:
                session.silent = True
                self.book.silent[node] = (now - silent_s, now + over_at + self.settings.lease_margin_s - mono)
                self.book.saw_node(known, False, "silent")
                due.append(Say(Event("NodeSilent", 0.0, data={"node": node, "silent_s": round(silent_s, 1)})))
        return due

    def _leases_over(self, mono: float) -> list[Command]:
        """Pools whose nodes can no longer hold a longer lease than the pool grants now."""
        due: list[Command] = []
        for pool in self.book.house.pools.values():
            if not pool.lease_held_s:
                continue
            known, since = self.lowered.get(pool.name, (None, mono))
            if known is not pool:  # Set again in between, it may have granted more.
                since = mono
                self.lowered[pool.name] = (pool, since)
            if mono - since > pool.lease_held_s * 1.01 + self.settings.lease_margin_s:
                due.append(LeasesOver(pool))
        return due


@dataclass(frozen=True, slots=True)
class GiveUp:
    """A node that is proven dead, or was silent for a whole lease while we listened."""

    node: NodeId
    detail: str
    silent_s: float = 0.0

    def apply(self, tx: Transaction) -> None:
        lose_node(tx, self.node, self.detail, silent_s=self.silent_s)


@dataclass(frozen=True, slots=True)
class Say:
    """Record a fact that belongs to no job."""

    event: Event

    def apply(self, tx: Transaction) -> None:
        tx.say(replace(self.event, at=tx.now))
