"""The one writer thread: it runs the cycle, and is the only one that touches the book and writes to the store.

Everybody else hands it commands and waits. Commands that arrive while a commit is under way share the next one.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

import structlog

from headway.control.jobs.commands import Why, WhyMany
from headway.control.leader.clock import SteadyClock
from headway.control.leader.cycle import Cycle, PendingCommand
from headway.control.nodes.sync import Sync
from headway.control.state import requests
from headway.control.state.transaction import Command
from headway.control.views.leader_port import Found, LeaderMemory
from headway.control.views.measures import Measures
from headway.control.views.snapshot import Snapshot
from headway.core.errors import HeadwayError, Unavailable, Unfinished, for_log
from headway.core.model import JobId
from headway.core.units import show_duration
from headway.store.protocol import LeaderLost
from headway_wire.reply import Reply
from headway_wire.sync import SyncRequest

QUESTIONS = (Why, WhyMany)  # They need no commit, so they make no stream.

log = structlog.get_logger()
Fail = Callable[[BaseException], None]
STREAM = 4  # Commands that follow each other within so many `gather_s` are a stream.
CLOCK_SET_S = 2.0  # A machine's clock that is off by more than this was set.
RIDE = 2  # In a stream, agents' calls wait so many `gather_s` more for a command whose commit they can share.


class ControlThread:
    """`do` for a command and its result, `sync` for an agent's call, `run` for anything else on that thread."""

    leads = True

    def __init__(
        self,
        cycle: Cycle,
        on_lost_lead: Callable[[], None],
        sure: Callable[[], bool] = lambda: True,
        now: SteadyClock | None = None,
        turn: Callable[[Cycle, list[PendingCommand], float, float, bool], bool] = Cycle.turn,
    ) -> None:
        self.cycle = cycle
        self.now = now or SteadyClock()
        self._sure = sure  # Whether this server leads for certain: only then may it renew a node's lease.
        self._commands: deque[PendingCommand] = deque()
        # Agents' calls, and work between two turns; each with whom to tell when it will never be done.
        self._calls: deque[tuple[Callable[[], PendingCommand | None], Fail]] = deque()
        self._wake = threading.Event()
        self._commands_at: deque[float] = deque([-1.0, -1.0], maxlen=2)  # When the last two commands came.
        self._calls_taken_at = 0.0
        self._take_turn = turn  # Or one that writes turns down: turn_dumps.py.
        self._turns = 0
        self.measures = Measures()
        self._stopping = False
        self._over = False  # Nothing that comes now is ever taken up.
        self._on_lost_lead = on_lost_lead
        self._thread = threading.Thread(target=self._work, name="control", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the work at hand is saved and answered."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout=30)

    @property
    def snapshot(self) -> Snapshot:
        """What is saved, as every thread may see it."""
        return self.cycle.snapshot

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def do(self, command: Command) -> Future[Any]:
        """Have a command done and saved."""
        future: Future[Any] = _promise()
        self._check_open()
        if not isinstance(command, QUESTIONS):
            self._commands_at.append(time.monotonic())
        request = requests.current.get()
        self._commands.append(PendingCommand(command, future.set_result, future.set_exception, request=request))
        self._wake.set()
        if self._over:
            self._let_down()
        return future

    def sync(self, request: SyncRequest) -> Future[Reply]:
        """An agent's call: its reply comes when it is saved and there is something to say, or its patience is over."""
        future: Future[Reply] = _promise()
        came_at = time.monotonic()

        def begin() -> PendingCommand | None:
            sync = self.cycle.heard(request, time.monotonic())
            id = requests.of_sync(request.node, request.agent_epoch, request.seq)

            def saved(_: object) -> None:
                self.measures.syncs.add(time.monotonic() - came_at)
                self._answer(sync, future)

            return PendingCommand(sync, saved, future.set_exception, request=id)

        self._put(begin, future.set_exception)
        return future

    def _answer(self, sync: Sync, future: Future[Reply]) -> None:
        def deliver(reply: Reply) -> None:
            # Whoever may have been replaced grants no lease: the new leader would count that node as silent.
            if self._sure():
                sync.session.meets(sync.request.leader_epoch or 0, self.cycle.epoch)
                future.set_result(reply)
            else:
                future.set_exception(Unavailable("this server may no longer lead", "ask the others"))

        try:
            self.cycle.reply(sync, self.now(), time.monotonic(), deliver)
        except HeadwayError as error:
            future.set_exception(error)  # What it should hear could not be read: it says all this again.
        except Exception as error:
            log.exception("sync not answered", node=sync.session.node)
            future.set_exception(Unfinished(f"the sync could not be answered: {type(error).__name__}"))

    def run(self, work: Callable[[Cycle], None], failed: Fail | None = None) -> None:
        """Run something on the control thread, between two turns; or tell that it will never be."""
        self._put(lambda: work(self.cycle), failed or _ignore)

    def look(self, view: Callable[[LeaderMemory], Found]) -> Future[Found]:
        """What a view finds in this thread's memory, between two turns."""
        future: Future[Found] = _promise()

        def work(cycle: Cycle) -> None:
            try:
                future.set_result(view(cycle))
            except Exception as error:
                _let_know(future.set_exception, error)

        self.run(work, future.set_exception)
        return future

    def follow_log(self, job: JobId, for_s: float) -> None:
        """Have the nodes of a job ship its output at once for so long."""
        until = time.monotonic() + for_s
        self.run(lambda cycle: cycle.follow_log(job, until, self.now()))

    def let_all_go(self) -> None:
        """The server is ending: no agent's call is held any longer."""
        if self.alive:
            self.run(lambda cycle: cycle.let_all_go(self.now()))

    def _put(self, call: Callable[[], PendingCommand | None], failed: Fail) -> None:
        self._check_open()
        self._calls.append((call, failed))
        self._wake.set()
        if self._over:
            self._let_down()

    def _check_open(self) -> None:
        if self._stopping or (self._thread.ident is not None and not self._thread.is_alive()):
            raise Unavailable("the server is stopping", "try again in a moment")

    def _work(self) -> None:
        try:
            while not self._stopping:
                self._turn()
            self._turn()
        except LeaderLost:
            log.error("lead lost", epoch=self.cycle.epoch)
            self._on_lost_lead()
        except BaseException:
            # Without this thread nothing can be saved: better no server than one that only seems to live.
            try:
                log.exception("control thread ended")
            finally:  # Also where the log cannot be written: on a full disk it may be that which has failed.
                self._on_lost_lead()
        finally:
            self._stopping = self._over = True
            self._let_down()
            self.cycle.let_all_go(self.now())

    def _let_down(self) -> None:
        """Tell those who still wait that nothing comes any more."""
        error = Unavailable("the server no longer leads, or is stopping", "try again in a moment")
        while self._commands or self._calls:
            try:
                fail = self._commands.popleft().failed if self._commands else self._calls.popleft()[1]
                fail(error)
            except (IndexError, InvalidStateError):
                pass  # Somebody else was faster.

    def _turn(self) -> None:
        settings = self.cycle.settings
        self._rest()
        mono = time.monotonic()
        asks = [self._commands.popleft() for _ in range(min(len(self._commands), settings.batch_most))]
        gathered = mono >= self._calls_due_at(mono)
        if gathered:
            self._calls_taken_at = mono
            asks += self._take_calls(settings.batch_most)
        if mono - self.cycle.last_tick >= settings.tick_every_s:
            self._look_at_the_clock()
            asks += [PendingCommand(command, _ignore, _complain) for command in self.cycle.tick(self.now(), mono)]
        if self.cycle.plan_due and any(isinstance(ask.command, QUESTIONS) for ask in asks):
            self._take([], mono)  # Who asks why hears of a plan that knows every job.
        if asks or (gathered and self.cycle.plan_due):
            self._take(asks, mono, gathered)

    def _take(self, asks: list[PendingCommand], mono: float, place: bool = True) -> None:
        self._turns += 1
        self.cycle.name = requests.of_turn(self.cycle.epoch, self._turns)
        self._take_turn(self.cycle, asks, self.now(), mono, place)
        self.measures.turns.add(time.monotonic() - mono)

    def _look_at_the_clock(self) -> None:
        """Say it when somebody has set the machine's clock: times that are shown are not the wall's for a while."""
        set_by_s, known = self.now.behind_s, "clock" in self.cycle.troubles
        if abs(set_by_s) < CLOCK_SET_S:
            self.cycle.troubles.pop("clock", None)
            return
        if not known:
            log.warning("clock was set", by_s=round(set_by_s, 1))
        way = "ahead of" if set_by_s > 0 else "behind"
        self.cycle.troubles["clock"] = (
            f"this machine's clock was set, and is {show_duration(abs(set_by_s))} {way} the server's time, which "
            "follows slowly so that no job is ended early or kept waiting; schedules follow with it, or after a restart"
        )

    def _rest(self) -> None:
        """Wait until there is something to do."""
        while not self._stopping:
            self._wake.clear()
            mono = time.monotonic()
            due_at = self.cycle.last_tick + self.cycle.settings.tick_every_s
            if self._calls or self.cycle.plan_due:
                alone_at = self._calls_due_at(mono)
                if self._streaming(mono):
                    alone_at += RIDE * self.cycle.settings.gather_s
                due_at = min(due_at, alone_at)
            if self._commands or due_at <= mono:
                return
            self._wake.wait(due_at - mono)

    def _calls_due_at(self, mono: float) -> float:
        """When agents' calls are taken up, and jobs placed: at once, but in a stream of commands every `gather_s`.

        Otherwise each command would wait for the commits of calls that came before it, one by one.
        """
        return self._calls_taken_at + self.cycle.settings.gather_s if self._streaming(mono) else mono

    def _streaming(self, mono: float) -> bool:
        return self._commands_at[0] > mono - STREAM * self.cycle.settings.gather_s

    def _take_calls(self, most: int) -> list[PendingCommand]:
        taken: list[PendingCommand] = []
        while self._calls and len(taken) < most:
            call, failed = self._calls.popleft()
            try:
                ask = call()
            except LeaderLost:
                raise
            except Exception as error:  # One caller's error, and nobody else's.
                _let_know(failed, error)
                continue
            if ask is not None:
                taken.append(ask)
        return taken


def _promise() -> Future[Any]:
    """A future that its waiter cannot cancel: a caller who goes away must not trip the thread that answers."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def _let_know(failed: Fail, error: Exception) -> None:
    """Tell a caller that the call met an error, and the log too where nobody foresaw it."""
    if not isinstance(error, HeadwayError):
        log.exception("call failed")
        error = Unfinished(f"the server met something unexpected ({type(error).__name__}); its log has the details")
    with suppress(InvalidStateError):
        failed(error)


def _ignore(_: object) -> None:
    pass


def _complain(error: BaseException) -> None:
    log.error("tick failed", error=for_log(error))
