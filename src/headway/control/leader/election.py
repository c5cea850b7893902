"""Which server of one store leads: a thread that holds the lead, or watches the one that does and follows it.

The lease is in the store and goes by the store's clock. The leader itself is sure of it a little less long than others
respect it, counted on its own clock from when it *asked*: so it has fallen silent before anybody takes its place.
What a leader does is not known here: `begin` makes a term of it, and a term can be stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import structlog

from headway.control.leader.clock import boottime_s
from headway.control.views.measures import Measures
from headway.control.views.servers import is_there, listed
from headway.control.views.snapshot import Snapshot
from headway.core.errors import HeadwayError, NotLeader, Unavailable, for_log
from headway.core.job.events import Event
from headway.store.protocol import Batch, Glance, Lead, ServerSeen, Store

log = structlog.get_logger()

SURE = 0.9  # Share of the lease for which a leader itself relies on it: clocks do not run at exactly the same speed.
SEEN_EVERY_S = 5.0
LOOKED_EVERY_S = 1.0  # How often the other servers are looked up.
JOINED_WITHIN_S = 10.0


class Term(Protocol):
    """All that leads in this process, from the lead's beginning to its end."""

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Change:
    """A lead that was taken: from whom, and what the new leader knows of the time before."""

    lead: Lead
    before: Lead | None
    leaderless_s: float  # By the store's clock, from the end of the lease before.
    away_since: float | None  # Since when this server could not reach the store; None if it could.


class Away:
    """Stands where the control thread stands in a leader."""

    alive = True
    leads = False

    def __init__(self, leader: Callable[[], str]) -> None:
        self._leader = leader
        self.measures = Measures()

    @property
    def snapshot(self) -> Snapshot:
        self._refuse()

    def now(self) -> float:
        self._refuse()

    def do(self, command: Any) -> NoReturn:
        self._refuse()

    def run(self, work: Any, failed: Any = None) -> NoReturn:
        self._refuse()

    def look(self, view: Any) -> NoReturn:
        self._refuse()

    def follow_log(self, job: str, for_s: float) -> None:
        """Whoever leads has its own followers."""

    def let_all_go(self) -> None:
        """Nobody's call is held here."""

    def sync(self, body: Any) -> NoReturn:
        raise NotLeader(self._leader())

    def _refuse(self) -> NoReturn:
        raise Unavailable("no server leads at the moment", "another one takes over within seconds; try again")


def on_a_thread(name: str, work: Callable[[], None]) -> None:
    threading.Thread(target=work, name=name, daemon=True).start()


class Leadership:
    def __init__(
        self,
        store: Store,
        me: ServerSeen,
        lease_s: float,
        look_every_s: float,
        begin: Callable[[Change], Term],
        on_change: Callable[[], None],
        on_glance: Callable[[Glance], None] = lambda glance: None,
        clock: Callable[[], float] = boottime_s,
        now: Callable[[], float] = time.time,
        aside: Callable[[str, Callable[[], None]], None] = on_a_thread,
        log: Any = log,
    ) -> None:
        self._store = store
        self._me = me
        self._lease_s = lease_s
        self._look_every_s = look_every_s
        self._begin = begin
        self._on_change = on_change
        self._on_glance = on_glance
        self._clock = clock
        self._now = now
        self._log = log
        self._aside = aside  # Where a term begins and ends, while the lead goes on being looked after.
        self.lead: Lead | None = None  # As last seen: of this server, or of another.
        self.term: Term | None = None
        self.addresses: tuple[str, ...] = (me.address,)
        self.away_since: float | None = None
        self.why_away = ""
        self._epoch = 0  # Of the lead that this server holds; 0 when it holds none.
        self._held_until = 0.0
        self._not_before = 0.0
        self._seen_at = self._looked_at = float("-inf")
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="lead", daemon=True)

    # --- from other threads ---

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Give the lead back, so that another server takes it at once."""
        self._ended = True
        self._wake.set()
        self._thread.join(timeout=JOINED_WITHIN_S)
        epoch = self._epoch
        self._step_down("the server ends")
        try:
            if epoch:
                self._store.drop_lead(self._me.name, epoch)
            self._store.drop_server(self._me.name)
        except HeadwayError as error:
            self._log.warning("lead not given back", error=for_log(error))

    def sure(self, epoch: int) -> bool:
        """Whether this server holds the lead of this epoch for certain, at this very moment."""
        return self._epoch == epoch and self._clock() < self._held_until

    def lost(self, epoch: int) -> None:
        """The term of this epoch found out that it is over."""
        if self._epoch == epoch:
            self._held_until = 0.0
            self._wake.set()

    @property
    def leader(self) -> str:
        """The address of another server that leads; empty when none is known."""
        lead = self.lead
        return lead.address if lead is not None and lead.server != self._me.name else ""

    # --- the thread ---

    def _work(self) -> None:
        while not self._ended:
            self._wake.clear()
            rest_s = self.turn()
            if not self._ended:
                self._wake.wait(rest_s)

    def turn(self) -> float:
        """One round, whatever comes of it; says how long to rest afterwards."""
        try:
            self.round()
        except HeadwayError as error:
            self._cannot_reach(for_log(error))
        except Exception as error:
            self._log.exception("lead not looked at")
            self._cannot_reach(repr(error))
        if self._epoch and self._clock() >= self._held_until:
            self._step_down("its lease ran out before it could be renewed")
        return min(self._lease_s / 3, LOOKED_EVERY_S) if self._epoch else self._look_every_s

    def round(self) -> None:
        """Hold the lead, or look who has it and take it when nobody has."""
        if self._clock() - self._looked_at >= LOOKED_EVERY_S and not self._epoch:
            self._be_seen()  # Before the lead is taken: a new leader knows the others from the start.
        if self._epoch:
            self._keep()
        else:
            self._look()
        self._reached()
        if self._clock() - self._looked_at >= LOOKED_EVERY_S:
            self._be_seen()

    def _keep(self) -> None:
        asked_at, epoch = self._clock(), self._epoch
        if not self._store.keep_lead(self._me.name, epoch, None, self._lease_s):
            self._step_down("another server leads")
        elif self._held_until:
            self._held_until = asked_at + self._lease_s * SURE

    def _look(self) -> None:
        glance = self._store.glance()
        before, self.lead = self.lead, glance.lead
        self._on_glance(glance)
        if _who(before) != _who(glance.lead):
            self._on_change()
        if glance.lead is not None and glance.lead.until > glance.now and glance.lead.server != self._me.name:
            return
        if self._clock() >= self._not_before:
            self._take(glance)

    def _take(self, glance: Glance) -> None:
        asked_at = self._clock()
        lead = self._store.take_lead(self._me.name, self._me.address, None, self._lease_s)
        if lead is None:
            return
        leaderless_s = max(0.0, glance.now - glance.lead.until) if glance.lead else 0.0
        change = Change(lead, glance.lead, leaderless_s, self.away_since)
        with self._lock:
            self.lead, self._epoch, self._held_until = lead, lead.epoch, asked_at + self._lease_s * SURE
        self._log.info("lead taken", epoch=lead.epoch, before=glance.lead.server if glance.lead else "")
        # Aside: while everything is read from the store, the lead must go on being renewed.
        self._aside("term", lambda: self._start_term(change))

    def _start_term(self, change: Change) -> None:
        epoch = change.lead.epoch
        try:
            term = self._begin(change)
        except Exception as error:
            self._log.error("cannot lead", epoch=epoch, error=for_log(error))
            self._not_before = self._clock() + 2 * self._lease_s  # Others first.
            self.lost(epoch)
            return
        with self._lock:
            mine = self._epoch == epoch and not self._ended
            if mine:
                self.term = term
        if mine:
            self._log.info("server leads", epoch=epoch)
            self._on_change()
        else:
            term.stop()

    def _step_down(self, why: str) -> None:
        with self._lock:
            epoch, self._epoch, self._held_until = self._epoch, 0, 0.0
            term, self.term = self.term, None
        if not epoch:
            return
        self.lead = None
        self._log.warning("lead ended", epoch=epoch, why=why)
        self._on_change()
        if term is not None and self._ended:
            term.stop()
        elif term is not None:
            # It may hang in a call to the store; whatever it still wants to write is refused by its epoch.
            self._aside("term-ends", term.stop)

    def _be_seen(self) -> None:
        self._looked_at = self._clock()
        if self._looked_at - self._seen_at >= SEEN_EVERY_S:
            self._store.saw_server(self._me)
            self._seen_at = self._looked_at
        known = self._store.servers()
        now = max((each.seen_at for each in known), default=0.0)
        there = [each.address for each in known if is_there(each, now)]
        self.addresses = tuple(dict.fromkeys([self._me.address, *there]))
        for name in {each.name for each in known} - {each.name for each in listed(known, now)} - {self._me.name}:
            self._store.drop_server(name)

    def _cannot_reach(self, why: str) -> None:
        if self.away_since is None:
            self.away_since, self.why_away = self._now(), why
            self._log.warning("store away", error=why)

    def _reached(self) -> None:
        if self.away_since is not None:
            self._log.info("store back", away_s=round(self._now() - self.away_since, 1))
            self.away_since, self.why_away = None, ""


def told(change: Change, me: ServerSeen, now: float) -> Batch:
    """What a new leader records first: for whoever asks later what happened."""
    data = {"server": me.name, "address": me.address, "epoch": change.lead.epoch}
    before = change.before.server if change.before is not None else ""
    data |= {"before": before, "leaderless_s": round(change.leaderless_s, 2)}
    events = [Event("LeaderChanged", now, data=data)]
    if change.away_since is not None:
        away = {"since": change.away_since, "away_s": round(now - change.away_since, 1)}
        events.append(Event("DatabaseBack", now, data=away))
    return Batch(events=events)


def _who(lead: Lead | None) -> tuple[str, int, str] | None:
    return (lead.server, lead.epoch, lead.address) if lead else None
