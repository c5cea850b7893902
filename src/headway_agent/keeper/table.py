"""What the keeper knows: its tasks and ranks, when to signal whom, and how the journal is written and read again.

Pure: pids and times come in, signals and records go out as data. `now` is in seconds of CLOCK_BOOTTIME. process.py is
the process around it.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping

    Record = list[Any]
    Signal = tuple[int, int]  # The leader of a process group, and what to send to all of it.

PROTOCOL = 1
SIGTERM, SIGKILL = 15, 9
LEFTOVER_GRACE_S = 1.0  # For what a rank leaves behind when it ends by itself.
GRACE_PART = 1 / 8  # Of the lease: so much of it at most is for ending. A cut shorter than half of it ends nothing.
LEASE_MARGIN_S = 2.0  # Between the last SIGKILL and the end of the lease.
CLOCK_DUST_S = 0.001  # Sums of floats: a moment later is not later.

HELD, GOING, OVER = "held", "going", "over"


class Rank:
    __slots__ = ("born_s", "exit", "group_gone", "number", "pid")

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0  # 0: not started yet.
        self.born_s = 0.0
        self.exit: list[Any] | None = None  # exit code, signal, ours, out of memory, note
        self.group_gone = False


class KeeperTask:
    __slots__ = (
        "address",
        "cpus",
        "first_failure_at",
        "forget",
        "grace_s",
        "group",
        "key",
        "kill_at_s",
        "killed",
        "launch",
        "limits",
        "lost",
        "notice_signal",
        "phase",
        "port",
        "ranks",
        "started_at",
        "stay",
        "stay_pid",
        "why",
    )

    def __init__(self, key: str, grace_s: float = 30.0, address: str = "", port: int = 0) -> None:
        self.key = key
        self.phase = HELD
        self.grace_s = grace_s
        self.notice_signal = SIGTERM
        self.address = address
        self.port = port
        self.launch: Mapping[str, Any] = {}  # Everything needed to start its ranks; dropped once they are started.
        self.limits: Mapping[str, Any] = {}
        self.group: Any = None  # Its control group, where it has one.
        self.cpus: tuple[int, ...] = ()  # Those that it is pinned to.
        self.ranks: list[Rank] = []
        self.started_at = 0.0
        self.why = ""  # Why we signalled it: "" (we did not), "stop", "lease", "end" or "forget".
        self.kill_at_s: float | None = None
        self.killed = False
        self.lost = False
        self.first_failure_at = 0.0  # Time of day: what its ranks left is compared with it.
        self.forget = False
        self.stay: Mapping[str, Any] = {}  # How long its place is kept after a failure, and for which codes not.
        self.stay_pid = 0  # What holds the place meanwhile.

    @property
    def ranks_alive(self) -> bool:
        return any(rank.exit is None for rank in self.ranks)


class Table:
    """All tasks of this keeper, with the lease that they run under."""

    def __init__(self) -> None:
        self.tasks: dict[str, KeeperTask] = {}
        self.by_pid: dict[int, tuple[KeeperTask, Rank]] = {}
        self.waiting: list[KeeperTask] = []  # `go` was given; ranks not started yet.
        self.stopping: dict[str, KeeperTask] = {}  # Signalled, and something of it is alive.
        self.finishing: dict[str, KeeperTask] = {}  # All ranks exited; descendants may be left.
        self.deadline_s = 0.0
        self.granted_s = 0.0
        self.grace_s_max = 0.0

    # --- the lease ---

    def lease(self, deadline_s: float, granted_s: float) -> None:
        self.deadline_s, self.granted_s = deadline_s, granted_s

    def kill_by_s(self) -> float:
        """When the last SIGKILL is due, so that nothing is alive at the deadline."""
        return self.deadline_s - min(LEASE_MARGIN_S, self.granted_s / 10)

    def stop_by_s(self, grace_s: float) -> float:
        """When to begin stopping a task: as late as its grace allows, but for that no more than a part of the lease.

        A cut must not end what it need not end: whoever is cut off can send its last files to nobody anyway.
        """
        return self.kill_by_s() - min(grace_s, self.granted_s * GRACE_PART)

    # --- taking up ---

    def hold(self, launch: Mapping[str, Any]) -> None:
        key = launch["task"]
        if key in self.tasks:
            return
        task = KeeperTask(
            key, float(launch.get("grace_s", 30.0)), launch.get("address", ""), int(launch.get("port", 0))
        )
        task.launch = launch
        task.notice_signal = int(launch.get("notice_signal", SIGTERM))
        task.limits = launch.get("limits") or {}
        task.stay = launch.get("stay") or {}
        task.ranks = [Rank(rank["rank"]) for rank in launch["ranks"]]
        self.tasks[key] = task

    def go(self, key: str, env: Mapping[str, str], now: float) -> list[Record]:
        """Queue a held task for its start. Without a lease, its end is recorded at once."""
        task = self.tasks.get(key)
        if task is None or task.phase != HELD:
            return []
        task.phase = GOING
        if not self.grace_s_max or task.grace_s > self.grace_s_max:
            self.grace_s_max = task.grace_s
        if now >= self.stop_by_s(task.grace_s):
            return self._never(task, "lease", "the lease was over before it could start")
        task.launch = dict(task.launch, go_env=dict(env))
        self.waiting.append(task)
        return []

    def begun(self, task: KeeperTask, started_at: float) -> Record:
        task.started_at = started_at
        return ["begin", task.key, task.grace_s, task.address, task.port, started_at, [r.number for r in task.ranks]]

    def spawned(self, task: KeeperTask, rank: Rank, pid: int, now: float) -> Record:
        rank.pid, rank.born_s = pid, now
        self.by_pid[pid] = (task, rank)
        return ["spawn", task.key, rank.number, pid, round(now, 2)]

    def failed_to_start(self, task: KeeperTask, rank: Rank, exit_code: int, note: str) -> Record:
        return self._exit(task, rank, [exit_code, None, "", False, note])

    def _never(self, task: KeeperTask, why: str, note: str) -> list[Record]:
        records = [self.begun(task, 0.0)]
        return records + [self._exit(task, rank, [None, None, why, False, note]) for rank in task.ranks]

    # --- ending ---

    def exited(
        self, pid: int, exit_code: int | None, signal: int | None, oom: bool, note: str = "", at: float = 0.0
    ) -> Record | None:
        """Record a rank's exit. None for a pid that is not a rank (an adopted descendant, the guard)."""
        task, rank = self.by_pid.pop(pid, (None, None))
        if task is None or rank is None:
            return None
        if exit_code != 0:
            task.first_failure_at = task.first_failure_at or at
        record = self._exit(task, rank, [exit_code, signal, task.why, oom, note])
        return [*record, at] if at else record

    def _exit(self, task: KeeperTask, rank: Rank, exit: list[Any]) -> Record:
        rank.exit = exit
        if not rank.pid:
            rank.group_gone = True
        if not task.ranks_alive:
            task.launch = {}
            self.finishing[task.key] = task
        return ["exit", task.key, rank.number, *exit]

    def over(self, task: KeeperTask) -> Record:
        """Nothing of it is alive any more."""
        task.phase = OVER
        self.finishing.pop(task.key, None)
        self.stopping.pop(task.key, None)
        if not self.by_pid and not self.waiting:
            self.grace_s_max = 0.0
        return ["over", task.key]

    def stop(self, key: str, grace_s: float, why: str, now: float) -> tuple[list[Signal], list[Record]]:
        """Ask a task to end: SIGTERM now, SIGKILL after the grace. Asked again, the grace can only become shorter."""
        task = self.tasks.get(key)
        if task is None or task.phase == OVER:
            return [], []
        if task.phase == HELD:
            del self.tasks[key]
            return [], []
        if task in self.waiting:
            self.waiting.remove(task)
            return [], self._never(task, why, "stopped before it began")
        first = not task.why
        task.why = task.why or why
        kill_at_s = now + grace_s
        task.kill_at_s = kill_at_s if task.kill_at_s is None else min(task.kill_at_s, kill_at_s)
        self.stopping[key] = task
        return (_signals(task, task.notice_signal) if first and grace_s > 0 else []), []

    def wants_to_stay(self, task: KeeperTask) -> bool:
        """Whether the place of a task whose ranks have all exited is to be kept: one of them failed by itself."""
        if not task.stay or task.stay_pid or task.forget:
            return False
        spared = (0, *task.stay.get("not", ()))
        return any(rank.exit and rank.pid and not rank.exit[2] and rank.exit[0] not in spared for rank in task.ranks)

    def stays(self, task: KeeperTask, pid: int, now: float) -> None:
        """A process of ours holds the place; the end of it is like the end of a grace."""
        task.stay_pid, task.killed = pid, False
        task.kill_at_s = now + float(task.stay["s"])
        self.stopping[task.key] = task

    def forget(self, key: str, now: float) -> tuple[list[Signal], list[Record]]:
        """Nobody wants it any more. What is alive of it is ended at once; the record goes when that is done."""
        task = self.tasks.get(key)
        if task is None or task.phase in (HELD, OVER):
            self.tasks.pop(key, None)
            return [], [["forget", key]]
        task.forget = True
        return self.stop(key, 0.0, "forget", now)

    def due(self, now: float) -> tuple[list[Signal], list[Record]]:
        """The signals that time alone brings: graces that are over, and a lease that nears its end."""
        signals: list[Signal] = []
        records: list[Record] = []
        if (self.by_pid or self.waiting) and now >= self.stop_by_s(self.grace_s_max):
            for task in self._unwarned():
                if now >= self.stop_by_s(task.grace_s):
                    more = self.stop(task.key, max(0.0, self.kill_by_s() - now), "lease", now)
                    signals += more[0]
                    records += more[1]
        for task in self.stopping.values():
            at_s = task.kill_at_s
            if task.stay_pid and at_s is not None:
                at_s = min(at_s, self.kill_by_s())  # No place is kept beyond the lease.
            if not task.killed and at_s is not None and now >= at_s:
                task.killed = True
                signals += _signals(task, SIGKILL)
        return signals, records

    def leftover_signal(self, task: KeeperTask, now: float) -> int:
        """What to send to the descendants that outlived a task's ranks: SIGTERM once, then SIGKILL; 0 for nothing."""
        if task.killed or task.stay_pid:
            return SIGKILL  # While the place is kept, nothing else of it may go on.
        if task.key not in self.stopping or task.kill_at_s is None:
            task.kill_at_s = now + LEFTOVER_GRACE_S
            self.stopping[task.key] = task
            return SIGTERM
        if task.kill_at_s > now + LEFTOVER_GRACE_S:
            task.kill_at_s = now + LEFTOVER_GRACE_S
            return SIGTERM
        return 0

    def next_due_s(self, now: float) -> float | None:
        """When time alone brings the next signal. A moment that has passed is not named again: nobody spins on it."""
        times = [task.kill_at_s for task in self.stopping.values() if not task.killed and task.kill_at_s is not None]
        if self.by_pid or self.waiting:
            first_s = self.stop_by_s(self.grace_s_max)
            times += [first_s] if first_s > now else [self.stop_by_s(task.grace_s) for task in self._unwarned()]
        return min(times) if times else None

    def _unwarned(self) -> list[KeeperTask]:
        """Tasks that the end of the lease would find alive: not told to end, or with a grace beyond it."""
        kill_by_s = self.kill_by_s()
        going = [task for task in self.tasks.values() if task.phase == GOING and task.key not in self.finishing]
        return [task for task in going if task.kill_at_s is None or task.kill_at_s > kill_by_s + CLOCK_DUST_S]

    # --- what the agent is told ---

    def listing(self) -> list[dict[str, Any]]:
        return [
            {
                "task": task.key,
                "phase": task.phase,
                "address": task.address,
                "port": task.port,
                "started_at": task.started_at,
                "grace_s": task.grace_s,
                "lost": task.lost,
                "first_failure_at": task.first_failure_at,
                "exits": [[rank.number, *rank.exit] for rank in task.ranks if rank.exit is not None],
                "pids": [rank.pid for rank in task.ranks if rank.pid and rank.exit is None],
                **watch_of(task),
                **({"stays_s": task.stay["s"]} if task.stay_pid and task.phase == GOING else {}),
            }
            for task in self.tasks.values()
            if not task.forget
        ]


def watch_of(task: KeeperTask) -> dict[str, Any]:
    """What the agent must know to watch a task that is limited; nothing for all others."""
    if not task.limits or task.phase != GOING:
        return {}
    pids = [rank.pid for rank in task.ranks if rank.pid]
    watch = {"limits": task.limits, "pids": pids, "grouped": task.group is not None, "grace_s": task.grace_s}
    return {"watch": watch}


def _signals(task: KeeperTask, signal: int) -> list[Signal]:
    return [(rank.pid, signal) for rank in task.ranks if rank.pid and rank.exit is None]


# --- the journal: one JSON list per line ----------------------------------------------------------------------------


def to_line(record: Record) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def replay(lines: Iterable[bytes]) -> Table:
    """Read a dead keeper's journal. Tasks are over if every rank's end was recorded; all others that began are lost."""
    table = Table()
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # Torn by a crash or a full disk; it was never acknowledged to anybody.
        _apply(table, record)
    for task in table.tasks.values():
        if task.phase == GOING:
            task.lost, task.phase = task.ranks_alive, OVER
    return table


def _apply(table: Table, record: Record) -> None:
    kind, key = record[0], record[1]
    if kind == "begin":
        task = KeeperTask(key, record[2], record[3], record[4])
        task.started_at, task.phase = record[5], GOING
        task.ranks = [Rank(number) for number in record[6]]
        table.tasks[key] = task
        return
    known = table.tasks.get(key)
    if known is None:
        return
    if kind == "forget":
        del table.tasks[key]
    elif kind == "over":
        known.phase = OVER
    elif kind == "lost":
        known.phase, known.lost = OVER, True
    for rank in known.ranks if kind in ("spawn", "exit") else ():
        if rank.number == record[2] and kind == "spawn":
            rank.pid, rank.born_s = record[3], record[4]
        elif rank.number == record[2]:
            rank.exit = record[3:8]
            if len(record) > 8 and record[3] != 0:
                known.first_failure_at = known.first_failure_at or record[8]


def rewritten(table: Table) -> list[Record]:
    """The shortest journal that reads back into this table."""
    records: list[Record] = []
    for task in table.tasks.values():
        if task.phase == HELD:
            continue
        numbers = [rank.number for rank in task.ranks]
        records.append(["begin", task.key, task.grace_s, task.address, task.port, task.started_at, numbers])
        for rank in task.ranks:
            if rank.pid:
                records.append(["spawn", task.key, rank.number, rank.pid, round(rank.born_s, 2)])
            if rank.exit is not None:
                records.append(["exit", task.key, rank.number, *rank.exit, task.first_failure_at])
        if task.phase == OVER:
            records.append(["lost" if task.lost else "over", task.key])
    return records
