"""What a job says through the SDK: lines of metrics with their steps and of complete checkpoints, and its newest step.

Read from where the last reading ended; half a line waits for its rest. What it means is checkpoints/completeness.py's
to know.
"""

from __future__ import annotations

import json
import os

from headway_agent.checkpoints import completeness
from headway_wire.sync import LOGGED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headway_agent.files.task_files import TaskFiles

LINE_BYTES_MAX = 1 << 20
NEWEST_BYTES_MAX = 256 << 10
REACHED, REACHED_BYTES_MAX = "reached", 100


def read_metrics(charge: TaskFiles) -> None:
    """The newest step that one of its ranks has logged."""
    for name in _logged_files(charge.directory):
        lines = map(_said, reversed(_new_lines(charge, name, NEWEST_BYTES_MAX)))
        steps = (_step_of(line) for line in lines if line)
        last = next((step for step in steps if step is not None), None)  # The newest alone: there may be thousands.
        if last is not None:
            charge.knowledge.steps.metrics = last


def read_reached(charge: TaskFiles) -> None:
    """The step that a helper in the job notes at every step, twice: a note that is just being written is not read."""
    try:
        with open(f"{charge.directory}/sdk/{REACHED}", "rb") as file:
            words = file.read(REACHED_BYTES_MAX).split()
    except OSError:
        return
    if len(words) == 2 and words[0] == words[1] and words[0].isdigit():
        charge.knowledge.steps.reached = int(words[0])


def read_declared(charge: TaskFiles) -> bool:
    """Take in the checkpoints that were declared since the last time. Whether there were any."""
    found = False
    for line in filter(None, map(_said, _new_lines(charge, "sdk/declared.jsonl"))):
        step = _step_of(line)
        metrics = line.get("metrics")
        path = _relative(str(line.get("path") or "."), charge.checkpoints)
        metrics = metrics if isinstance(metrics, dict) else {}
        newest_ns = line.get("newest_ns") if isinstance(line.get("newest_ns"), int) else None
        completeness.declared(charge.knowledge, path, step, metrics, newest_ns)
        if step is not None:
            charge.knowledge.steps.saved = max(step, charge.knowledge.steps.saved or 0)
        found = True
    return found


def _logged_files(directory: str) -> list[str]:
    try:
        names = os.listdir(f"{directory}/sdk")
    except OSError:
        return []
    return sorted(f"sdk/{name}" for name in names if name.endswith(f".{LOGGED}"))


def _new_lines(charge: TaskFiles, name: str, newest: int = 0) -> list[bytes]:
    """The lines that were written to a file since the last call; half a line waits for its rest.

    With `newest`, only those at its end, of so many bytes.
    """
    path = f"{charge.directory}/{name}"
    start = charge.read_to.get(name, 0)
    try:
        with open(path, "rb") as file:
            if newest:
                start = max(start, os.fstat(file.fileno()).st_size - newest)
            file.seek(start)
            data = file.read(LINE_BYTES_MAX * 16)
    except OSError:
        return []
    whole = data.rfind(b"\n") + 1
    charge.read_to[name] = start + whole
    return data[:whole].splitlines()


def _said(line: bytes) -> dict[str, Any] | None:
    try:
        said = json.loads(line)
    except ValueError:
        return None  # Torn by two ranks that wrote at once.
    return said if isinstance(said, dict) else None


def _step_of(line: dict[str, Any]) -> int | None:
    step = line.get("s", line.get("step"))
    return step if isinstance(step, int) and not isinstance(step, bool) and step >= 0 else None


def _relative(path: str, directory: str) -> str:
    """A declared path, relative to the checkpoints' directory."""
    if os.path.isabs(path):
        path = os.path.relpath(os.path.realpath(path), os.path.realpath(directory))
    return os.path.normpath(path)
