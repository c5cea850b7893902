"""Files of a checkpoint: written whole or not at all, named by their step, and the newest found again."""

from __future__ import annotations

import os
import re
import shutil

from headway.training import progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

# Two are left in the directory: the agent may still be reading the one before.
LEFT = 2


def directory(otherwise: str = "checkpoints") -> str:
    """The checkpoint directory of the job; outside a job, one that is made here."""
    folder = progress.checkpoint_dir() or otherwise
    os.makedirs(folder, exist_ok=True)
    return folder


def save(
    folder: str,
    step: int,
    ending: str,
    write: Callable[[str], Any],
    metrics: Mapping[str, Any] | None = None,
) -> str:
    """Write `step-<n><ending>` through `write(path)`, durably, tell of it, and remove all but the last two."""
    name = f"step-{step:09d}{ending}"
    path = os.path.join(folder, name)
    fresh = os.path.join(folder, f".{os.getpid()}-{name}")  # Keeps its ending: some libraries go by it.
    write(fresh)
    _sync(fresh)
    if os.path.isdir(path):
        shutil.rmtree(path)
    os.replace(fresh, path)
    _sync(folder)
    for old in found(folder, ending)[:-LEFT]:
        _remove(os.path.join(folder, old))
    if progress.checkpoint_dir() and os.path.realpath(folder) == os.path.realpath(progress.checkpoint_dir() or ""):
        progress.checkpoint(step, name, metrics)
    return path


def newest(folder: str, ending: str) -> tuple[int, str] | None:
    """The step and path of the checkpoint to go on from: the one that was restored, outside a job the newest here."""
    names = found(folder, ending)
    resumed = progress.resume()
    if resumed is not None:
        names = [name for name in names if _step(name) <= resumed.step]
    if not names:
        return None
    return _step(names[-1]), os.path.join(folder, names[-1])


def found(folder: str, ending: str) -> list[str]:
    """Our checkpoints in the directory, oldest first."""
    shape = re.compile(r"step-(\d+)" + re.escape(ending) + r"\Z")
    try:
        names = [name for name in os.listdir(folder) if shape.match(name)]
    except OSError:
        return []
    return sorted(names, key=_step)


def _step(name: str) -> int:
    return int(re.sub(r"\D.*", "", name[len("step-") :]))


def _sync(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError:
        pass  # Some file systems cannot; the rename still makes it whole for every reader.


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        os.unlink(path)
    except OSError:
        pass
