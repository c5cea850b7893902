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
SHARE = ".rank-"


def directory(given: str | None = None) -> str:
    """The directory that was given, else the checkpoint directory of the job; outside a job, one that is made here."""
    folder = given or progress.checkpoint_dir() or "checkpoints"
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
    clear(folder, step, ending)
    write(draft(folder, step, ending))
    return finish(folder, step, ending, metrics)


def draft(folder: str, step: int, ending: str) -> str:
    """Where a checkpoint is written before it has its name: one that looks half-written to everybody.

    It is the same on every node: torch writes it into the file, and equal states are to be equal bytes.
    """
    return os.path.join(folder, f".{_name(step, ending)}.tmp")


def finish(folder: str, step: int, ending: str, metrics: Mapping[str, Any] | None = None) -> str:
    """The draft is whole: give it its name, tell of it, and remove all but the last two.

    Where there is none, another node has written it for all: this one tells that it has come to that step, and a
    checkpoint of the gang is complete without anybody having to guess who saves.
    """
    fresh, name = draft(folder, step, ending), _name(step, ending)
    ours = os.path.exists(fresh)
    if not ours:
        name = f"{name}{SHARE}{os.environ.get('RANK') or 0}"
        with open(fresh, "w") as file:
            file.write(f"step {step}: written by another node\n")
    path = os.path.join(folder, name)
    for each in [*_inside(fresh), fresh]:
        _sync(each)
    if os.path.isdir(path):
        shutil.rmtree(path)
    os.replace(fresh, path)
    _sync(folder)
    # What was restored of others is not written anew here.
    for old in [*found(folder, ending)[: -LEFT if ours else None], *_shares(folder, ending)[:-LEFT]]:
        _remove(os.path.join(folder, old))
    if progress.checkpoint_dir() and os.path.realpath(folder) == os.path.realpath(progress.checkpoint_dir() or ""):
        progress.checkpoint(step, name, metrics)
    return path


def clear(folder: str, step: int, ending: str) -> None:
    """Remove what an earlier try has left of this draft."""
    _remove(draft(folder, step, ending))


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
    return _named(folder, re.escape(ending))


def _shares(folder: str, ending: str) -> list[str]:
    return _named(folder, re.escape(ending + SHARE) + r"\d+")


def _named(folder: str, ending: str) -> list[str]:
    shape = re.compile(r"step-(\d+)" + ending + r"\Z")
    try:
        names = [name for name in os.listdir(folder) if shape.match(name)]
    except OSError:
        return []
    return sorted(names, key=_step)


def _name(step: int, ending: str) -> str:
    return f"step-{step:09d}{ending}"


def _step(name: str) -> int:
    return int(re.sub(r"\D.*", "", name[len("step-") :]))


def _inside(path: str) -> list[str]:
    return [os.path.join(above, name) for above, _, names in os.walk(path) for name in names]


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
