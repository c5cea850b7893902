"""A long queue: 100,000 jobs as one array, and how long people wait for answers while all of them wait.

One job holds the whole machine, so nothing of the array starts while answers are timed. The first of them may meet the
server while it takes the array into its working copy; medians are told.
"""

from __future__ import annotations

import statistics
import time

from bench.house import House, Line

COUNT = 100_000
ROUNDS = 15
PAGE_MS_MAX = 50.0
STATES = "queued,starting,running,stopping"


def rows(house: House) -> list[tuple[str, float, str, float]]:
    """What was measured, the number, its unit and its goal."""
    line = house.connect()
    cpus = _machine(line)
    line.ask("POST", "/jobs", {"job": {"command": ["sleep", "600"], "resources": {"cpus": cpus}, "max_duration": "1h"}})
    begin = time.monotonic()
    wish = {"command": ["/bin/true"], "array": COUNT, "resources": {"cpus": cpus}, "max_duration": "10m"}
    array = line.ask("POST", "/jobs", {"job": wish})["array"]["id"]
    found = [(f"an array of {COUNT:,} jobs: accepted durably after", time.monotonic() - begin, "s", 5.0)]
    for what, path in (
        ("… `ps`: the page of unfinished jobs", f"/jobs?state={STATES}&limit=201"),
        ("… `why` of the first in the queue", f"/jobs/{array}-0/why"),
        ("… `why` of the last", f"/jobs/{array}-{COUNT - 1}/why"),
        ("… all about the last", f"/jobs/{array}-{COUNT - 1}"),
        ("… a page of the array", f"/jobs?array={array}&limit=100"),
        ("… the array in numbers", f"/arrays/{array}"),
        ("… the queues", "/queues"),
    ):
        found.append((what, _median_ms(line, path), "ms", PAGE_MS_MAX))
    line.close()
    return found


def _machine(line: Line) -> float:
    """How many processors the one node has, once it has called home."""
    while True:
        nodes = line.ask("GET", "/nodes")["nodes"]
        if nodes:
            return float(nodes[0]["granted"]["cpus"])
        time.sleep(0.1)


def _median_ms(line: Line, path: str) -> float:
    times = []
    for _ in range(ROUNDS):
        begin = time.monotonic()
        line.ask("GET", path)
        times.append(time.monotonic() - begin)
    return statistics.median(times) * 1000
