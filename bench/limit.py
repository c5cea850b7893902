"""The physical limit: the rate at which a bare program on this machine starts and reaps /bin/true.

It imports nothing of Headway, so that it can run by itself (`python -I -S bench/limit.py`): a small process spawns
faster than a large one, and the limit must not gain from our own weight.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

COUNT = 500  # Half a second or so: it is measured twice for each flood.
PROGRAM = "/bin/true"
TIME_LIMIT_S = 120


def spawn_rate(count: int, at_once: int) -> float:
    """Processes per second, with so many of them alive at a time."""
    env = {"PATH": "/usr/bin:/bin"}
    begin = time.perf_counter()
    started = ended = 0
    while ended < count:
        while started < count and started - ended < at_once:
            os.posix_spawn(PROGRAM, [PROGRAM], env)
            started += 1
        os.wait()
        ended += 1
    return count / (time.perf_counter() - begin)


def best_rate() -> float:
    """The better of one and nproc at a time."""
    return max(spawn_rate(COUNT, 1), spawn_rate(COUNT, len(os.sched_getaffinity(0))))


def measure() -> float:
    """The best rate, in processes per second, measured in a process of its own."""
    command = [sys.executable, "-I", "-S", os.path.abspath(__file__)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIME_LIMIT_S)
    return float(json.loads(done.stdout))


def fsync_ms() -> float:
    """What one durable write costs at the least: the median of some, in milliseconds."""
    took = []
    with tempfile.TemporaryFile() as file:
        for _ in range(50):
            os.write(file.fileno(), bytes(4096))
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - begin)
    return statistics.median(took) * 1000


if __name__ == "__main__":
    spawn_rate(50, 1)
    sys.stdout.write(json.dumps(best_rate()) + "\n")
