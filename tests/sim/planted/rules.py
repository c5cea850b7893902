"""Bugs to plant: each breaks one rule of the product, to prove that the judge can tell. Never used outside of tests.

`with planted("…"):` replaces one function of the product while the block runs; `caught` runs seeds until one breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from headway.control.jobs.commands import Stop, Submit
from headway.control.leader import cycle
from headway.control.leader.clock import SteadyClock
from headway.control.leader.cycle import Cycle, GiveUp, PendingCommand
from headway.control.nodes import file_reports, sync
from headway.control.nodes.sessions import Session
from headway.control.state.transaction import Transaction
from headway.control.state.working_copy import LogEnds
from headway.core.files import checkpoints
from headway.core.job import lifecycle, retry
from headway.core.job.signals import TaskMissing
from headway.core.model import Pool, State
from headway.core.scheduling.fit import Room
from headway.sim.run import Result, run_seed
from headway.store.memory.store import MemoryStore
from headway_agent.decide import decide as decisions
from headway_agent.decide import storage_moved, sync_request
from headway_agent.keeper import table as keeper_table
from headway_agent.keeper.turn import KeeperTurn
from headway_agent.loop import turn
from headway_wire.sync import Report
from headway_wire.tasks import split_key, task_key

Plant = Callable[[], Iterator[None]]
PLANTS: dict[str, tuple[Plant, dict[str, float]]] = {}


def plant(sentence: str, **weather: float) -> Callable[[Plant], Plant]:
    """Name a bug, with the weather in which it shows; a bug that shows in any weather names none."""

    def keep(make: Plant) -> Plant:
        PLANTS[sentence] = (make, weather)
        return make

    return keep


@contextmanager
def planted(sentence: str) -> Iterator[None]:
    with contextmanager(PLANTS[sentence][0])():
        yield


def caught(sentence: str, seeds: Iterable[int]) -> Result | None:
    """The first of these seeds in which the judge notices the planted bug."""
    weather = PLANTS[sentence][1]
    with planted(sentence):
        return next((result for seed in seeds if (result := run_seed(seed, weather)).kind), None)


@contextmanager
def _put(owner: Any, name: str, value: Any) -> Iterator[None]:
    old = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, old)


@plant("the server gives a node up after a few seconds of silence")
def _impatient() -> Iterator[None]:
    def leases(self: Cycle, mono: float) -> list[Any]:
        silent = [node for node in self.book.nodes if mono - self.session(node, mono).heard_at > 9.0]
        return [GiveUp(node, f"{node} was silent") for node in silent]

    with _put(Cycle, "_leases", leases):
        yield


@plant("the server takes a silent node's tasks for missing", short_cut_per_hour=60.0)
def _silence_is_absence() -> Iterator[None]:
    class Missing:
        def __init__(self, node: str) -> None:
            self.node = node

        def apply(self, tx: Transaction) -> None:
            for job in tx.book.jobs_on(self.node):
                for task in job.alive:
                    job = tx.step(job, TaskMissing(job.number, task.index)) if task.node == self.node else job

    def leases(self: Cycle, mono: float) -> list[Any]:
        return [Missing(node) for node in self.book.nodes if mono - self.session(node, mono).heard_at > 9.0]

    with _put(Cycle, "_leases", leases):
        yield


@plant("a gap in which the server did not listen counts as silence", server_sleeps_per_hour=120.0, lost=0.2)
def _no_new_leases() -> Iterator[None]:
    def tick(self: Cycle, now: float, mono: float) -> list[Any]:
        self.last_tick = mono
        return old(self, now, mono)

    old = Cycle.tick
    with _put(Cycle, "tick", tick):
        yield


@plant(
    "a server that starts knows nothing of leases longer than its pool's",
    lease_changes_per_hour=120.0,
    long_cut_per_hour=60.0,
    server_dies_per_hour=60.0,
)
def _forgets_long_leases() -> Iterator[None]:
    with _put(Pool, "lease_held_s", 0.0):
        yield


@plant("the agent starts the ranks when it claims")
def _no_go() -> Iterator[None]:
    def decide(state: Any, fact: Any, now: float) -> list[Any]:
        acts = old(state, fact, now)
        return [*acts, decisions.Go(fact.task, (), None)] if isinstance(fact, decisions.Held) else acts

    old = decisions.decide
    with _put(turn, "decide", decide):
        yield


@plant("the keeper ignores the lease's deadline", long_cut_per_hour=60.0)
def _no_deadline() -> Iterator[None]:
    with _put(keeper_table.Table, "kill_by_s", lambda self: float("inf")):
        yield


@plant(
    "a new keeper forgets the ends that its predecessor wrote down",
    both_die_per_hour=200.0,
    short_cut_per_hour=100.0,
    storage_fails_per_hour=60.0,
)
def _no_journal() -> Iterator[None]:
    def replayed(lines: Iterable[bytes]) -> keeper_table.Table:
        table = old(lines)
        for task in table.tasks.values():
            task.lost = True
        return table

    old = keeper_table.replay
    with _put(keeper_table, "replay", replayed):
        yield


@plant("the keeper calls a task over while its descendants are alive")
def _left_alive() -> Iterator[None]:
    def finish(self: KeeperTurn) -> None:
        for task in list(self.table.finishing.values()):
            self._over(task)

    with _put(KeeperTurn, "_finish", finish):
        yield


@plant(
    "the fence is ignored: an old attempt's word is taken for the new one's",
    keeper_dies_per_hour=60.0,
    long_cut_per_hour=60.0,
    lost=0.1,
)
def _no_fence() -> Iterator[None]:
    def report(self: sync.Sync, tx: Transaction, said: Report) -> None:
        id, _, index = split_key(said.task)
        job = tx.book.jobs.get(id)
        old(self, tx, replace(said, task=task_key(id, job.number, index)) if job else said)

    old = sync.Sync._report
    with _put(sync.Sync, "_report", report), _put(sync, "_is_there", lambda *_: True):
        yield


@plant("a call that was overtaken is believed", late=0.15, repeated=0.2, agent_dies_per_hour=300.0)
def _no_order() -> Iterator[None]:
    class Forgetful(Session):
        @property
        def seq(self) -> int:
            return 0

        @seq.setter
        def seq(self, value: int) -> None:
            pass

    with _put(cycle, "Session", Forgetful):
        yield


@plant("a submit is answered before it is saved", crash_before_commit=0.05)
def _too_early() -> Iterator[None]:
    def attempt(self: Cycle, ask: PendingCommand, tx: Transaction) -> bool:
        good = old(self, ask, tx)
        if good and isinstance(ask.command, Submit):
            ask.done(ask.result)
            ask.done = ask.failed = lambda _: None
        return good

    old = Cycle._try
    with _put(Cycle, "_try", attempt):
        yield


@plant("nodes are told before it is saved", crash_before_commit=0.05)
def _told_too_early() -> Iterator[None]:
    def commit(self: Cycle, tx: Transaction, asks: list[PendingCommand]) -> Any:
        self._tell_nodes(tx.now)
        return old(self, tx, asks)

    old = Cycle._commit
    with _put(Cycle, "_commit", commit):
        yield


@plant("a repeated submit makes another job")
def _no_key() -> Iterator[None]:
    with (
        _put(Submit, "known", lambda self, tx: None),
        _put(MemoryStore, "commit", _without_keys(MemoryStore.commit)),
    ):
        yield


def _without_keys(commit: Any) -> Any:
    return lambda self, batch, epoch=None: commit(self, replace(batch, keys=()), epoch)


@plant("output is appended to the index as it comes", lost_back=0.2)
def _twice() -> Iterator[None]:
    def save_logs(self: MemoryStore, batch: Any) -> dict[Any, int]:
        ends: dict[Any, int] = {}
        for piece in batch.logs:
            end = ends[piece.of] = self._log_ends.get(piece.job, {}).get(piece.of, 0) + piece.end - piece.start
            self._save_log(replace(piece, start=end - (piece.end - piece.start), end=end))
        return ends

    with _put(LogEnds, "follows", lambda *_: True), _put(MemoryStore, "_save_logs", save_logs):
        yield


@plant("the server counts time by a clock that anybody may set", clock_jumps_per_hour=60.0)
def _wall_clock() -> Iterator[None]:
    with _put(SteadyClock, "__call__", lambda self: self._wall()):
        yield


@plant("processors leak from the scheduler's view")
def _leak() -> Iterator[None]:
    def give_back(self: Room, wants: Any, gpus: Any) -> Room:
        return replace(old(self, wants, gpus), cpus=self.cpus)

    old = Room.give_back
    with _put(Room, "give_back", give_back):
        yield


@plant("the platform's losses are charged to the user", keeper_dies_per_hour=60.0)
def _charged() -> Iterator[None]:
    with _put(retry, "_charge_platform", lambda job, cause, losses, now: retry._charge_user(job, losses, now)):
        yield


@plant("a job that makes headway between its losses is ended by their number", keeper_dies_per_hour=400.0)
def _life_long_budget() -> Iterator[None]:
    with _put(retry, "made_headway", lambda job: False):
        yield


@plant("a job that never makes headway is tried again for ever", keeper_dies_per_hour=400.0)
def _endless_budget() -> Iterator[None]:
    with _put(retry, "made_headway", lambda job: True):
        yield


@plant("a cancel is acknowledged and forgotten")
def _no_cancel() -> Iterator[None]:
    with _put(Stop, "apply", lambda self, tx: tx.get(self.job)):
        yield


@plant("a finished job is started again")
def _risen() -> Iterator[None]:
    def end(job: Any, *more: Any) -> Any:
        return replace(old(job, *more), state=State.QUEUED, ended_at=None)

    old = lifecycle._end
    with _put(lifecycle, "_end", end):
        yield


@plant(
    "a checkpoint of an old attempt is taken for the new one's",
    node_sleeps_per_hour=150.0,
    long_cut_per_hour=60.0,
    repeated=0.2,
    late=0.15,
)
def _no_checkpoint_fence() -> Iterator[None]:
    def going(tx: Transaction, session: Session, key: str) -> tuple[Any, int]:
        id, _, index = split_key(key)
        job = tx.book.jobs.get(id)
        return (job if job is not None and job.attempt is not None else None), index

    def any_key(value: object, job: Any, folder: str) -> str:
        return str(value)

    with _put(file_reports, "_going", going), _put(file_reports, "_key", any_key):
        yield


@plant("an attempt begins from the oldest checkpoint", keeper_dies_per_hour=120.0)
def _oldest() -> Iterator[None]:
    def oldest(found: Any, gang: Any) -> Any:
        complete = [whole for whole in checkpoints.gather(found, gang) if whole.complete]
        return complete[0] if complete else None

    with _put(checkpoints, "newest", oldest):
        yield


@plant("an end is told before the last checkpoint is committed", lost=0.2, storage_fails_per_hour=60.0)
def _no_salvage() -> Iterator[None]:
    with _put(vars(decisions)["unconfirmed_files"], "settled", lambda *_: True):
        yield


@plant("files that are not kept after a while are given up", storage_fails_per_hour=240.0)
def _short_patience() -> Iterator[None]:
    kept = vars(decisions)["unconfirmed_files"].settled

    def settled(state: Any, key: str, now: float) -> bool:
        return bool(kept(state, key, now)) or now > state.tasks[key].over_s + 10.0 > 10.0

    with (
        _put(vars(decisions)["unconfirmed_files"], "settled", settled),
        _put(sync_request, "_with_unkept", lambda _state, _task, outcome: outcome),
    ):
        yield


@plant(
    "the node of a job that saves is lost, and the job is called succeeded",
    node_burns_per_hour=120.0,
    storage_fails_per_hour=120.0,
)
def _lost_and_succeeded() -> Iterator[None]:
    def done(job: Any) -> bool:
        outcomes = [task.outcome for task in job.attempt.tasks]
        return all(each and each.ok for each in outcomes)

    with _put(lifecycle, "_was_done", done):
        yield


@plant("the server takes what a node stored in the place of before", storage_moves_per_hour=60.0)
def _any_place() -> Iterator[None]:
    with _put(cycle, "is_here", lambda told, here: True):
        yield


@plant("an agent tells of what it stored before storage moved", storage_moves_per_hour=60.0)
def _tells_of_the_old_place() -> Iterator[None]:
    with _put(storage_moved, "_drop_ranges", lambda state, now: None):
        yield


@plant("an end is taken though its output lies in the place of before", storage_moves_per_hour=120.0)
def _end_without_its_output() -> Iterator[None]:
    with _put(sync, "HANG_ON_STORAGE", frozenset()):
        yield
