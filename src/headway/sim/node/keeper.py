"""A simulated keeper process: the real table, journal and stop decisions (headway_agent.keeper.table) over simulated
ranks.

It mirrors headway_agent/keeper/process.py turn by turn; what it adds is only how signals reach simulated processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headway_agent.keeper import table

if TYPE_CHECKING:
    from headway.sim.node.agent import SimAgent
    from headway.sim.node.machine import Machine, Process

SOCKET_S = 0.001  # Messages between agent and keeper take so long, and keep their order.


class SimKeeper:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.disk = machine.disk
        self.disk.keeper_epoch += 1
        self.generation = self.disk.keeper_epoch
        self.table = table.replay(self.disk.journal)
        machine.sweep()
        self.disk.journal = [table.to_line(record) for record in table.rewritten(self.table)]
        self.agent: SimAgent | None = None
        self._dead: list[tuple[int, int | None, int | None]] = []
        self._orphans: dict[int, Process] = {}
        self._records: list[Any] = []
        self._spawned: list[tuple[str, float]] = []
        self._exits: list[list[Any]] = []
        self._over: list[str] = []
        self._failures: list[tuple[str, float]] = []
        self._busy = False
        self._timer_s: float | None = None

    @property
    def alive(self) -> bool:
        return self.machine.keeper is self

    # --- the agent ---

    def accept(self, agent: SimAgent) -> None:
        self.agent = agent
        self._spawned, self._exits, self._over, self._failures = [], [], [], []
        self._tell("hello", self.table.listing())

    def obey(self, agent: SimAgent, order: tuple[Any, ...]) -> None:
        """An order arrives over the socket."""
        if not self.alive or self.agent is not agent:
            return
        do, now = order[0], self.machine.boottime()
        if do == "hold":
            self.table.hold(order[1])
        elif do == "go":
            self._send_signals([], self.table.go(order[1], {}, now))
        elif do == "stop":
            self._send_signals(*self.table.stop(order[1], order[2], "stop", now))
        elif do == "forget":
            self._send_signals(*self.table.forget(order[1], now))
        elif do == "lease":
            self.table.lease(order[1], order[2])
        self.turn()

    def _tell(self, *message: Any) -> None:
        if self.agent is not None:
            self.machine.after(SOCKET_S, self.agent.hear_keeper, self, message)

    # --- one turn ---

    def child_died(self, process: Process, exit_code: int | None, signal: int | None) -> None:
        if process.orphan:
            self._orphans.pop(process.pid, None)
        else:
            self._dead.append((process.pid, exit_code, signal))
            if exit_code != 0:
                self._failures.append((process.task, self.machine.boottime()))
        if not self._busy:
            self.turn()

    def turn(self) -> None:
        if not self.alive or self._busy or self.machine.asleep:
            return
        self._busy = True
        self._reap()
        self._send_signals(*self.table.due(self.machine.boottime()))
        for task in self.table.stopping.values():
            if task.why == "lease":
                self.machine.simulation.oracle.stopped_by_lease(task.key)
        while self.table.waiting:
            self._start(self.table.waiting.pop(0))
        self._reap()
        self._finish()
        self._busy = False
        self._write_journal()
        self._tell_news()
        self._set_timer()

    def _reap(self) -> None:
        while self._dead:
            record = self.table.exited(*self._dead.pop(0), False)
            if record is not None:
                self._record(record)

    def _record(self, record: Any) -> None:
        self._records.append(record)
        if record[0] == "exit":
            self._exits.append(record[1:])

    def _send_signals(self, signals: Any, records: Any) -> None:
        was_busy, self._busy = self._busy, True
        for pid, number in signals:
            self.machine.signal(pid, number)
        self._busy = was_busy
        for record in records:
            self._record(record)

    def _start(self, task: table.KeeperTask) -> None:
        self._record(self.table.begun(task, self.machine.world.now))
        for rank in task.ranks:
            script = self.machine.simulation.workload.script(task.key, rank.number)
            process = self.machine.spawn(task.key, rank.number, script)
            self._record(self.table.spawned(task, rank, process.pid, self.machine.boottime()))
        task.launch = {}
        self._spawned.append((task.key, self.machine.world.now + self.machine.wall_offset_s))

    def _finish(self) -> None:
        """Tasks whose ranks have all exited are over once nothing descended from them is alive."""
        now = self.machine.boottime()
        for task in list(self.table.finishing.values()):
            orphans = [each for each in self.machine.processes.values() if each.orphan and each.task == task.key]
            if orphans:
                number = self.table.leftover_signal(task, now)
                for each in orphans if number else ():
                    self.machine.signal(each.pid, number)
            if any(each.died is None for each in orphans):
                continue
            self._record(self.table.over(task))
            if task.forget:
                self._send_signals(*self.table.forget(task.key, now))
            else:
                self._over.append(task.key)

    def _write_journal(self) -> None:
        self.disk.journal += [table.to_line(record) for record in self._records]
        if any(record[0] == "exit" for record in self._records):
            self.machine.simulation.oracle.journalled(self._records)
        self._records = []

    def _tell_news(self) -> None:
        if self._spawned or self._exits or self._over:
            self._tell("news", self._spawned, self._exits, self._over, self._failures)
            self._spawned, self._exits, self._over, self._failures = [], [], [], []

    def _set_timer(self) -> None:
        due_s = self.table.next_due_s(self.machine.boottime())
        if due_s is None:
            self._timer_s = None
        elif due_s != self._timer_s:
            self._timer_s = due_s
            self.machine.after(max(0.0, due_s - self.machine.boottime()) + 1e-6, self._timer, due_s)

    def _timer(self, due_s: float) -> None:
        if self.alive and self._timer_s == due_s:
            self._timer_s = None
            self.turn()
