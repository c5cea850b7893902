"""The public logs as jobs: the Standard Workload Format, and the Tiresias list."""

from __future__ import annotations

import csv
from pathlib import Path

from headway.core.model import Job, Node, Resources
from headway.core.spec.job import JobSpec
from yardsticks.replay import Trace

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
KTH = DATA / "swf" / "KTH-SP2-1996.swf"
LUBLIN = DATA / "swf" / "lublin_256.swf"
TIRESIAS = DATA / "tiresias" / "480_job.csv"
LUBLIN_OFFSETS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
LUBLIN_JOBS = 1024
GPUS_PER_NODE = 4


def processors(count: int) -> list[Node]:
    """A machine of nodes with one processor each."""
    return [Node(f"n{number:03d}", "machine", Resources(1.0, 0, 0)) for number in range(count)]


def gpu_nodes(count: int) -> list[Node]:
    return [Node(f"n{number:02d}", "machine", Resources(64.0, 2**40, GPUS_PER_NODE)) for number in range(count)]


def read_swf(path: Path) -> list[list[float]]:
    """The numbers of each job that ran on at least one processor."""
    rows = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip() and not line.startswith(";"):
                rows.append([float(word) for word in line.split()])
    return [row for row in rows if row[3] > 0 and max(row[4], row[7]) > 0]


def kth(first: int = 0, count: int | None = None) -> list[Trace]:
    """The KTH log: users' requested times are the limits, and a job is ended there."""
    rows = read_swf(KTH)[first:]
    traces = []
    for seq, row in enumerate(rows[:count] if count else rows, start=1):
        asked_s = row[8] if row[8] > 0 else row[3]
        width = int(row[7] if row[7] > 0 else row[4])
        traces.append(_trace(seq, row[1], min(row[3], asked_s), width, asked_s, f"u{int(row[11])}"))
    return traces


def lublin(offset: int, count: int = LUBLIN_JOBS) -> list[Trace]:
    """One sequence of the Lublin model: run times are known."""
    rows = read_swf(LUBLIN)[offset : offset + count]
    return [_trace(seq, row[1], row[3], int(row[4]), row[3], "u") for seq, row in enumerate(rows, start=1)]


def tiresias() -> list[Trace]:
    """The 480 jobs: gangs of whole or part nodes, with no run time told to anybody."""
    traces = []
    with TIRESIAS.open(encoding="utf-8", newline="") as lines:
        for seq, row in enumerate(csv.DictReader(lines), start=1):
            gpus = int(row["num_gpu"])
            nodes = max(1, -(-gpus // GPUS_PER_NODE))
            wants = Resources(1.0, 0, gpus if nodes == 1 else GPUS_PER_NODE)
            spec = JobSpec(("train",), row["model_name"], nodes=nodes, resources=wants)
            job = Job(f"j{seq:05d}", spec, "u", float(row["submit_time"]), seq=seq)
            traces.append(Trace(job, float(row["duration"])))
    return traces


def _trace(seq: int, at: float, run_s: float, width: int, asked_s: float, user: str) -> Trace:
    spec = JobSpec(("run",), "job", nodes=width, wall_s_max=asked_s)
    return Trace(Job(f"j{seq:05d}", spec, user, at, seq=seq), run_s)
