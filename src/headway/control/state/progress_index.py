"""What the leader remembers of progress: checkpoints, steps seen, what is being prepared, who waits how long.

A part of the book. Checkpoints are the store's, remembered for jobs that use them; the rest is memory only and may be
lost. A job that has none of this is in none of these indexes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from headway.core.files import checkpoints
from headway.core.files.checkpoints import Checkpoint, Gang, Whole
from headway.core.model import Job, JobId, State
from headway.core.spec.program import PLAIN
from headway.core.units import show_size
from headway.store.protocol import Store

Heard = dict[JobId, dict[tuple[int, int], int]]
"""By job, attempt and task: the newest step that others had saved."""


@dataclass
class ProgressIndex:
    store: Store | None = None
    known: dict[JobId, tuple[Checkpoint, ...]] = field(default_factory=dict)
    seen: dict[JobId, int] = field(default_factory=dict)  # Steps that were seen and are not saved yet.
    preparing: dict[JobId, tuple[float, str]] = field(default_factory=dict)  # When an agent last said so, and what.
    spoiled: dict[JobId, int] = field(default_factory=dict)  # How often its claim was changed by a damaged checkpoint.
    saving: dict[JobId, dict[int, tuple[int, int]]] = field(default_factory=dict)  # By task: bytes in storage, and all.
    asked: dict[JobId, tuple[int, int, frozenset[int]]] = field(default_factory=dict)
    # Whose tasks have said whether they save: attempt, the newest step of the others, and which tasks are asked.
    idle: Heard = field(default_factory=dict)  # Who had written nothing, having heard of what,
    still_idle: Heard = field(default_factory=dict)  # and who still had not later.
    pending: dict[JobId, float] = field(default_factory=dict)  # Queued jobs with a limit: until when they wait.

    def checkpoints_of(self, job: JobId) -> tuple[Checkpoint, ...]:
        known = self.known.get(job)
        if known is None:
            known = tuple(self.store.checkpoints(job)) if self.store is not None else ()
            self.known[job] = known
        return known

    def put(self, job: JobId, entries: Iterable[Checkpoint]) -> None:
        """Take over checkpoints that are new or changed; the same id replaces what was there."""
        kept = {each.id: each for each in self.checkpoints_of(job)}
        kept.update((each.id, each) for each in entries)
        self.known[job] = tuple(kept.values())

    def drop(self, job: JobId, entries: Iterable[Checkpoint]) -> None:
        gone = {each.id for each in entries}
        self.known[job] = tuple(each for each in self.checkpoints_of(job) if each.id not in gone)

    def take_over(self, older: ProgressIndex, jobs: Container[JobId]) -> None:
        """Keep what only memory holds when all else is read again."""
        self.seen.update((job, step) for job, step in older.seen.items() if job in jobs)
        self.preparing.update((job, said) for job, said in older.preparing.items() if job in jobs)
        self.spoiled.update((job, count) for job, count in older.spoiled.items() if job in jobs)
        self.idle.update((job, said) for job, said in older.idle.items() if job in jobs)
        self.still_idle.update((job, said) for job, said in older.still_idle.items() if job in jobs)
        self.asked.update((job, said) for job, said in older.asked.items() if job in jobs)

    def saved(self, job: JobId) -> str:
        """How far the files of its tasks have come that are over; empty where nobody told."""
        told = self.saving.get(job, {}).values()
        total = sum(each[1] for each in told)
        return f"{show_size(sum(each[0] for each in told))} of {show_size(total)}" if total else ""

    def forget(self, job: JobId) -> None:
        """The store knows better: read it again when somebody asks."""
        self.known.pop(job, None)

    def newest(self, job: Job) -> Whole | None:
        """The checkpoint that the next attempt goes on from."""
        if job.number == 0 and job.spec.progress.resume_from is None:
            return None
        return checkpoints.newest(self.checkpoints_of(job.id), Gang.of(job.spec))

    def step_for(self, job: Job) -> int | None:
        found = self.newest(job)
        return found.step if found else None

    def resume_of(self, job: Job) -> Whole | None:
        """The checkpoint that the newest attempt goes on from."""
        step = job.attempt.resumed_step if job.attempt else None
        if step is None:
            return None
        return checkpoints.at_step(self.checkpoints_of(job.id), Gang.of(job.spec), step)

    def saw(self, after: Job | None, before: Job | None) -> None:
        """A job changed: what is remembered of it may be over."""
        job = after or before
        assert job is not None
        if after is None or after.state.ended:
            for index in (
                self.known, self.seen, self.preparing, self.spoiled, self.saving, self.pending, self.asked, self.idle,
                self.still_idle,
            ):  # fmt: skip
                if index:
                    index.pop(job.id, None)
            return
        if self.saving and after.state in (State.QUEUED, State.STARTING):
            self.saving.pop(job.id, None)
        if self.preparing and after.state is not State.STARTING:
            self.preparing.pop(job.id, None)
        if after.spec.progress is not PLAIN:
            self._note_pending(after)

    def _note_pending(self, job: Job) -> None:
        limit_s = job.spec.progress.limits.pending_s
        if limit_s is None:
            return
        if job.state is State.QUEUED:
            since = max(job.submitted_at, (job.attempt.ended_at if job.attempt else None) or 0.0, job.not_before)
            self.pending[job.id] = since + limit_s
        else:
            self.pending.pop(job.id, None)
