"""What Headway costs a training: its time with and without, and the processor time of all that is ours meanwhile.

Both ways do the same fixed work: steps that keep one processor busy, a metric each, a log line now and then, and a
checkpoint; the clock starts after the first steps, since a start is no part of a training that lasts hours. Times on a
shared machine vary more than what is sought, so runs of both kinds alternate in random order and the pairs' quotients
are compared. Processor time hardly hangs on what else the machine does. `python -m bench.slowdown MINUTES` takes as
many pairs as fit in that time, for a narrower interval than the few of the whole benchmark give.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.house import House, house
from bench.idle import cpu_s, our_pids

PAIRS_MIN, PAIRS_S = 8, 60.0
WARM_STEPS, SHORT_STEPS, LONG_STEPS, SAVE_EVERY = 100, 300, 1500, 300
RUN_S_MAX = 300.0
DRAWS = 2000

TRAINING = f"""
import json, os, sys, time
import headway
place, steps = os.environ.get("HEADWAY_CHECKPOINT_DIR") or sys.argv[1], int(sys.argv[2])
def work():
    total = 0.0
    for i in range(60000):
        total += (i * 7919 % 104729) ** 0.5
    return total
model = os.urandom(4 << 20)
headway.log(step=0, loss=1.0)
for step in range(1, {WARM_STEPS} + steps + 1):
    if step == {WARM_STEPS} + 1:
        open(sys.argv[3] + ".began", "w").close()
        began, used = time.perf_counter(), time.process_time()
    loss = work()
    headway.log(step=step, loss=loss)
    if step % 10 == 0:
        print("step", step, "loss", loss, flush=True)
    if step % {SAVE_EVERY} == {SAVE_EVERY // 2}:
        with open(f"{{place}}/model.tmp", "wb") as file:
            file.write(model)
        os.replace(f"{{place}}/model.tmp", f"{{place}}/model-{{step}}.pt")
told = [time.perf_counter() - began, time.process_time() - used]
with open(sys.argv[3] + ".new", "w") as file:
    json.dump(told, file)
os.replace(sys.argv[3] + ".new", sys.argv[3])
"""


@dataclass(frozen=True)
class Spent:
    """What one run of the training took, without its start, its first steps and its end."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class SlowDown:
    pairs: int
    wall_percent: float
    wall_interval: tuple[float, float]
    own_percent: float  # More processor time of the training itself: the median of the pairs,
    own_interval: tuple[float, float]  # and where it lies.
    ours_percent: float  # Processor time of server, agent and keeper, of that of the training.
    parts: tuple[tuple[str, float], ...]
    core_percent: float  # The same, of one processor for as long as the training took.


def measure(pairs_s: float = PAIRS_S) -> SlowDown:
    with house() as mine:
        script = mine.home / "training.py"
        script.write_text(TRAINING)
        _within(mine, script, SHORT_STEPS)  # Both ways once, not counted: files and modules are in memory then.
        _without(mine, script, SHORT_STEPS)
        withins, withouts = _pairs(mine, script, pairs_s)
        parts, long = _ours(mine, script)
    ours_percent = sum(percent for _, percent in parts)
    walls = [_more(one.wall_s, other.wall_s) for one, other in zip(withins, withouts, strict=True)]
    owns = [_more(one.cpu_s, other.cpu_s) for one, other in zip(withins, withouts, strict=True)]
    return SlowDown(
        len(walls),
        statistics.median(walls),
        interval(walls),
        statistics.median(owns),
        interval(owns),
        ours_percent,
        parts,
        ours_percent * long.cpu_s / long.wall_s,
    )


def _more(one: float, other: float) -> float:
    return (one / other - 1) * 100


def _pairs(mine: House, script: Path, pairs_s: float) -> tuple[list[Spent], list[Spent]]:
    """What both ways took, pair by pair; which goes first is drawn."""
    chance = random.Random(1)
    withins: list[Spent] = []
    withouts: list[Spent] = []
    until = time.monotonic() + pairs_s
    while len(withins) < PAIRS_MIN or time.monotonic() < until:
        ways = [(withins, _within), (withouts, _without)]
        chance.shuffle(ways)
        for found, run in ways:
            found.append(run(mine, script, SHORT_STEPS))
    return withins, withouts


def _ours(mine: House, script: Path) -> tuple[tuple[tuple[str, float], ...], Spent]:
    """The processor time of each of our processes from a training's first step to its last, in percent of its own."""
    names = {mine.server_pid: "server"}
    for node_dir in mine.node_dirs:
        names |= {json.loads((node_dir / f"{name}.pid").read_text())["pid"]: name for name in ("agent", "keeper")}
    pids = our_pids(mine)  # Before the training begins, which descends from the keeper.
    with tempfile.TemporaryDirectory(dir=mine.home) as place:
        told = Path(place) / "told.json"
        job = _submitted(mine, script, LONG_STEPS, told)
        _appears(told.with_name("told.json.began"))
        before = {pid: cpu_s(pid) for pid in pids}
        _appears(told)
        after = {pid: cpu_s(pid) for pid in pids}
        spent = Spent(*json.loads(told.read_text()))
        _ended(mine, job)
    found: dict[str, float] = {}
    for pid in pids:
        name = names.get(pid, "guard")
        found[name] = found.get(name, 0.0) + (after[pid] - before[pid]) / spent.cpu_s * 100
    return tuple(found.items()), spent


def _without(mine: House, script: Path, steps: int) -> Spent:
    with tempfile.TemporaryDirectory(dir=mine.home) as place:
        told, said = Path(place) / "told.json", Path(place) / "out"
        with said.open("wb") as output:
            words = [sys.executable, str(script), place, str(steps), str(told)]
            subprocess.run(words, check=True, stdout=output, stderr=subprocess.STDOUT, env=mine.env)
        return Spent(*json.loads(told.read_text()))


def _within(mine: House, script: Path, steps: int) -> Spent:
    with tempfile.TemporaryDirectory(dir=mine.home) as place:
        told = Path(place) / "told.json"
        job = _submitted(mine, script, steps, told)
        _appears(told)
        _ended(mine, job)  # Or its end would disturb the run without.
        return Spent(*json.loads(told.read_text()))


def _submitted(mine: House, script: Path, steps: int, told: Path) -> str:
    line = mine.connect()
    command = [sys.executable, str(script), str(told.parent), str(steps), str(told)]
    made = line.ask("POST", "/jobs", {"job": {"command": command}})
    line.close()
    return str(made["job"]["id"])


def _appears(path: Path) -> None:
    give_up_at = time.monotonic() + RUN_S_MAX
    while not path.exists():
        if time.monotonic() > give_up_at:
            raise RuntimeError(f"the training did not come to {path.name} within {RUN_S_MAX:.0f} s")
        time.sleep(0.02)


def _ended(mine: House, job: str) -> None:
    line = mine.connect()
    while (state := line.ask("GET", f"/jobs/{job}")["state"]) != "succeeded":
        if state == "failed":
            raise RuntimeError(f"the training {job} failed")
        time.sleep(0.02)
    line.close()


def interval(values: list[float]) -> tuple[float, float]:
    """Where the median lies with 95 % probability, by drawing from the values again and again."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(DRAWS))
    return medians[DRAWS // 40], medians[-DRAWS // 40 - 1]


def main(minutes: float) -> None:
    found = measure(minutes * 60)
    print(f"{found.pairs} pairs; with 95 % probability the median lies in the interval")
    print("slower by {:.2f} % ({:.2f} to {:.2f})".format(found.wall_percent, *found.wall_interval))
    print("its own processor time {:.2f} % ({:.2f} to {:.2f})".format(found.own_percent, *found.own_interval))
    parts = ", ".join(f"{name} {percent:.2f}" for name, percent in found.parts)
    print(f"all our processes {found.ours_percent:.2f} % of the training's processor time ({parts})")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
