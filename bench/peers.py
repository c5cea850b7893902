"""Others beside us, in the same run. HyperQueue: a scheduler that is made for floods of short tasks.

It is installed into a Python of its own for the time of the run. Its tasks are less than our jobs: by default its
server keeps nothing on a disk.
"""

from __future__ import annotations

import subprocess
import tempfile
import venv
from pathlib import Path

from bench.throughput import Flood

WANTED = "hyperqueue==0.27.0"
SCRIPT = Path(__file__).with_name("hyperqueue_flood.py")
INSTALLED_S_MAX = 300.0
FLOOD_S_MAX = 300.0


class Missing(Exception):
    """It cannot be installed here."""


def hyperqueue(count: int) -> Flood:
    """As many of its tasks as one job. Its client looks once a second whether all have ended: have many."""
    with tempfile.TemporaryDirectory(prefix="headway-bench-hq-") as place:
        python = _python(Path(place))
        said = subprocess.run(
            [python, str(SCRIPT), str(count)], capture_output=True, text=True, timeout=FLOOD_S_MAX, check=True
        )
    taken_s = float(said.stdout.split()[-1])
    return Flood(count, taken_s, taken_s)


def _python(place: Path) -> str:
    venv.create(place / "python", with_pip=True)
    python = str(place / "python" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", WANTED]
    done = subprocess.run(install, capture_output=True, text=True, timeout=INSTALLED_S_MAX, check=False)
    if done.returncode:
        raise Missing(f"{WANTED} cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return python
