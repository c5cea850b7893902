"""Checkpoints, artifacts and what jobs use in memory: the part of store.py that knows files."""

from __future__ import annotations

import threading
from dataclasses import replace

from headway.core.files.checkpoints import Checkpoint
from headway.core.model import Job, JobId, Phase
from headway.store.protocol import Artifact, Files, SharesUsed

TaskRef = tuple[JobId, int, int]
FENCED = frozenset({Phase.LOST, Phase.RELEASED})


class MemoryFiles:
    """To be inherited beside the jobs: the fence asks about them."""

    _lock: threading.RLock
    _jobs: dict[JobId, Job]

    def __init__(self) -> None:
        self._checkpoints: dict[JobId, dict[tuple[int, int, int], Checkpoint]] = {}
        self._artifacts: dict[JobId, dict[tuple[int, int, str], Artifact]] = {}
        self._uses: dict[JobId, dict[SharesUsed, None]] = {}

    # --- writing, under the lock ---
    def _open_tasks(self, files: Files) -> set[TaskRef]:
        """The tasks that may write, before this batch changes any job; (job, 0, 0) for a job without attempts."""
        open_tasks: set[TaskRef] = set()
        for id in {entry.job for part in (files.checkpoints, files.artifacts) for entry in part}:
            job = self._jobs.get(id)
            if job is None or job.attempt is None:
                open_tasks.add((id, 0, 0))
            elif job.attempt.ended_at is None:
                tasks = [task for task in job.attempt.tasks if task.phase not in FENCED]
                open_tasks.update((id, job.number, task.index) for task in tasks)
        return open_tasks

    def _save_files(self, files: Files, open_tasks: set[TaskRef]) -> set[JobId]:
        fenced: set[JobId] = set()
        for entry in files.checkpoints:
            task = entry.task if entry.attempt else 0
            if entry.job in self._jobs and (entry.job, entry.attempt, task) in open_tasks:
                self._checkpoints.setdefault(entry.job, {})[entry.id[1:]] = entry
            else:
                fenced.add(entry.job)
        for kept in files.artifacts:
            if kept.job in self._jobs and kept.attempt and (kept.job, kept.attempt, kept.task) in open_tasks:
                self._artifacts.setdefault(kept.job, {})[kept.attempt, kept.task, kept.path] = kept
            else:
                fenced.add(kept.job)
        for entry in files.changed:
            there = self._checkpoints.get(entry.job, {}).get(entry.id[1:])
            if there is not None:
                changed = replace(there, state=entry.state, pinned=entry.pinned, savers=entry.savers)
                self._checkpoints[entry.job][entry.id[1:]] = changed
        for entry in files.dropped:
            self._checkpoints.get(entry.job, {}).pop(entry.id[1:], None)
        for use in files.uses:
            if use.job in self._jobs:
                self._uses.setdefault(use.job, {})[use] = None
        return fenced

    def _forget_files(self, job: JobId) -> None:
        self._checkpoints.pop(job, None)
        self._artifacts.pop(job, None)
        self._uses.pop(job, None)

    # --- reading ---
    def checkpoints(self, job: JobId) -> list[Checkpoint]:
        with self._lock:
            found = self._checkpoints.get(job, {}).values()
            return sorted(found, key=lambda each: (each.attempt, each.step, each.task))

    def checkpoints_under(self, prefix: str) -> list[Checkpoint]:
        with self._lock:
            every = [each for of_job in self._checkpoints.values() for each in of_job.values()]
            found = [each for each in every if each.key.startswith(prefix)]
            return sorted(found, key=lambda each: (each.key, self._jobs[each.job].seq, each.attempt))

    def artifacts(self, job: JobId, attempt: int | None = None) -> list[Artifact]:
        with self._lock:
            index = self._artifacts.get(job, {})
            return [index[at] for at in sorted(index) if attempt is None or at[0] == attempt]

    def uses(self, job: JobId) -> list[SharesUsed]:
        with self._lock:
            return sorted(self._uses.get(job, ()), key=lambda use: (use.kind, use.name))

    def users(self, kind: str, name: str) -> list[JobId]:
        with self._lock:
            found = [job for job, uses in self._uses.items() if any((u.kind, u.name) == (kind, name) for u in uses)]
            return sorted(found, key=lambda job: self._jobs[job].seq)
