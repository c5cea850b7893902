"""One job on an idle machine: how long until it is accepted, until its process runs, until its end is seen.

The rank's only act is to write down its own clock. Its interpreter's start therefore counts as part of "started", and
its interpreter's end as part of "end seen": both are measured to our disadvantage.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass

from bench.house import House

ROUNDS = 15
PAUSE_S = 0.15
RANK = "import sys, time; open(sys.argv[1], 'w').write(str(time.time()))"


@dataclass(frozen=True)
class Latency:
    """Medians, in milliseconds."""

    accepted_ms: float
    started_ms: float
    end_seen_ms: float


def measure(house: House) -> Latency:
    rounds = [_one(house, number) for number in range(ROUNDS)]
    return Latency(*(statistics.median(each) * 1000 for each in zip(*rounds, strict=True)))


def _one(house: House, number: int) -> tuple[float, float, float]:
    note = house.home / f"rank-{number}"
    command = [sys.executable, "-I", "-S", "-c", RANK, str(note)]
    line = house.connect()
    time.sleep(PAUSE_S)
    begin = time.time()
    job = line.ask("POST", "/jobs", {"job": {"command": command}})["job"]["id"]
    accepted = time.time()
    waited = line.ask("GET", f"/jobs/{job}/wait?timeout_s=30")
    seen = time.time()
    line.close()
    if waited["job"]["state"] != "succeeded":
        raise RuntimeError(f"job {job} is {waited['job']['state']}: {waited['job']['sentence']}")
    ran = float(note.read_text())
    return accepted - begin, max(0.0, ran - accepted), seen - ran
