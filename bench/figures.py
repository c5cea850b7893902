"""Reading TensorBoard's event files, here and by TensorBoard's own EventAccumulator, of the same 200,000 scalars.

Both on one core, in processes of their own, by the processor time that they took; the better of several rounds counts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

from bench.table import Measured

SCALARS, TAGS, ROUNDS = 200_000, 10, 3

WRITE = """
import sys
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter(sys.argv[1], max_queue=1000)
for step in range(int(sys.argv[2]) // int(sys.argv[3])):
    for tag in range(int(sys.argv[3])):
        writer.add_scalar(f"train/figure_{tag}", step * 0.1 + tag, step)
writer.close()
"""
THEIRS = """
import sys, time
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
began = time.process_time()
found = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
found.Reload()
count = sum(len(found.Scalars(tag)) for tag in found.Tags()["scalars"])
print(count, time.process_time() - began)
"""
OURS = """
import glob, sys, time
from headway_agent.collect import points
from headway_agent.collect.event_files import EventFile
began, count, told = time.process_time(), 0, 0
file = EventFile()
with open(glob.glob(sys.argv[1] + "/*tfevents*")[0], "rb") as source:
    while True:
        source.seek(file.offset)
        before = file.offset
        found = file.feed(source.read(1 << 20))
        count += len(found)
        if sys.argv[2] == "lines":
            told += len(points.lines_of(found, "tensorboard", 1, True))
        if file.offset == before:
            break
print(count, time.process_time() - began)
"""


def python() -> str:
    """An interpreter with torch and tensorboard, made as the tests make it."""
    from tests.real.pythons import python_with
    from tests.real.torching import TENSORBOARD, VERSION

    return python_with(TENSORBOARD, f"tensorboard-{VERSION}", 1500)


def measure(python: str) -> list[Measured]:
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([python, "-c", WRITE, place, str(SCALARS), str(TAGS)], check=True, capture_output=True)
        theirs_s = _best([python, "-c", THEIRS, place])
        ours_s = _best([sys.executable, "-c", OURS, place, "points"])
        lines_s = _best([sys.executable, "-c", OURS, place, "lines"])
    what = f"{SCALARS:,} TensorBoard scalars, against EventAccumulator ({theirs_s:.2f} s)"
    return [
        Measured(what, ours_s / theirs_s, " ×", 0.25, 3),
        Measured("… it takes", ours_s, " s"),
        Measured("… with the spool's lines", lines_s, " s"),
    ]


def _best(words: list[str]) -> float:
    times = []
    for _ in range(ROUNDS):
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        count, took_s = done.stdout.split()[-2:]
        assert int(count) == SCALARS, done.stdout
        times.append(float(took_s))
    return min(times)


if __name__ == "__main__":
    for row in measure(python()):
        sys.stdout.write(f"{row.what}: {row.value:.{row.digits}f}{row.unit}\n")
