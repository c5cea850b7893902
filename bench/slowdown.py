"""What Headway costs a training: what it has to do and to wait for, what our processes use, and its speed as a whole.

The first two are counted inside a training under Headway and inside a bare one, as parts of its own time: whatever else
the machine does then stretches the part and the whole alike. The speed is compared directly: both run at the same time,
and only one goes on at any moment; every fifth of a second they change places, and with the bare one's turn all of
Headway is stopped too. Even so, on a shared machine two bare trainings differ by more than what is sought, so the whole
only shows that nothing large is overlooked. `python -m bench.slowdown MINUTES` looks longer than the benchmark does.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.house import House, house
from bench.idle import cpu_s, our_pids

LOOK_S = 90.0
PAIR_S = 15.0  # Then both begin anew: where a process lies in memory makes it faster or slower for good.
WINDOW_S = 0.2
WARM_STEPS, LONG_STEPS, SAVE_EVERY = 300, 2000, 300
BEGIN_S_MAX = 300.0
DRAWS = 2000

# At each step a metric, at every tenth a line, now and then a checkpoint. How far it has come stands in a file that is
# mapped into memory, where telling it costs nothing: twentieths of a step, pid, nanoseconds in all that is not work.
TRAINING = f"""
import mmap, os, sys
from time import perf_counter_ns
import headway
place, told = os.environ.get("HEADWAY_CHECKPOINT_DIR") or sys.argv[1], sys.argv[2]
with open(told + ".new", "wb") as file:
    file.write(bytes(24))
os.rename(told + ".new", told)
with open(told, "r+b") as file:
    done = memoryview(mmap.mmap(file.fileno(), 24)).cast("Q")
def work():
    total = 0.0
    for part in range(20):
        for i in range(3000):
            total += (i * 7919 % 104729) ** 0.5
        done[0] += 1
    return total
model = os.urandom(4 << 20)
done[1] = os.getpid()
step = 0
while True:
    step += 1
    loss = work()
    begin = perf_counter_ns()
    headway.log(step=step, loss=loss)
    if step % 10 == 0:
        print("step", step, "loss", loss, flush=True)
    if step % {SAVE_EVERY} == 0:
        with open(f"{{place}}/model.tmp", "wb") as file:
            file.write(model)
        os.replace(f"{{place}}/model.tmp", f"{{place}}/model-{{step // {SAVE_EVERY} % 5}}.pt")
    done[2] += perf_counter_ns() - begin
"""


@dataclass(frozen=True)
class Turn:
    """What one of the two did in its turn."""

    wall_s: float
    parts: int


@dataclass(frozen=True)
class SlowDown:
    calls_percent: float  # More of its time in metrics, lines and checkpoints than without Headway.
    waits_percent: float  # More of its time in a queue for a processor.
    ours_percent: float  # Processor time of server, agent and keeper, of that of the training.
    parts: tuple[tuple[str, float], ...]
    slower_percent: float
    slower_interval: tuple[float, float]  # Where that lies with 95 % probability.


class Training:
    """A running training, and how far it has come."""

    def __init__(self, told: Path) -> None:
        _until(told.exists, "its first line")
        with told.open("r+b") as file:
            self._told = memoryview(mmap.mmap(file.fileno(), 24)).cast("Q")
        _until(lambda: self.steps >= WARM_STEPS, f"step {WARM_STEPS}")
        self.pid = int(self._told[1])

    @property
    def parts(self) -> int:
        return int(self._told[0])

    @property
    def steps(self) -> int:
        return self.parts // 20

    @property
    def calls_s(self) -> float:
        return int(self._told[2]) / 1e9

    @property
    def waits_s(self) -> float:
        """For how long it could have run, and another process was on its processor."""
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9


def measure(look_s: float = LOOK_S) -> SlowDown:
    withins: list[Turn] = []
    withouts: list[Turn] = []
    with house() as mine:
        script = mine.home / "training.py"
        script.write_text(TRAINING)
        pids = our_pids(mine)  # Before a training begins, which descends from the keeper.
        with _within(mine, script) as training:
            calls, waits, ours = _shares(mine, training, pids)
        with _without(mine, script) as training:
            bare_calls, bare_waits, _ = _shares(mine, training, [])
        for _ in range(max(1, round(look_s / PAIR_S))):
            with _within(mine, script) as within, _without(mine, script) as without:
                _by_turns((withins, within, pids), (withouts, without, []))
    return SlowDown(
        calls - bare_calls,
        waits - bare_waits,
        sum(ours.values()),
        tuple(ours.items()),
        slower_percent(withins, withouts),
        interval(withins, withouts),
    )


# --- as parts of a training's own time -------------------------------------------------------------------------------


def _shares(mine: House, training: Training, pids: list[int]) -> tuple[float, float, dict[str, float]]:
    """Of a training's time: in calls and lines, in a queue for a processor; and our processes, by their names."""
    names = {mine.server_pid: "server"}
    for node_dir in mine.node_dirs:
        names |= {json.loads((node_dir / f"{name}.pid").read_text())["pid"]: name for name in ("agent", "keeper")}
    begun, used = (time.perf_counter(), training.calls_s, training.waits_s), {pid: cpu_s(pid) for pid in pids}
    worked_s = cpu_s(training.pid)
    _until(lambda: training.steps >= WARM_STEPS + LONG_STEPS, f"step {WARM_STEPS + LONG_STEPS}")
    wall_s, calls_s, waits_s = (
        now - before
        for now, before in zip((time.perf_counter(), training.calls_s, training.waits_s), begun, strict=True)
    )
    worked_s = cpu_s(training.pid) - worked_s
    ours: dict[str, float] = {}
    for pid in pids:
        name = names.get(pid, "guard")
        ours[name] = ours.get(name, 0.0) + (cpu_s(pid) - used[pid]) / worked_s * 100
    return calls_s / wall_s * 100, waits_s / wall_s * 100, ours


# --- by turns --------------------------------------------------------------------------------------------------------

Side = tuple[list[Turn], Training, list[int]]


def _by_turns(*sides: Side) -> None:
    """Let them go on one at a time, each with its others; which is first is drawn anew. Afterwards all go on."""
    chance, order = random.Random(1), list(sides)
    everybody = [pid for _, training, others in sides for pid in (training.pid, *others)]
    try:
        _signal(signal.SIGSTOP, everybody)
        until = time.monotonic() + PAIR_S
        while time.monotonic() < until:
            chance.shuffle(order)
            for found, training, others in order:
                found.append(_turn(training, others))
    finally:
        _signal(signal.SIGCONT, everybody)


def _turn(training: Training, others: list[int]) -> Turn:
    before = training.parts
    _signal(signal.SIGCONT, [*others, training.pid])
    begin = time.perf_counter()
    time.sleep(WINDOW_S)
    _signal(signal.SIGSTOP, [training.pid, *others])
    return Turn(time.perf_counter() - begin, training.parts - before)


def _signal(number: signal.Signals, pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, number)


def slower_percent(withins: list[Turn], withouts: list[Turn]) -> float:
    def speed(turns: list[Turn]) -> float:
        return sum(turn.parts for turn in turns) / sum(turn.wall_s for turn in turns)

    return (speed(withouts) / speed(withins) - 1) * 100


def interval(withins: list[Turn], withouts: list[Turn]) -> tuple[float, float]:
    """Where the slow-down lies with 95 % probability, by drawing from the pairs of turns again and again."""
    chance, pairs = random.Random(1), list(zip(withins, withouts, strict=True))
    found = []
    for _ in range(DRAWS):
        drawn = chance.choices(pairs, k=len(pairs))
        found.append(slower_percent([within for within, _ in drawn], [without for _, without in drawn]))
    found.sort()
    return found[DRAWS // 40], found[-DRAWS // 40 - 1]


# --- trainings -------------------------------------------------------------------------------------------------------


@contextmanager
def _within(mine: House, script: Path) -> Iterator[Training]:
    with tempfile.TemporaryDirectory(dir=mine.home) as place:
        told = Path(place) / "told"
        line = mine.connect()
        command = [sys.executable, str(script), place, str(told)]
        job = str(line.ask("POST", "/jobs", {"job": {"command": command}})["job"]["id"])
        line.close()
        try:
            yield Training(told)
        finally:
            mine.run("stop", job, "--grace", "0s")
            _until(lambda: json.loads(mine.run("describe", job, "--json"))["state"] == "cancelled", "its end")


@contextmanager
def _without(mine: House, script: Path) -> Iterator[Training]:
    with tempfile.TemporaryDirectory(dir=mine.home) as place:
        told = Path(place) / "told"
        with (Path(place) / "out").open("wb") as output:
            words = [sys.executable, str(script), place, str(told)]
            child = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, env=mine.env)
        try:
            yield Training(told)
        finally:
            child.kill()
            child.wait()


def _until(condition: Callable[[], bool], what: str) -> None:
    give_up_at = time.monotonic() + BEGIN_S_MAX
    while not condition():
        if time.monotonic() > give_up_at:
            raise RuntimeError(f"the training did not come to {what} within {BEGIN_S_MAX:.0f} s")
        time.sleep(0.02)


def main(minutes: float) -> None:
    found = measure(minutes * 60)
    lost = found.calls_percent + found.waits_percent
    print(f"of its time a training gives up {lost:.2f} %: {found.calls_percent:.2f} in calls, ", end="")
    print(f"{found.waits_percent:.2f} in waiting for a processor")
    parts = ", ".join(f"{name} {percent:.2f}" for name, percent in found.parts)
    print(f"all our processes use {found.ours_percent:.2f} % of its processor time ({parts})")
    print(f"as a whole it is slower by {found.slower_percent:.2f} %, with 95 % probability ", end="")
    print("by {:.2f} to {:.2f} %".format(*found.slower_interval))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else LOOK_S / 60)
