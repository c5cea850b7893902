"""Where figures may be written: the files of a working directory that trainings are known to make, and whose they are.

A bounded walk. A file counts if its name says so and it was written since the attempt began; where several tasks work
in one directory, only if one of the task's own processes made it or holds it open.
"""

from __future__ import annotations

import os
import re
from collections import deque

from headway_agent.checkpoints import frameworks
from headway_agent.collect.table_files import REPORT, TABLES
from headway_agent.node import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Collection, Iterator

DEPTH_MAX = 8
ENTRIES_MAX = 20_000
FILES_MAX = 2000  # Of one task: event files of many runs.
EVENTS, TABLE, TRAINER, HPARAMS, HYDRA = "events", "table", "trainer", "hparams", "hydra"
TASK = "HEADWAY_TASK"
SPLITS = frozenset(("train", "training", "val", "valid", "validation", "eval", "evaluation", "test", "dev"))

_EVENTS = re.compile(r".*\.tfevents\.\d+.*")
_PID = re.compile(r".*\.tfevents\.\d+\..*?\.(?P<pid>\d+)\.\d+(?:\.v2)?$")
_MOMENT = re.compile(r"[\d.]+")


def kind_of(name: str, above: str) -> str:
    """What a file of this name is, in the folder above it; empty for all that is of no use."""
    if "tfevents" in name:
        return EVENTS if _EVENTS.fullmatch(name) and not name.endswith(".profile-empty") else ""
    if name in TABLES:
        return TABLE
    if name == REPORT:
        return TRAINER
    if name == "hparams.yaml":
        return HPARAMS
    return HYDRA if name == "config.yaml" and above == ".hydra" else ""


def find(root: str, since: float) -> Iterator[tuple[str, str]]:
    """The files below a folder that were written since then: path and kind. The widest first."""
    queue = deque([(root, "", 0)])
    entries = found = 0
    while queue:
        folder, path, depth = queue.popleft()
        try:
            with os.scandir(folder) as inside:
                for entry in inside:
                    entries += 1
                    if entries > ENTRIES_MAX or found >= FILES_MAX:
                        return
                    if entry.is_dir(follow_symlinks=False):
                        inner = f"{path}/{entry.name}" if path else entry.name
                        if depth < DEPTH_MAX and (entry.name == ".hydra" or not frameworks.is_skipped(inner)):
                            queue.append((entry.path, inner, depth + 1))
                        continue
                    kind = kind_of(entry.name, os.path.basename(folder))
                    if kind and entry.is_file(follow_symlinks=False) and entry.stat().st_mtime >= since:
                        found += 1
                        yield entry.path, kind
        except OSError:
            continue  # Gone again, or not ours to read.


def is_of_another(path: str, task: str, host: str) -> bool:
    """Whether the process that an event file is named after is alive, and belongs to another task."""
    return _writer(path, host).get(TASK, task) != task


def owner(path: str, task: str, host: str) -> dict[str, str] | None:
    """The variables of the process of this task that writes a file; None where none does, or none is left."""
    tags = _writer(path, host)
    if tags:
        return tags if tags.get(TASK) == task else None
    for seen in processes.scan():
        tags = processes.tags(seen.pid)
        if tags.get(TASK) == task and path in _open_files(seen.pid):
            return tags
    return None


def _writer(path: str, host: str) -> dict[str, str]:
    """The variables of the process that an event file is named after, while it lives."""
    named = _PID.fullmatch(os.path.basename(path))
    return processes.tags(int(named.group("pid"))) if named is not None and f".{host}." in path else {}


def _open_files(pid: int) -> set[str]:
    found = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
            except OSError:
                continue
    except OSError:
        pass
    return found


def prefix_of(folder: str, others: Collection[str]) -> str:
    """What is put before the names of an event folder's metrics, so that runs in several folders stay apart.

    `others` are the folders that were found before it. The first run's names stay as they are, unless its folder tells
    a part of the data; a folder below another one is told by the way there; the folder of one session of
    hyperparameters is named by its time, and belongs to the run above it.
    """
    above = [each for each in others if folder.startswith(each + "/")]
    name = os.path.basename(folder)
    if above:
        inner = os.path.relpath(folder, max(above, key=len))
        return "" if _MOMENT.fullmatch(inner) else f"{inner}/"
    if name.lower() in SPLITS or (others and folder not in others):
        return f"{name}/"
    return ""
