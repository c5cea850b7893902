"""Collects what nobody needs: objects that no committed manifest, or artifact names any more.

Mark, then sweep, one job at a time. Two rules keep it safe. In the folder of an attempt that goes on, only what
retention itself let go is deleted: all else may be about to be named. Elsewhere an object must have lain unnamed for
ORPHAN_S. An agent names again only parts of its newest manifest, which retention never lets go (parts.py).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import structlog

from headway.control.state.leader_calls import Control
from headway.core.errors import HeadwayError, NotFound, for_log
from headway.core.files.checkpoints import Checkpoint
from headway.core.model import JobId
from headway.storage.protocol import Kept, Storage
from headway.store.protocol import Store
from headway_wire.manifest_seal import is_whole

log = structlog.get_logger()

REST_S = 60.0  # How long a checkpoint that was let go stays, for those who have just begun to read it.
ORPHAN_S = 3600.0
SWEEP_EVERY_S = 1800.0
DELETED_AT_ONCE = 500
SHORT_LIVED = ("parts", "checkpoints", "output")  # Folders whose unnamed objects go while the job is remembered.


class UnsureManifest(HeadwayError):
    """A manifest could not be read, so nobody can say what it names. Nothing of that job is deleted."""


class Collecting:
    def __init__(
        self,
        store: Store,
        storage: Storage,
        control: Control,
        now: Callable[[], float] = time.time,
        mono: Callable[[], float] = time.monotonic,
        also: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._also = also
        self._store = store
        self._storage = storage
        self._control = control
        self._now = now
        self._mono = mono
        self._lock = threading.Lock()
        self._dropped: dict[str, tuple[Checkpoint, float, float]] = {}  # Manifest -> which, since (monotonic, wall).
        self._clean: dict[JobId, tuple[object, ...]] = {}  # Jobs at rest that were looked through, as they were then.
        self._swept_at: float | None = None

    def dropped(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Take note of what retention let go. Called after every commit that did."""
        mono, now = self._mono(), self._now()
        with self._lock:
            for each in checkpoints:
                self._dropped[each.key] = (each, mono, now)

    def collect_unnamed(self) -> None:
        """Delete what was let go a while ago, and now and then look through everything."""
        self.delete_dropped()
        mono = self._mono()
        if self._swept_at is None or mono - self._swept_at >= SWEEP_EVERY_S:
            self._swept_at = mono
            self.sweep()

    # --- what retention let go ----------------------------------------------------------------------------------------

    def delete_dropped(self) -> None:
        mono = self._mono()
        with self._lock:
            due = [key for key, (_, since, _) in self._dropped.items() if mono - since >= REST_S]
            taken = {key: self._dropped.pop(key) for key in due}
        by_job: dict[JobId, dict[str, float]] = {}
        for key, (_, _, at) in taken.items():
            by_job.setdefault(owner(key), {})[key] = at
        for job, manifests in by_job.items():
            try:
                self._delete_manifests(job, manifests)
            except HeadwayError as error:
                log.warning("checkpoints not collected", job=job, error=for_log(error))

    def _delete_manifests(self, job: JobId, manifests: dict[str, float]) -> None:
        named = self.named(job)
        gone: dict[str, float] = {}
        for key, at in manifests.items():
            if key not in named:
                gone |= dict.fromkeys((part for part in self._parts(key, missing_is_empty=True)), at)
                gone[key] = at
        doomed = [key for key in gone if key not in named and owner(key) == job]
        # An object that was written after its checkpoint was let go is another one under the same name.
        old = [kept.key for kept in self._listed(doomed) if kept.at <= gone[kept.key] + 1.0]
        self._delete(job, old)

    def _listed(self, keys: list[str]) -> Iterator[Kept]:
        wanted = set(keys)
        for folder in sorted({key.rpartition("/")[0] for key in keys}):
            yield from (kept for kept in self._storage.list(folder) if kept.key in wanted)

    # --- everything ---------------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Look through all jobs' objects, and let features look through theirs."""
        for job, group in groupby(self._storage.list("jobs"), key=lambda kept: owner(kept.key)):
            try:
                self.collect(job, list(group))
            except HeadwayError as error:
                log.warning("job not collected", job=job, error=for_log(error))
        for sweep in self._also:
            sweep()

    def collect(self, job: JobId, objects: list[Kept]) -> None:
        """Delete what nobody names among the objects of one job."""
        found = self._store.jobs([job])
        alive = found[0].number if found and found[0].alive else None
        users, under = self._store.users("origin", job), self._store.checkpoints_under(f"jobs/{job}/")
        mark = (len(objects), _mark(objects), bool(found), len(under), tuple(users))
        if alive is None and self._clean.get(job) == mark:
            return
        old = [kept.key for kept in objects if self._now() - kept.at > ORPHAN_S]
        candidates = [key for key in old if self._may_go(key, bool(found), alive)]
        named = self.named(job) if candidates else set()
        gone = [key for key in candidates if key not in named]
        self._delete(job, gone)
        if alive is None and len(old) == len(objects) and not gone:
            self._clean[job] = mark

    def _may_go(self, key: str, known: bool, alive: int | None) -> bool:
        _, _, attempt, folder, *_ = [*key.split("/"), "", ""]
        if not known:
            return True
        return folder in SHORT_LIVED and attempt != str(alive)

    def named(self, job: JobId) -> set[str]:
        """Every object of this job that something committed names: manifests, their parts, artifacts."""
        users = self._store.users("origin", job)
        rows = [*self._store.checkpoints_under(f"jobs/{job}/"), *self._store.checkpoints(job)]
        rows += [each for user in users for each in self._store.checkpoints(user)]
        manifests = {each.key for each in rows}
        keys = set(manifests)
        for manifest in manifests:
            keys.update(self._parts(manifest))
        keys.update(key for artifact in self._store.artifacts(job) for key in artifact.keys)
        return keys

    def _parts(self, manifest: str, missing_is_empty: bool = False) -> list[str]:
        try:
            content = self._storage.get(manifest)
            if not is_whole(content):
                raise ValueError("it is not what was stored")
            found: Any = json.loads(content)
            return [part["key"] for file in found["files"] for part in file["parts"]]
        except NotFound:
            if missing_is_empty:
                return []
            raise UnsureManifest(f'the manifest "{manifest}" is committed and missing') from None
        except (ValueError, KeyError, TypeError) as error:
            raise UnsureManifest(f'the manifest "{manifest}" cannot be read: {error!r}') from None

    def _delete(self, job: JobId, keys: list[str]) -> None:
        for at in range(0, len(keys), DELETED_AT_ONCE):
            self._storage.delete(keys[at : at + DELETED_AT_ONCE])
        if keys:
            self._clean.pop(job, None)
            log.info("objects collected", job=job, count=len(keys))


def owner(key: str) -> JobId:
    """The job in whose folder an object lies."""
    return key.split("/")[1] if "/" in key else ""


def _mark(objects: Iterable[Kept]) -> int:
    mark = 0
    for kept in objects:
        mark ^= hash(kept.key)
    return mark
