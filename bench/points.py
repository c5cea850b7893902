"""Points of metrics: how many a second one server takes durably, how fast a curve of a million is answered, and a call.

Real jobs write lines as fast as they can; a point is taken when the server has counted it in its rows, which is after
its bytes are in storage and in the log index. The curve is asked for over the API, of points that are packed.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.house import House, Line, house

JOBS, LINES_EACH, NAMES = 4, 60_000, 4
MILLION = 1_000_000
CALLS = 50_000
SETTLE_S_MAX = 600.0
ASKED = 9

FLOOD = f"""
import os
names = [f"metric{{number}}" for number in range({NAMES})]
with open(os.environ["HEADWAY_METRICS_FILE"], "ab") as file:
    for step in range({LINES_EACH}):
        values = ",".join(f'"{{name}}":{{step * 0.37}}' for name in names)
        file.write(f'{{{{"s":{{step}},"t":{{1.8e9 + step / 100}},"m":{{{{{{values}}}}}}}}}}\\n'.encode())
"""
LONG = f"""
import math, os
with open(os.environ["HEADWAY_METRICS_FILE"], "ab") as file:
    for step in range({MILLION}):
        value = 1e6 if step == 777_777 else math.sin(step / 5e4) + step % 97 / 97
        file.write(f'{{{{"s":{{step}},"t":{{1.8e9 + step / 100}},"m":{{{{"loss":{{value}}}}}}}}}}\\n'.encode())
"""
CALLING = f"""
import json, os, sys, time, headway
spent = []
for step in range({CALLS}):
    begin = time.perf_counter_ns()
    headway.log({{"loss": step * 0.37, "acc": 0.5}}, step=step)
    spent.append(time.perf_counter_ns() - begin)
    if step % 50 == 0:
        time.sleep(0.001)
spent.sort()
print(json.dumps([spent[len(spent) // 2] / 1e3, sum(spent[: len(spent) * 99 // 100]) / len(spent) / 1e3]))
"""


def rows() -> Iterator[tuple[str, float, str, float]]:
    """What was found: what it is, how much, its unit, and the goal (0: none)."""
    with house() as mine, tempfile.TemporaryDirectory() as place:
        line = mine.connect()
        total, seconds = _flood(mine, line, Path(place))
        rate = total / seconds
        yield (
            f"{total:,} points of {JOBS} jobs at once, {rate:,.0f} a second kept durably: each",
            1e6 / rate,
            "µs",
            20.0,
        )
        job = _run(mine, Path(place), "long", LONG)
        _counted(line, [job], MILLION)
        _packed(line, job)
        times = []
        for _ in range(ASKED):
            begin = time.perf_counter()
            (curve,) = line.ask("GET", f"/jobs/{job}/metrics/points?name=loss")["curves"]
            times.append((time.perf_counter() - begin) * 1e3)
            assert max(curve["values"]) == 1e6, "the spike was lost"
        yield f"a curve of 1,000,000 points, as {len(curve['values']):,}", statistics.median(times), "ms", 100.0
        yield "… the first time", times[0], "ms", 100.0
        middle, mean = json.loads(mine.run("logs", _run(mine, Path(place), "calling", CALLING, wait=True)))
        yield "`headway.log` of two numbers: the call, median", middle, "µs", 0.0
        yield "… of a step of 10 ms, on average", mean / 10_000 * 100, "%", 1.0


def _run(mine: House, place: Path, name: str, script: str, wait: bool = False) -> str:
    (place / f"{name}.py").write_text(script)
    words = ["run", "-d", "-o", "name", "--cpus", "0.1", "--name", name, str(place / f"{name}.py")]
    job = mine.run(*words).strip()
    if wait:
        mine.run("wait", job)
    return job


def _flood(mine: House, line: Line, place: Path) -> tuple[int, float]:
    begin = time.monotonic()
    jobs = [_run(mine, place, f"flood{number}", FLOOD) for number in range(JOBS)]
    total = JOBS * LINES_EACH * NAMES
    _counted(line, jobs, total)
    return total, time.monotonic() - begin


def _counted(line: Line, jobs: list[str], total: int) -> None:
    """Wait until all points are in the rows."""
    due = time.monotonic() + SETTLE_S_MAX
    while sum(row["count"] for job in jobs for row in line.ask("GET", f"/jobs/{job}/metrics")["series"]) < total:
        if time.monotonic() > due:
            raise RuntimeError("the points were not counted in time")
        time.sleep(0.2)


def _packed(line: Line, job: str) -> None:
    """Wait until the points are in chunks: the raw output has left then."""
    due = time.monotonic() + SETTLE_S_MAX
    while time.monotonic() < due and line.ask("GET", f"/jobs/{job}/metrics")["unpacked_bytes"]:
        time.sleep(0.5)


if __name__ == "__main__":
    for what, value, unit, goal in rows():
        print(f"{what}: {value:,.1f} {unit} (goal {goal:g})")
