"""One turn of the keeper: in which order it reaps, signals, starts, finishes, writes down and tells.

Pure, as table.py is: how a rank is started or a line reaches the disk is its host's. The keeper's process is one host
(process.py), the simulator's machine another.
"""

from __future__ import annotations

from headway_agent.keeper import table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping, Protocol, Sequence

    Ended = tuple[int, "int | None", "int | None"]  # A child, with its exit code or what ended it.

    KeeperNews = Mapping[str, Any]  # What agent and keeper of one node say to each other; it never leaves the machine.

    class KeeperHost(Protocol):
        def now_s(self) -> float: ...
        def begun_at(self) -> float: ...
        def ended_at(self) -> float: ...
        def reaped(self) -> Iterable[Ended]: ...
        def out_of_memory(self, ended: Ended) -> tuple[bool, str]: ...
        def stranger_gone(self, pid: int) -> None: ...
        def signal(self, leader: int, number: int) -> None: ...
        def make_ready(self, tasks: Sequence[table.KeeperTask]) -> None: ...
        def start(self, task: table.KeeperTask, rank: table.Rank, how: Any) -> tuple[int, int, str]: ...
        def look_for_left(self) -> None: ...
        def stay(self, task: table.KeeperTask) -> bool: ...
        def has_left(self, task: table.KeeperTask) -> bool: ...
        def signal_left(self, task: table.KeeperTask, number: int) -> None: ...
        def clear(self, task: table.KeeperTask) -> None: ...
        def write(self, records: Sequence[table.Record], for_good: bool) -> None: ...
        def tell(self, news: KeeperNews) -> None: ...


SPAWNS_PER_TURN = 32  # After so many starts, look whether somebody has ended or asked something.


class KeeperTurn:
    def __init__(self, host: KeeperHost, known: table.Table) -> None:
        self.host, self.table = host, known
        self.records: list[table.Record] = []
        self.begin_telling()

    def begin_telling(self) -> None:
        """Somebody new listens, who was given the whole list: what is told from here on is in addition to it."""
        self.spawned: list[list[Any]] = []
        self.exits: list[list[Any]] = []
        self.over: list[str] = []
        self.forgotten: list[str] = []
        self.stays: list[list[Any]] = []

    def take(self) -> None:
        self._reap()
        self._send(*self.table.due(self.host.now_s()))
        if self.table.waiting:
            self._start_some()
        if self.table.finishing:
            self._finish()
        if self.records:
            records, self.records = self.records, []
            # Ends are told only after they are on the disk.
            self.host.write(records, bool(self.exits or self.over))
        self._tell()

    def obey(self, order: Mapping[str, Any]) -> None:
        do, now = order["do"], self.host.now_s()
        if do == "hold":
            for launch in order["tasks"]:
                self.table.hold(dict(launch, base=order["base"]))
        elif do == "go":
            for key, env in order["tasks"]:
                self._send([], self.table.go(key, env, now))
        elif do == "stop":
            for key, grace_s in order["tasks"]:
                self._send(*self.table.stop(key, grace_s, "stop", now))
        elif do == "forget":
            for key in order["tasks"]:
                self._forget(key)
        elif do == "lease":
            self.table.lease(order["deadline_s"], order["granted_s"])

    def end_all(self) -> None:
        for key in list(self.table.tasks):
            self._send(*self.table.stop(key, 0.0, "end", self.host.now_s()))

    def _reap(self) -> None:
        for ended in self.host.reaped():
            record = self.table.exited(*ended, *self.host.out_of_memory(ended), at=self.host.ended_at())
            if record is not None:
                self._record(record)
            else:
                self.host.stranger_gone(ended[0])

    def _record(self, record: table.Record) -> None:
        self.records.append(record)
        if record[0] == "exit":
            self.exits.append(record[1:8])  # When it was is told with the end of the task.

    def _send(self, signals: Iterable[table.Signal], records: Iterable[table.Record]) -> None:
        for leader, number in signals:
            self.host.signal(leader, number)
        for record in records:
            self._record(record)

    def _start_some(self) -> None:
        room, begins = SPAWNS_PER_TURN, []
        while self.table.waiting and room > 0:
            begins.append(self.table.waiting.pop(0))
            self._record(self.table.begun(begins[-1], self.host.begun_at()))
            room -= len(begins[-1].ranks)
        # Before the first rank: what no keeper of this node knows has never begun, so it may be told of it again.
        records, self.records = self.records, []
        self.host.write(records, False)
        self.host.make_ready(begins)
        for task in begins:
            for rank, how in zip(list(task.ranks), task.launch["ranks"]):
                pid, exit_code, note = self.host.start(task, rank, how)
                if pid:
                    self._record(self.table.spawned(task, rank, pid, self.host.now_s()))
                else:
                    self._record(self.table.failed_to_start(task, rank, exit_code, note))
            task.launch = {}
            self.spawned.append([task.key, task.started_at, *table.watch_of(task).values()])

    def _finish(self) -> None:
        """Tasks whose ranks have all exited are over once nothing descended from them is alive."""
        self.host.look_for_left()
        now = self.host.now_s()
        for task in list(self.table.finishing.values()):
            if self.table.wants_to_stay(task) and self.host.stay(task):
                self.stays.append([task.key, task.stay["s"]])
            if not self.host.has_left(task):
                self._over(task)
                continue
            number = self.table.leftover_signal(task, now)
            if number:
                self.host.signal_left(task, number)

    def _over(self, task: table.KeeperTask) -> None:
        self.host.clear(task)
        self._record(self.table.over(task))
        if task.forget:
            self._forget(task.key)
        else:
            self.over.append(task.key)

    def _forget(self, key: str) -> None:
        self._send(*self.table.forget(key, self.host.now_s()))
        if key not in self.table.tasks:
            self.forgotten.append(key)

    def _tell(self) -> None:
        news: dict[str, Any] = {"spawned": self.spawned, "exits": self.exits, "over": self.over}
        news.update(forgotten=self.forgotten, stays=self.stays)
        failing = [self.table.tasks[each[0]] for each in self.exits if each[0] in self.table.tasks]
        news["first_failures"] = [[task.key, task.first_failure_at] for task in failing if task.first_failure_at]
        self.begin_telling()
        said = {word: items for word, items in news.items() if items}
        if said:
            self.host.tell(said)
