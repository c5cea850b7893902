"""A simulated machine: its clocks, its disk, the processes on it, and its death, sleep and return.

What runs on it is keeper.py (with the real keeper's decisions) and agent.py (with the real agent's decisions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headway.core.model import Resources
from headway.sim.judge.checkpoints import Saved
from headway.sim.node.agent import SimAgent
from headway.sim.node.habits import Habit
from headway.sim.node.keeper import SimKeeper
from headway.sim.server.storage import STREAMS
from headway_wire.sync import LOGS

if TYPE_CHECKING:
    from headway.sim.run import Simulation

SIGTERM, SIGKILL = 15, 9
EARLY = 0.99  # Who has a slow clock must not be late for a step that its gang makes together.
APART_S = 2.0
SAVES_FIRST_S = 0.1  # Who is in the middle of a save looks so much later whether it may end.


@dataclass(frozen=True, slots=True)
class Script:
    """What one rank's code does, unless somebody ends it before."""

    runs_s: float = 10.0
    exit_code: int = 0
    on_term: str = "dies"  # or "cleans up", or "ignores"
    cleanup_s: float = 2.0
    bytes_per_s: float = 20.0
    leaves_s: float = 0.0  # For how long a descendant outlives it.
    saves_every_s: int = 0  # Of the rank that saves for its task; 0 for none.
    habit: Habit = Habit()


@dataclass
class Process:
    pid: int
    task: str
    rank: int
    born: float
    script: Script
    orphan: bool = False  # A descendant that outlived its rank.
    died: float | None = None
    termed: bool = False
    saving: bool = False

    def output_bytes(self, now: float) -> int:
        end = now if self.died is None else self.died
        return int(self.script.bytes_per_s * (end - self.born))

    def stream_bytes(self, stream: str, now: float) -> int:
        """What it wrote to one of its streams: for each three bytes of its log, one of points."""
        return self.output_bytes(now) if stream == LOGS[0] else self.output_bytes(now) // 3


@dataclass
class Disk:
    """What survives every process of the machine, and its restart; not its fire."""

    journal: list[bytes] = field(default_factory=list)
    outputs: dict[str, dict[int, Process]] = field(default_factory=dict)  # Task -> rank -> who wrote it.
    agent_epoch: int = 0
    keeper_epoch: int = 0
    saved: dict[str, Saved] = field(default_factory=dict)  # By task.
    notices: dict[str, str] = field(default_factory=dict)  # By task: the cause in its notice file.
    failures: dict[str, float] = field(default_factory=dict)  # By task: when its first rank failed.
    settled: set[str] = field(default_factory=set)  # Tasks of which all is on the disk, and noted so.
    torn: set[str] = field(default_factory=set)  # Tasks that were not when the power went.


class Machine:
    def __init__(self, simulation: Simulation, name: str, granted: Resources) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.name = name
        self.granted = granted
        self.disk = Disk()
        self.boots = 0
        self.retired = False  # Given back for good.
        self.up = False
        self.died_at = 0.0
        self.refusals = 0  # Claims that it did not take up.
        self.upset = 0  # How often something came between what ranks save and who keeps it.
        self.asleep_until = 0.0
        self.wall_offset_s = 0.0
        # A clock that is wrong by half a percent at most: the server's one percent must cover two of them.
        self.rate = 1.0 + self.world.between(-0.004, 0.004)
        self.keeper: SimKeeper | None = None
        self.agent: SimAgent | None = None
        self.processes: dict[int, Process] = {}
        self._pids = 0

    # --- clocks ---

    @property
    def boot_id(self) -> str:
        return f"{self.name}-boot-{self.boots}"

    def boottime(self) -> float:
        return (self.world.now - self.booted_at) * self.rate

    def after(self, delay_s: float, do: Callable[..., None], *arguments: Any) -> None:
        """Have something done on this machine, in its own seconds; not if it restarts before; later if it sleeps."""
        self.world.after(delay_s / self.rate, self._fire, self.boots, do, arguments)

    def _fire(self, boot: int, do: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if not self.up or boot != self.boots:
            return
        if self.asleep:
            self.world.at(self.asleep_until, self._fire, boot, do, arguments)
            return
        do(*arguments)

    @property
    def asleep(self) -> bool:
        return self.asleep_until > self.world.now

    # --- life and death ---

    def boot(self) -> None:
        if self.up or self.retired:
            return
        self.boots += 1
        self.up = True
        self.booted_at = self.world.now - self.world.between(5.0, 100.0)
        self.asleep_until = 0.0
        self.simulation.oracle.machine_booted(self.name)
        self.world.tell(self.name, f"booted as {self.boot_id}")
        self.start_agent()

    def start_agent(self) -> None:
        if self.up and self.agent is None:
            self.upset += 1
            self.agent = SimAgent(self)

    def start_keeper(self) -> SimKeeper:
        if self.keeper is None:
            self.keeper = SimKeeper(self)
        return self.keeper

    def die(self, disk_lost: bool) -> None:
        if not self.up:
            return
        self.world.tell(self.name, "burned down" if disk_lost else "lost power")
        self.simulation.oracle.machine_died(self.name)
        self.up = False
        self.upset += 1
        self.died_at = self.world.now
        for process in list(self.processes.values()):
            self._end(process, None, SIGKILL, "machine")
        self.keeper = self.agent = None
        if disk_lost:
            self.disk = Disk()
        self.disk.torn |= {*self.disk.saved, *self.disk.outputs} - self.disk.settled
        if self.world.chance.random() < 0.5:
            self.world.after(self.world.between(5.0, 60.0), self.boot)

    def retire(self) -> None:
        """Its time with us is over: nothing of it is left."""
        self.retired = True
        self.asleep_until = 0.0
        self.die(disk_lost=True)

    def kill_agent(self) -> None:
        if self.agent is not None and self.up and not self.asleep:
            self.world.tell(self.name, f"agent {self.agent.epoch} died")
            self.upset += 1
            self.agent.die()

    def kill_keeper(self) -> None:
        keeper = self.keeper
        if keeper is None or not self.up or self.asleep:
            return
        self.world.tell(self.name, f"keeper {keeper.generation} died")
        self.simulation.oracle.keeper_deaths[self.name].append(self.world.now)
        self.keeper = None
        # The guard notices its pipe closing, and sweeps.
        self.after(self.world.between(0.0, 0.5), self._sweep, self.disk.keeper_epoch)
        if self.agent is not None:
            self.agent.lost_keeper(keeper)

    def _sweep(self, generation: int) -> None:
        if self.disk.keeper_epoch == generation:
            self.sweep()

    def sweep(self) -> None:
        for process in list(self.processes.values()):
            self._end(process, None, SIGKILL, "keeper")

    def sleep(self, for_s: float) -> None:
        if self.up and not self.asleep:
            self.world.tell(self.name, f"sleeps for {for_s:.1f} s")
            self.upset += 1
            self.simulation.oracle.fell_asleep(self.name)
            self.asleep_until = self.world.now + for_s
            self.world.at(self.asleep_until, self._woken, self.boots)

    def _woken(self, boot: int) -> None:
        if self.up and self.boots == boot and self.asleep_until and not self.asleep:
            self.wake()

    def wake(self) -> None:
        if not self.up or not self.asleep_until:
            return
        self.world.tell(self.name, "woke up")
        self.asleep_until = 0.0
        if self.keeper is not None:
            self.keeper.turn()  # Its timer was due while all slept; nobody on this machine is quicker.
        else:
            self.sweep()  # So was the guard of a keeper that died just before.
        self.simulation.oracle.woke_up(self.name)

    # --- processes ---

    def spawn(self, task: str, rank: int, script: Script, orphan: bool = False) -> Process:
        self._pids += 1
        process = Process(self._pids, task, rank, self.world.now, script, orphan)
        self.processes[process.pid] = process
        if not orphan:
            self.disk.outputs.setdefault(task, {})[rank] = process
        self.simulation.oracle.born(self.name, process)
        if script.saves_every_s and not orphan:
            self.after(script.saves_every_s * EARLY, self._saves, process, 1)
        if script.runs_s != float("inf"):
            self.after(script.runs_s, self._ends_by_itself, process)
        return process

    def _ends_by_itself(self, process: Process) -> None:
        if process.died is None and process.saving and self._saves_first(process):
            self.after(SAVES_FIRST_S, self._ends_by_itself, process)
            return
        hangs = not process.script.exit_code and self.simulation.oracle.left_behind(process)
        if process.died is None and not process.termed and not hangs:
            self._end(process, process.script.exit_code, None, "")

    def _saves_first(self, process: Process) -> bool:
        """Whether it ends only after its save. Who fails on notice in the middle of a file that tells nothing, or of a
        save of several files, looks like who has saved on notice: left out, as it is known not to hold."""
        habit = process.script.habit
        tells = habit.known and not habit.several
        noticed, stalls = process.task in self.disk.notices, bool(habit.stalls_s) and not habit.known
        return not process.script.exit_code or stalls or (noticed and not tells)

    def _saved_just_now(self, process: Process) -> bool:
        """Whether it would save again at once two files that tell nothing: only a pause parts them from those before.
        Left out, as it is known not to hold."""
        saved, habit = self.disk.saved.get(process.task), process.script.habit
        blind = habit.several and not habit.known and not habit.marker
        return blind and saved is not None and self.world.now < saved.finished_at + APART_S

    # --- what they save ---

    def keep_files(self, task: str, saved: Saved) -> None:
        self.disk.saved[task] = saved
        saved.directory.tell = lambda what, path: self._tell_agent(task, what, path)

    def _tell_agent(self, task: str, what: str, path: str) -> None:
        if self.agent is not None and self.up:
            self.agent.files.happened(task, what, path)

    def _saves(self, process: Process, number: int) -> None:
        """It saves at its next step, which all of its gang make together: none without the others."""
        began, every_s = self.simulation.oracle.in_step_since(process), process.script.saves_every_s
        if process.died is not None or process.termed or not self.simulation.oracle.in_step(process):
            return
        left_s = began + number * every_s - self.world.now
        if left_s > 0.001 or self.simulation.oracle.sleeps(process):
            self.after((min(left_s, every_s) if left_s > 0.001 else 0.5) * self.rate, self._saves, process, number)
            return
        if not process.saving:
            self._save(process, number * every_s)
        self.after(every_s * EARLY, self._saves, process, number + 1)

    def _save(self, process: Process, steps: int, on_notice: bool = False) -> None:
        """A rank begins to save, so many steps after the checkpoint that it began from."""
        saved = self.disk.saved.get(process.task)
        step = saved.restored + steps if saved is not None else 0
        if saved is not None and step > saved.newest:
            process.saving = True
            if self.agent is not None:
                self.agent.wrote(process.task)
            saved.upsets.append(self.upset)
            saved.begun, saved.begun_at = step, self.world.now
            doing = saved.habit.save(step, saved.directory, process, lambda: self.world.now)
            self._goes_on_saving(process, saved, step, doing, on_notice)
        elif on_notice:
            self._end(process, 143, None, "us")

    def _goes_on_saving(
        self, process: Process, saved: Saved, step: int, doing: Iterator[float], on_notice: bool
    ) -> None:
        if process.died is not None:
            return
        for takes_s in doing:
            if takes_s:
                self.after(takes_s, self._goes_on_saving, process, saved, step, doing, on_notice)
                return
        process.saving = False
        saved.newest, saved.late, saved.finished_at = step, on_notice, self.world.now
        self.simulation.checkpoints.finished(self, process, step, on_notice)
        if on_notice:
            self._end(process, 143, None, "us")

    def signal(self, pid: int, number: int) -> None:
        process = self.processes.get(pid)
        if process is None:
            return
        script = process.script
        self.simulation.oracle.signalled(process)
        if number == SIGKILL:
            self._end(process, None, SIGKILL, "us")
        elif script.on_term == "dies":
            self._end(process, None, SIGTERM, "us")
        elif script.on_term == "cleans up" and not process.termed:
            process.termed = True
            self.after(script.cleanup_s, self._cleaned_up, process)

    def _cleaned_up(self, process: Process) -> None:
        if process.died is not None:
            return
        began = self.simulation.oracle.in_step_since(process)
        if process.saving or self._saved_just_now(process):
            self.after(SAVES_FIRST_S, self._cleaned_up, process)
        elif process.script.saves_every_s and not process.orphan and began < self.world.now:
            self._save(process, int(self.world.now - began) + 1, on_notice=True)
        else:
            self._end(process, 143, None, "us")

    def _end(self, process: Process, exit_code: int | None, signal: int | None, by: str) -> None:
        process.died = self.world.now
        del self.processes[process.pid]
        saved = self.disk.saved.get(process.task)
        if saved is not None:
            saved.directory.died(process)
        if exit_code != 0 and not process.orphan:
            self.disk.failures.setdefault(process.task, self.world.now)
        self.simulation.oracle.died(self.name, process, exit_code, signal, by)
        if by in ("machine", "keeper"):
            return
        if process.script.leaves_s and not process.orphan:
            script = Script(process.script.leaves_s, on_term=process.script.on_term)
            self.spawn(process.task, process.rank, script, orphan=True)
        if self.keeper is not None:
            self.keeper.child_died(process, exit_code, signal)

    def output_sizes(self, task: str) -> dict[str, int]:
        written = self.disk.outputs.get(task, {})
        return {
            f"{rank}/{stream}": process.stream_bytes(stream, self.world.now)
            for rank, process in written.items()
            for stream in STREAMS
        }
