"""What people are shown of progress: checkpoints, artifacts, and the account of what was lost. Reads only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.core.errors import NotFound
from headway.core.files import checkpoints, savers
from headway.core.files.checkpoints import COMMITTED, SET_ASIDE, Checkpoint, Gang, Whole
from headway.core.files.lost_work import Account, Loss, Price, account, no_price
from headway.core.model import Attempt, Job, NodeId, Pool
from headway.core.spec.params import seed_of
from headway.storage.protocol import Storage
from headway.store.protocol import Artifact, Store

FILES_SHOWN = 1000


def kept_of(store: Store, job: Job, attempts: Sequence[Attempt]) -> Sequence[Checkpoint]:
    """The checkpoints of a job, where it can have any."""
    began = job.spec.progress.resume_from is not None
    kept = began or job.spec.nodes > 1 or any(each.committed_step is not None for each in attempts)
    return store.checkpoints(job.id) if kept else ()


def progress_of(
    store: Store, job: Job, attempts: Sequence[Attempt], kept: Sequence[Checkpoint], price: Price = no_price
) -> dict[str, Any]:
    """What a job's detail says about its progress."""
    newest = checkpoints.newest(kept, Gang.of(job.spec))
    artifacts = store.artifacts(job.id)
    return {
        "seed": seed_of(job),
        "checkpoint": show_whole(newest) if newest else None,
        "checkpoint_lacks": why_none_newer(kept, job, newest),
        "account": {"unit": checkpoints.unit_of(kept), **show_account(account(attempts, price))},
        "artifacts": {"files": len(artifacts), "bytes": sum(each.size for each in artifacts)},
    }


def show_account(found: Account) -> dict[str, Any]:
    return {
        "total": show_loss(found.total),
        "by_cause": {cause: show_loss(loss) for cause, loss in found.by_cause},
        "attempts": [{"attempt": number, **show_loss(loss)} for number, loss in found.attempts],
    }


def show_loss(loss: Loss) -> dict[str, Any]:
    return {
        "steps": loss.steps,
        "seconds": round(loss.seconds, 3),
        "money": None if loss.money is None else round(loss.money, 4),
        "at_least": loss.at_least,
        "steps_told": not loss.steps_untold,
    }


def price_of(pools: Mapping[str, Pool], pool_of: Callable[[], Mapping[NodeId, str]]) -> Price:
    """What a second of an attempt costs by the pools' prices; unknown where no pool has one."""
    if not any(pool.price_per_hour for pool in pools.values()):
        return no_price
    names = pool_of()

    def price(attempt: Attempt) -> float | None:
        found = [pools[names[node]].price_per_hour for node in attempt.nodes if names.get(node) in pools]
        return sum(found) / 3600 if any(found) else None

    return price


def show_checkpoints(store: Store, job: Job) -> list[dict[str, Any]]:
    """All checkpoints of a job, the best to resume from first."""
    entries = store.checkpoints(job.id)
    wholes = checkpoints.gather(entries, Gang.of(job.spec))
    return [show_whole(whole, entries) for whole in reversed(wholes)]


def why_none_newer(entries: Sequence[Checkpoint], job: Job, newest: Whole | None) -> str:
    """Why what a gang has saved since its newest checkpoint is none; empty where a share may only be on its way."""
    wholes = checkpoints.gather(entries, Gang.of(job.spec))
    later = [whole for whole in wholes if not newest or whole.step > newest.step]
    if job.alive:
        later = [whole for whole in later if whole.attempt < job.number] or later[:-1]
    reasons = [(whole.step, savers.why_incomplete(whole, entries)) for whole in reversed(later)]
    return next((f"step {step}: {why}" for step, why in reasons if why), "")


def show_whole(whole: Whole, entries: Sequence[Checkpoint] = ()) -> dict[str, Any]:
    return {
        "step": whole.step,
        "unit": whole.unit,
        "attempt": whole.attempt,
        "how": whole.how,
        "bytes": sum(part.bytes for part in whole.parts),
        "files": sum(part.files for part in whole.parts),
        "at": whole.at,
        "metrics": whole.metrics,
        "found": whole.found,
        "tasks": [part.task for part in whole.parts],
        "sharded": any(part.sharded for part in whole.parts),
        "complete": not whole.lacks and len(whole.units) <= 1,
        "lacks": savers.why_incomplete(whole, entries or whole.parts),
        "pinned": whole.pinned,
        "state": SET_ASIDE if whole.spoiled else COMMITTED,
        "resumable": whole.complete,
    }


def show_artifact(artifact: Artifact) -> dict[str, Any]:
    return {
        "attempt": artifact.attempt,
        "task": artifact.task,
        "path": artifact.path,
        "size": artifact.size,
        "sha256": artifact.sha256,
        "at": artifact.at,
    }


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Some bytes of a storage object."""

    key: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Joined:
    """A file that lies in pieces, read by its own offsets."""

    storage: Storage
    pieces: tuple[FilePiece, ...]

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    def read(self, start: int, end: int) -> bytes:
        """The bytes of one range; of a range that spans pieces, as many as lie in the first of them."""
        at = 0
        for piece in self.pieces:
            if start < at + piece.size:
                first = piece.offset + start - at
                return self.storage.get(piece.key, first, first + min(end, at + piece.size) - start)
            at += piece.size
        return b""


def find_artifact(
    store: Store, storage: Storage, job: Job, path: str, attempt: int | None, task: int | None
) -> tuple[Artifact, Joined]:
    """The file of this path: of the attempt that is named, else of the newest that has it."""
    found = [each for each in store.artifacts(job.id, attempt) if each.path == path]
    found = [each for each in found if task is None or each.task == task]
    if not found:
        raise NotFound(f'{job.id} has no artifact "{path[:200]}"', f"headway artifact ls {job.id}")
    best = max(found, key=lambda each: (each.attempt, -each.task))
    if len(best.keys) == 1:
        return best, Joined(storage, (FilePiece(best.keys[0], 0, best.size),))
    sizes = [storage.size(key) or 0 for key in best.keys]
    pieces = tuple(FilePiece(key, 0, size) for key, size in zip(best.keys, sizes, strict=True))
    return best, Joined(storage, pieces)


def _find_whole(store: Store, job: Job, step: int, task: int | None = None) -> Whole:
    wholes = [each for each in checkpoints.gather(store.checkpoints(job.id), Gang.of(job.spec)) if each.complete]
    whole = next((each for each in reversed(wholes) if each.step == step), None)
    if whole is None or (task is not None and all(part.task != task for part in whole.parts)):
        there = checkpoints.steps_there(each.step for each in wholes)
        raise NotFound(f"{job.id} has no complete checkpoint at step {step}", there)
    return whole


def show_checkpoint_files(
    store: Store, storage: Storage, job: Job, step: int, parts: bool = False
) -> list[dict[str, Any]]:
    """The files of a checkpoint: of each task that saved, their paths and sizes; with their parts, all of them."""
    shown = []
    for part in _find_whole(store, job, step).parts:
        files = json.loads(storage.get(part.key))["files"]
        for file in files if parts else files[:FILES_SHOWN]:
            pieces = [{"size": each["size"], "sha256": each["sha256"]} for each in file["parts"]] if parts else None
            one = {"task": part.task, "path": file["path"], "size": file["size"]}
            shown.append(one if pieces is None else {**one, "parts": pieces})
    return shown


def find_checkpoint_file(store: Store, storage: Storage, job: Job, step: int, task: int, path: str) -> Joined:
    """One file of a checkpoint, as its manifest says where it lies."""
    whole = _find_whole(store, job, step, task)
    manifest = json.loads(storage.get(next(part.key for part in whole.parts if part.task == task)))
    for file in manifest["files"]:
        if file["path"] == path:
            return Joined(
                storage, tuple(FilePiece(part["key"], part["offset"], part["size"]) for part in file["parts"])
            )
    there = ", ".join(file["path"] for file in manifest["files"][:5])
    raise NotFound(f'the checkpoint at step {step} has no file "{path[:200]}"', f"it has {there}" if there else "")
