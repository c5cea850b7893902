"""What Headway costs a training: by how much it is slower with Headway than without, and what our processes use.

One and the same training runs with and without Headway by turns. Without means: its calls do nothing, its checkpoints
go where nobody looks, and all our processes are stopped. One process, because where a process lies in memory makes it
faster or slower by some percent for as long as it lives.

On a shared machine a neighbour on the other half of a core makes it twice as slow for seconds or minutes, so steps per
second say little. What is compared is what a step consists of: the time in calls and the time in a queue for a
processor, each as a share of the turn's time, and the work, by those of its parts that nobody disturbed.
`python -m bench.slowdown MINUTES` looks longer than the benchmark does, and says steps per second too.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from bench.house import House, house
from bench.idle import cpu_s, our_pids

LOOK_S = 180.0
TURN_S = (4.0, 7.0)  # Of a length that is drawn anew, so that no turn always has the same checkpoints in it.
SETTLE_S = 0.7  # Between two turns: what is under way ends, what is overdue is done. It counts for neither.
WARM_STEPS, LONG_STEPS, SAVE_EVERY = 300, 2000, 300
BEGIN_S_MAX = 300.0
DRAWS = 2000
UNDISTURBED = 1.25  # A part of the work counts when it took at most so much longer than the fastest tenth.

WITH, WITHOUT, BETWEEN = 0, 1, 2
PID, STEPS, WANTED, MODE, WALL, CALLS, WAITS, PARTS = 0, 1, 2, 3, 4, 7, 10, 13
BUCKETS, BUCKET_NS = 1000, 2000
WORDS = PARTS + 3 * BUCKETS

# What a training saves, and how: 4 MiB every 300 steps, beside and renamed; or 50 MB every second, in place.
RENAMED = f"""
if step % {SAVE_EVERY} == 0:
    with open(f"{{place}}/model.tmp", "wb") as file:
        file.write(model)
    os.replace(f"{{place}}/model.tmp", f"{{place}}/model-{{step // {SAVE_EVERY} % 5}}.pt")
"""
IN_PLACE = """
if begin >= due:
    due = begin + 10**9
    model[-8:] = step.to_bytes(8, "big")
    with open(f"{place}/snapshot.safetensors", "wb") as file:
        file.write(model)
"""
MODELS = {RENAMED: "os.urandom(4 << 20)", IN_PLACE: "as_safetensors(50_000_000)"}

# At each step a metric, at every tenth a line, now and then a checkpoint. All that it counts stands in a file which is
# mapped into memory: telling it costs nothing.
TRAINING = f"""
import mmap, os, sys
from time import perf_counter_ns
import headway
kept, elsewhere, told = os.environ["HEADWAY_CHECKPOINT_DIR"], *sys.argv[1:3]
with open(told + ".new", "wb") as file:
    file.write(bytes(8 * {WORDS}))
os.rename(told + ".new", told)
with open(told, "r+b") as file:
    counts = memoryview(mmap.mmap(file.fileno(), 8 * {WORDS})).cast("Q")
def waited():
    with open("/proc/self/schedstat") as file:
        return int(file.read().split()[1])
def nothing(**values):
    pass
def work(place):
    total = 0.0
    for part in range(20):
        begin = perf_counter_ns()
        for i in range(3000):
            total += (i * 7919 % 104729) ** 0.5
        counts[place + min((perf_counter_ns() - begin) // {BUCKET_NS}, {BUCKETS - 1})] += 1
    return total
def as_safetensors(size):
    import json
    told = {{"w": {{"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}}}
    head = json.dumps(told).encode()
    return bytearray(len(head).to_bytes(8, "little") + head + os.urandom(size))
model, due = MODEL, 0
counts[{PID}] = os.getpid()
mode, since, waits, step = counts[{WANTED}], perf_counter_ns(), waited(), 0
while True:
    step += 1
    loss = work({PARTS} + {BUCKETS} * mode)
    begin = perf_counter_ns()
    log, place = (headway.log, kept) if mode == {WITH} else (nothing, elsewhere)
    log(step=step, loss=loss)
    if step % 10 == 0:
        print("step", step, "loss", loss, flush=True)
    SAVE
    counts[{CALLS} + mode] += perf_counter_ns() - begin
    counts[{STEPS}] = step
    if counts[{WANTED}] != mode:
        counts[{WALL} + mode] += perf_counter_ns() - since
        counts[{WAITS} + mode] += waited() - waits
        mode, since, waits = counts[{WANTED}], perf_counter_ns(), waited()
        counts[{MODE}] = mode
"""


@dataclass(frozen=True)
class Turn:
    """What the training did in one turn: seconds, and parts of its work by how long they took."""

    wall_s: float
    calls_s: float
    waits_s: float
    parts: tuple[int, ...]


@dataclass(frozen=True)
class Sides:
    """All turns of one kind as one."""

    calls: float  # As shares of its time.
    waits: float
    part_s: float  # An undisturbed part of the work.
    rate: float  # Parts per second of all its time, whatever disturbed them.


@dataclass(frozen=True)
class SlowDown:
    slower_percent: float
    slower_interval: tuple[float, float]  # Where that lies with 95 % probability.
    calls_percent: float  # More of its time in metrics, lines and checkpoints than without Headway.
    waits_percent: float  # More of its time in a queue for a processor.
    work_percent: float  # Longer for an undisturbed part of its work.
    rate_percent: float  # Fewer steps a second, as the machine happened to be.
    ours_percent: float  # Processor time of server, agent and keeper, of that of the training.
    parts: tuple[tuple[str, float], ...]


class Training:
    """A running training, what it has counted, and which turn it is in."""

    def __init__(self, told: Path) -> None:
        _until(told.exists, "its first line")
        with told.open("r+b") as file:
            self._counts = memoryview(mmap.mmap(file.fileno(), 8 * WORDS)).cast("Q")
        _until(lambda: self.steps >= WARM_STEPS, f"step {WARM_STEPS}")
        self.pid = int(self._counts[PID])

    @property
    def steps(self) -> int:
        return int(self._counts[STEPS])

    def turn_to(self, mode: int) -> None:
        self._counts[WANTED] = mode
        _until(lambda: self._counts[MODE] == mode, "its next step")

    def so_far(self, mode: int) -> Turn:
        """All that it counted in turns of this kind that are over."""
        wall, calls, waits = (int(self._counts[place + mode]) / 1e9 for place in (WALL, CALLS, WAITS))
        begin = PARTS + BUCKETS * mode
        return Turn(wall, calls, waits, tuple(self._counts[begin : begin + BUCKETS]))


def measure(look_s: float = LOOK_S, saves: str = RENAMED) -> SlowDown:
    with house() as mine:
        script = mine.home / "training.py"
        script.write_text(TRAINING.replace("MODEL", MODELS[saves]).replace("    SAVE", indent(saves, "    ")))
        pids = our_pids(mine)  # Before the training begins, which descends from the keeper.
        with _within(mine, script) as training:
            ours = _processor_time(mine, training, pids)
            pairs = _by_turns(training, pids, look_s)
    within, without = (_together(turns, _limit(pairs)) for turns in zip(*pairs, strict=True))
    return SlowDown(
        slower_percent(pairs),
        interval(pairs),
        (within.calls - without.calls) * 100,
        (within.waits - without.waits) * 100,
        (within.part_s / without.part_s - 1) * 100,
        (without.rate / within.rate - 1) * 100,
        sum(ours.values()),
        tuple(ours.items()),
    )


def _processor_time(mine: House, training: Training, pids: list[int]) -> dict[str, float]:
    """What our processes use, by their names, in percent of the training's own."""
    names = {mine.server_pid: "server"}
    for node_dir in mine.node_dirs:
        names |= {json.loads((node_dir / f"{name}.pid").read_text())["pid"]: name for name in ("agent", "keeper")}
    used, worked_s, last = {pid: cpu_s(pid) for pid in pids}, cpu_s(training.pid), training.steps + LONG_STEPS
    _until(lambda: training.steps >= last, f"step {last}")
    worked_s = cpu_s(training.pid) - worked_s
    ours: dict[str, float] = {}
    for pid in pids:
        name = names.get(pid, "guard")
        ours[name] = ours.get(name, 0.0) + (cpu_s(pid) - used[pid]) / worked_s * 100
    return ours


# --- by turns --------------------------------------------------------------------------------------------------------

Pair = tuple[Turn, Turn]  # With Headway, without.


def _by_turns(training: Training, pids: list[int], look_s: float) -> list[Pair]:
    chance, pairs = random.Random(1), []
    until = time.monotonic() + look_s
    try:
        while time.monotonic() < until:
            found = {}
            for mode in chance.sample((WITH, WITHOUT), 2):
                found[mode] = _turn(training, mode, pids, chance.uniform(*TURN_S))
            pairs.append((found[WITH], found[WITHOUT]))
    finally:
        _signal(signal.SIGCONT, pids)
    return pairs


def _turn(training: Training, mode: int, pids: list[int], turn_s: float) -> Turn:
    training.turn_to(BETWEEN)
    time.sleep(SETTLE_S)
    _signal(signal.SIGCONT if mode == WITH else signal.SIGSTOP, pids)
    time.sleep(SETTLE_S)
    before = training.so_far(mode)
    training.turn_to(mode)
    time.sleep(turn_s)
    training.turn_to(BETWEEN)
    after = training.so_far(mode)
    return Turn(
        after.wall_s - before.wall_s,
        after.calls_s - before.calls_s,
        after.waits_s - before.waits_s,
        tuple(now - then for now, then in zip(after.parts, before.parts, strict=True)),
    )


def _signal(number: signal.Signals, pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, number)


def slower_percent(pairs: Sequence[Pair]) -> float:
    """How much longer a step takes with Headway, for each second of work that nobody disturbed."""
    within, without = (_together(turns, _limit(pairs)) for turns in zip(*pairs, strict=True))
    steps = [side.part_s / (1 - side.calls - side.waits) for side in (within, without)]
    return (steps[0] / steps[1] - 1) * 100


def interval(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Where the slow-down lies with 95 % probability, by drawing from the pairs of turns again and again."""
    chance = random.Random(1)
    found = sorted(slower_percent(chance.choices(pairs, k=len(pairs))) for _ in range(DRAWS))
    return found[DRAWS // 40], found[-DRAWS // 40 - 1]


def _limit(pairs: Sequence[Pair]) -> int:
    """From which bucket on a part counts as disturbed."""
    everything = _sum(turn for pair in pairs for turn in pair)
    left = sum(everything) // 10
    for bucket, count in enumerate(everything):
        left -= count
        if left <= 0:
            return int((bucket + 1) * UNDISTURBED)
    raise RuntimeError("the training did nothing")


def _together(turns: Sequence[Turn], limit: int) -> Sides:
    wall_s, parts = sum(turn.wall_s for turn in turns), _sum(turns)
    fast = sum((bucket + 0.5) * BUCKET_NS / 1e9 * count for bucket, count in enumerate(parts[:limit]))
    return Sides(
        sum(turn.calls_s for turn in turns) / wall_s,
        sum(turn.waits_s for turn in turns) / wall_s,
        fast / sum(parts[:limit]),
        sum(parts) / wall_s,
    )


def _sum(turns: Iterable[Turn]) -> list[int]:
    return [sum(counts) for counts in zip(*(turn.parts for turn in turns), strict=True)]


# --- the training ----------------------------------------------------------------------------------------------------


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


def _until(condition: Callable[[], bool], what: str) -> None:
    give_up_at = time.monotonic() + BEGIN_S_MAX
    while not condition():
        if time.monotonic() > give_up_at:
            raise RuntimeError(f"the training did not come to {what} within {BEGIN_S_MAX:.0f} s")
        time.sleep(0.02)


def main(minutes: float) -> None:
    found = measure(minutes * 60)
    low, high = found.slower_interval
    print(f"a step takes {found.slower_percent:.2f} % longer with Headway (95 % interval {low:.2f} to {high:.2f} %):")
    print(f"  {found.calls_percent:.2f} in calls, {found.waits_percent:.2f} in waiting for a processor, ", end="")
    print(f"{found.work_percent:.2f} in slower work")
    print(f"as the machine happened to be, {found.rate_percent:.2f} % fewer steps a second")
    parts = ", ".join(f"{name} {percent:.2f}" for name, percent in found.parts)
    print(f"all our processes use {found.ours_percent:.2f} % of its processor time ({parts})")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else LOOK_S / 60)
