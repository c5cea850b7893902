"""Saves as people make them: written in place, under the same name each time. What storing them takes, and costs.

The job is a real one, under a real agent: a round is a save, from its close until the server has committed it. The
yardstick is a plain copy of the same files on the same disk, each round against its own; who goes first changes.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import slowdown
from bench.house import House, house
from bench.table import Measured

LOOK_S = 120.0
ROUNDS = 4
LARGE_BYTES, CHANGED_BYTES = 2 << 30, 256 << 20
SMALL_FILES, SMALL_BYTES = 10_000, 20_000
PATIENCE_S = 300.0

# Saves once for each line of a file that grows, with a share of it changed; meanwhile it makes steps and times them.
SAVING = """
import json, os, sys, time
shape, size, count, asked = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
place = os.environ["HEADWAY_CHECKPOINT_DIR"]
def head(size):
    told = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(told).to_bytes(8, "little") + told
piece = [os.urandom(1 << 20) for _ in range(64)]
def write(path, number, fresh):
    with open(path, "wb") as file:
        file.write(head(size))
        for part in range(size >> 20):
            own = number if part < fresh else 1  # As the first save had it.
            file.write(own.to_bytes(8, "big") + part.to_bytes(8, "big") + piece[part % 64][16:])
        rest = size & ((1 << 20) - 1)
        if rest:
            file.write(number.to_bytes(8, "big") + piece[0][: rest - 8])
def save(number, share):
    if shape == "one":
        write(f"{place}/snapshot.safetensors", number, int((size >> 20) * share))
        return
    os.makedirs(f"{place}/shards", exist_ok=True)
    for each in range(count):
        write(f"{place}/shards/{each}.safetensors", number, 1)
def tell(**words):
    with open(asked + ".told", "a") as file:
        file.write(json.dumps(words) + "\\n")
done = 0
while True:
    begin = time.perf_counter()
    for i in range(20_000):
        (i * 7919 % 104729) ** 0.5
    tell(step_ms=(time.perf_counter() - begin) * 1e3, at=time.time())
    lines = open(asked).read().splitlines() if os.path.exists(asked) else []
    if len(lines) > done:
        done += 1
        print("step", done, flush=True)
        save(done, float(lines[done - 1]))
        tell(saved=done, at=time.time())
"""


class Saving:
    """A job that saves when it is asked to, and how long each save took to be committed."""

    def __init__(self, mine: House, job: str, asked: Path) -> None:
        self.mine, self.job, self.asked = mine, job, asked
        self.line = mine.connect()

    def save(self, number: int, share: float = 1.0) -> tuple[float, float]:
        """Ask for the next save; returns when it was closed, and when the server had committed it."""
        with self.asked.open("a") as file:
            file.write(f"{share}\n")
        closed = _until(lambda: next((each["at"] for each in self.told() if each.get("saved") == number), 0.0))
        _until(lambda: self.committed() >= number)
        return closed, time.time()

    def told(self) -> list[dict[str, float]]:
        path = Path(f"{self.asked}.told")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def committed(self) -> int:
        found = self.line.ask("GET", f"/jobs/{self.job}/checkpoints")["checkpoints"]
        return max((int(each["step"]) for each in found), default=0)

    def step_ms(self, begin: float, end: float) -> list[float]:
        return [each["step_ms"] for each in self.told() if "step_ms" in each and begin <= each["at"] < end]

    @property
    def files(self) -> Path:
        return self.mine.node_dirs[0] / f"tasks/{self.job}-1-0/checkpoints"


def measure() -> list[Measured]:
    return [*_every_second(), *_large(), *_many(), *_changed()]


def _every_second() -> list[Measured]:
    found = slowdown.measure(LOOK_S, slowdown.IN_PLACE)
    low, high = found.slower_interval
    what = "a training that writes 50 MB in place every second is slower with Headway by"
    where = f"calls {found.calls_percent:.2f}, waiting {found.waits_percent:.2f}, work {found.work_percent:.2f}"
    return [
        Measured(f"{what} ({where}; 95 % interval {low:.1f} to {high:.1f} %)", found.slower_percent, " %", 2),
        Measured("… all processes of Headway use, of its processor time", found.ours_percent, " %"),
    ]


def _large() -> list[Measured]:
    with _saving("one", LARGE_BYTES) as job:
        ratios, calm, busy = [], [], []
        for number in range(1, ROUNDS + 1):
            copy_s = _copy_s(job.files, job.mine.home / f"copy-{number}") if number > 1 and number % 2 else 0.0
            before = time.time()
            time.sleep(1.0)
            calm += job.step_ms(before, time.time())
            closed, committed = job.save(number)
            busy += job.step_ms(closed, committed)
            os.sync()
            copy_s = copy_s or _copy_s(job.files, job.mine.home / f"copy-{number}")
            ratios.append((committed - closed) / copy_s)
    slower = (statistics.median(busy) / statistics.median(calm) - 1) * 100
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return [
        Measured(f"2 GiB in place: committed, against a plain copy ({spread})", statistics.median(ratios), " ×", 1.5),
        Measured("… a step of the training is longer meanwhile by", slower, " %"),
    ]


def _many() -> list[Measured]:
    with _saving("many", SMALL_BYTES, SMALL_FILES) as job:
        ratios = []
        for number in range(1, ROUNDS + 1):
            closed, committed = job.save(number)
            os.sync()
            ratios.append((committed - closed) / _copy_s(job.files, job.mine.home / f"copy-{number}"))
    what = f"{SMALL_FILES:,} files in place: committed after the last close, against a plain copy"
    return [Measured(f"{what} ({min(ratios):.2f} to {max(ratios):.2f})", statistics.median(ratios), " ×")]


def _changed() -> list[Measured]:
    with _saving("one", CHANGED_BYTES) as job:
        job.save(1)
        before = _size_of(job.mine.home / "data/storage")
        job.save(2, share=0.01)
        moved = _size_of(job.mine.home / "data/storage") - before
    return [
        Measured(
            "256 MiB written in place anew, 1 % of it changed: stored, of what changed",
            moved / (CHANGED_BYTES * 0.01),
            " ×",
            2,
        )
    ]


@contextmanager
def _saving(shape: str, size: int, count: int = 1) -> Iterator[Saving]:
    with house() as mine:
        script, asked = mine.home / "saving.py", mine.home / "asked"
        script.write_text(SAVING)
        words = [sys.executable, str(script), shape, str(size), str(count), str(asked)]
        job = mine.run("run", "-d", "-o", "name", "--no-bundle", "--", *words).strip()
        saving = Saving(mine, job, asked)
        _until(lambda: len(saving.told()) > 10)
        try:
            yield saving
        finally:
            saving.line.close()
            mine.run("stop", job, "--grace", "0s")
            _until(lambda: json.loads(mine.run("describe", job, "--json"))["state"] == "cancelled")


def _copy_s(source: Path, target: Path) -> float:
    """A plain copy that is on the disk in the end."""
    begin = time.perf_counter()
    shutil.copytree(source, target)
    os.sync()
    return time.perf_counter() - begin


def _size_of(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def _until(condition: Callable[[], Any]) -> Any:
    give_up_at = time.monotonic() + PATIENCE_S
    while not (answer := condition()):
        if time.monotonic() > give_up_at:
            raise RuntimeError(f"nothing came of it within {PATIENCE_S:.0f} s")
        time.sleep(0.02)
    return answer
