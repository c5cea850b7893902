"""A simulated keeper process: the real keeper's turns (headway_agent.keeper.turn and table) over simulated ranks.

It is their host, as headway_agent/keeper/process.py is: what it adds is how signals reach simulated processes, and when
a turn is due.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headway_agent.keeper import table
from headway_agent.keeper.turn import KeeperTurn

if TYPE_CHECKING:
    from headway.sim.node.agent import SimAgent
    from headway.sim.node.machine import Machine, Process
    from headway_agent.keeper.turn import Ended, KeeperNews

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
        self._turn = KeeperTurn(self, self.table)
        self._dead: list[Ended] = []
        self._busy = False
        self._timer_s: float | None = None

    @property
    def alive(self) -> bool:
        return self.machine.keeper is self

    # --- the agent ---

    def accept(self, agent: SimAgent) -> None:
        self.agent = agent
        self._turn.begin_telling()
        self.tell({"is": "hello", "tasks": self.table.listing()})

    def obey(self, agent: SimAgent, order: dict[str, Any]) -> None:
        """An order arrives over the socket."""
        if self.alive and self.agent is agent:
            self._busy = True
            self._turn.obey(order)
            self._busy = False
            self.turn()

    def tell(self, news: KeeperNews) -> None:
        # The real agent clears the directory of a forgotten task; here there is none.
        if self.agent is not None and news.keys() != {"forgotten"}:
            self.machine.after(SOCKET_S, self.agent.hear_keeper, self, news)

    # --- one turn ---

    def child_died(self, process: Process, exit_code: int | None, signal: int | None) -> None:
        self._dead.append((process.pid, exit_code, signal))
        if not self._busy:
            self.turn()

    def turn(self) -> None:
        if not self.alive or self._busy or self.machine.asleep:
            return
        self._busy = True
        self._turn.take()
        while self._dead or self.table.waiting:  # The real one is woken by what ended meanwhile.
            self._turn.take()
        self._busy = False
        self._set_timer()

    # --- what a turn is made of: see headway_agent/keeper/turn.py ---

    def now_s(self) -> float:
        return self.machine.boottime()

    def begun_at(self) -> float:
        return self.machine.world.now + self.machine.wall_offset_s

    def ended_at(self) -> float:
        return self.machine.boottime()  # What it is compared with has no time of day here.

    def reaped(self) -> Iterator[Ended]:
        while self._dead:
            yield self._dead.pop(0)

    def out_of_memory(self, ended: Ended) -> tuple[bool, str]:
        return False, ""

    def stranger_gone(self, pid: int) -> None:
        pass

    def signal(self, leader: int, number: int) -> None:
        task, _ = self.table.by_pid.get(leader, (None, None))
        if task is not None and task.why == "lease":
            self.machine.simulation.oracle.stopped_by_lease(task.key)
        self.machine.signal(leader, number)

    def make_ready(self, tasks: Sequence[table.KeeperTask]) -> None:
        pass

    def start(self, task: table.KeeperTask, rank: table.Rank, how: Any) -> tuple[int, int, str]:
        script = self.machine.simulation.workload.script(task.key, rank.number)
        return self.machine.spawn(task.key, rank.number, script).pid, 0, ""

    def look_for_left(self) -> None:
        pass

    def stay(self, task: table.KeeperTask) -> bool:
        return False

    def has_left(self, task: table.KeeperTask) -> bool:
        return bool(self._left(task))

    def signal_left(self, task: table.KeeperTask, number: int) -> None:
        for each in self._left(task):
            self.machine.signal(each.pid, number)

    def _left(self, task: table.KeeperTask) -> list[Process]:
        return [each for each in self.machine.processes.values() if each.orphan and each.task == task.key]

    def clear(self, task: table.KeeperTask) -> None:
        pass

    def write(self, records: Sequence[table.Record], for_good: bool) -> None:
        self.disk.journal += [table.to_line(record) for record in records]
        if any(record[0] == "exit" for record in records):
            self.machine.simulation.oracle.journalled(list(records))

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
