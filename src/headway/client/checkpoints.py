"""Fetching a checkpoint: which one is meant by `JOB@1200`, `JOB@best` or `JOB@last`, and its files, checked by hash.

artifacts.py brings the bytes; here is what a checkpoint consists of.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headway.client.artifacts import receive
from headway.core.errors import BadInput, HeadwayError, NotFound

if TYPE_CHECKING:
    from headway.client.sdk import Client

Shown = Mapping[str, Any]
BEST, LAST = "best", "last"
READ_BYTES = 1 << 20


def split_ref(words: str) -> tuple[str, str]:
    """`JOB@STEP`, `JOB@best` or `JOB@last` in two; a job alone means its last."""
    job, at, which = words.partition("@")
    if not job or (at and not which):
        raise BadInput(f'"{words[:200]}" is not of the form JOB@STEP', "write mnist@1200, mnist@best or mnist@last")
    if at and which not in (BEST, LAST) and not which.isdecimal():
        raise BadInput(f'"{which[:80]}" is not the number of a step', f"write {job}@1200, {job}@best or {job}@last")
    return job, which or LAST


def pick(found: Sequence[Shown], which: str, job: Shown, metric: str = "", mode: str = "") -> Shown:
    """The checkpoint that is meant, of those that are complete and good."""
    good = [each for each in found if each.get("resumable") and each.get("complete", True)]
    if not good:
        raise NotFound(f"{job['id']} has no complete checkpoint", f"headway checkpoint ls {job['id']}")
    if which == LAST:
        return max(good, key=_newness)
    if which == BEST:
        return _best(good, job, metric, mode)
    of_step = [each for each in good if each["step"] == int(which)]
    if not of_step:
        from headway.core.files.checkpoints import steps_there

        raise NotFound(
            f"{job['id']} has no complete checkpoint at step {which}", steps_there(each["step"] for each in good)
        )
    return max(of_step, key=_newness)


def _newness(each: Shown) -> tuple[int, int]:
    return int(each["step"]), int(each["attempt"])


def _best(good: Sequence[Shown], job: Shown, metric: str, mode: str) -> Shown:
    kept = ((job.get("spec") or {}).get("checkpoint") or {}).get("keep_best") or {}
    name = metric or str(kept.get("metric") or "")
    known = sorted({told for each in good for told in each.get("metrics") or {}})
    if not name:
        hint = f"--metric {known[0]}" if known else "headway.checkpoint(step, metrics={…}) tells one with each"
        raise BadInput("the best by which metric? the job names none", hint)
    valued = [each for each in good if name in (each.get("metrics") or {})]
    if not valued:
        hint = f"there are {', '.join(known)}" if known else "no checkpoint of it has a metric"
        raise NotFound(f'no checkpoint of {job["id"]} has the metric "{name[:80]}"', hint)
    sign = 1 if (mode or (kept.get("mode") if not metric else "") or "min") == "max" else -1
    return max(valued, key=lambda each: (sign * float(each["metrics"][name]), _newness(each)))


def places_of(files: Sequence[Shown], directory: str) -> list[str]:
    """Where each file goes; those of several tasks are kept apart where two have the same path."""
    paths = [str(file["path"]) for file in files]
    apart = len(set(paths)) < len(paths)
    places = []
    for file in files:
        parts = str(file["path"]).split("/")
        if not file["path"] or str(file["path"]).startswith("/") or {"..", ""} & set(parts) or "\0" in file["path"]:
            raise BadInput(f"the server names a file {file['path']!r}, which would leave the directory")
        places.append(os.path.join(directory, *([f"task-{file['task']}"] if apart else []), *parts))
    return places


def is_here(file: Shown, place: str) -> bool:
    """Whether exactly this file lies there already."""
    if not os.path.isfile(place) or os.path.getsize(place) != file["size"]:
        return False
    with open(place, "rb") as content:
        for part in file["parts"]:
            digest, left = hashlib.sha256(), int(part["size"])
            while left and (piece := content.read(min(left, READ_BYTES))):
                digest.update(piece)
                left -= len(piece)
            if digest.hexdigest() != part["sha256"]:
                return False
    return True


def fetch_file(client: Client, job: str, step: int, file: Shown, place: str, on_bytes: Callable[[int], None]) -> None:
    """Bring one file of a checkpoint to its place; it appears there only when it is whole and right."""
    if is_here(file, place):
        on_bytes(int(file["size"]))
        return
    if os.path.isdir(place):
        raise BadInput(f"{place} is a directory", "choose another place")

    def pieces(start: int) -> Iterator[tuple[int, bytes]]:
        return client.checkpoint_pieces(job, step, file, start)

    part = place + ".part"
    try:
        os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
        receive(client, pieces, file, part, on_bytes)
        if not is_here(file, part):
            # The beginning may be left from another file of this name: once more, from nothing.
            os.unlink(part)
            receive(client, pieces, file, part, lambda count: None)
            if not is_here(file, part):
                os.unlink(part)
                raise HeadwayError(f'"{file["path"]}" came with another content than its hashes say')
        os.replace(part, place)
    except OSError as error:
        raise BadInput(f"{place} cannot be written: {(error.strerror or str(error)).lower()}") from None
