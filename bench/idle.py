"""What Headway costs while nothing happens: memory and CPU of server, agent, keeper and guard; and one `headway ps`."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from bench.house import House

SETTLE_S = 4.0
LOOK_S = 15.0
ROUNDS = 7


@dataclass(frozen=True)
class Idle:
    """Sums over all processes of an idle Headway."""

    processes: int
    rss_mb: float
    pss_mb: float
    cpu_percent: float


def measure(house: House) -> Idle:
    time.sleep(SETTLE_S)
    pids = our_pids(house)
    before, began = sum(map(cpu_s, pids)), time.monotonic()
    time.sleep(LOOK_S)
    spent_s, wall_s = sum(map(cpu_s, pids)) - before, time.monotonic() - began
    sizes = [memory_mb(pid) for pid in pids]
    return Idle(len(pids), sum(rss for rss, _ in sizes), sum(pss for _, pss in sizes), 100 * spent_s / wall_s)


def our_pids(house: House) -> list[int]:
    """The server, each node's agent and keeper, and all their descendants (the guard)."""
    roots = [house.server_pid]
    for node_dir in house.node_dirs:
        roots += [json.loads((node_dir / name).read_text())["pid"] for name in ("agent.pid", "keeper.pid")]
    parents = {int(path.name): parent_of(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()}
    found = list(dict.fromkeys(roots))
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid and child not in found]
    return found


def stat_fields(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def parent_of(pid: int) -> int:
    fields = stat_fields(pid)
    return int(fields[1]) if fields else 0


def cpu_s(pid: int) -> float:
    fields = stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident size, and its share when pages that several processes use are divided among them."""
    values = {"Rss": 0, "Pss": 0}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in values:
            values[name] = int(rest.split()[0])
    return values["Rss"] * 1024 / 1e6, values["Pss"] * 1024 / 1e6


def ps_cpu_ms(house: House) -> float:
    """User and system time of `headway ps` with a warm server: the median, in milliseconds."""
    return statistics.median(_child_cpu_s(house) for _ in range(ROUNDS)) * 1000


def _child_cpu_s(house: House) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(house.command("ps"), env=house.env, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
