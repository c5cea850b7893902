"""Who waits for whose end. Indexed: an end wakes exactly those who wait for it.

An array is named by its id and has ended when no member of it is open. How a job ended that the index has never seen
must be told from outside (`resolve`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headway.core.model import Job, JobId, State
from headway.core.spec.scheduling import After

MET, OPEN, NEVER = "met", "open", "never"


@dataclass
class Dependencies:
    """Jobs that wait for others, both ways round."""

    _waits: dict[JobId, dict[JobId, After]] = field(default_factory=dict)  # Who still waits, and for what.
    _heirs: dict[JobId, dict[JobId, None]] = field(default_factory=dict)  # Who waits for this job or array.
    _open: set[JobId] = field(default_factory=set)  # Jobs that have not ended.
    _members: dict[JobId, int] = field(default_factory=dict)  # Arrays, and how many members of them have not ended.
    _spoilt: set[JobId] = field(default_factory=set)  # Arrays with members that ended without success.
    unresolved: set[JobId] = field(default_factory=set)
    never: dict[JobId, str] = field(default_factory=dict)  # Who waits in vain, and why.
    needless: set[JobId] = field(default_factory=set)  # Those of them whom nothing that failed keeps from running.

    def opened(self, job: Job) -> None:
        """A job that has not ended appeared."""
        self._open.add(job.id)
        self.unresolved.discard(job.id)
        if job.array_id:
            self._members[job.array_id] = self._members.get(job.array_id, 0) + 1

    def closed(self, job: Job, state: State | None) -> list[JobId]:
        """A job ended (or is gone, when no state is given). Returns those who may go now."""
        self._open.discard(job.id)
        woken = self._settle(job.id, state) if job.id in self._heirs else []
        array = job.array_id
        if array and array in self._members:
            if state is not State.SUCCEEDED:
                self._spoilt.add(array)
            self._members[array] -= 1
            if not self._members[array]:
                del self._members[array]
                spoilt = array in self._spoilt
                self._spoilt.discard(array)
                woken += self._settle(array, State.FAILED if spoilt else State.SUCCEEDED)
        return woken

    def enter(self, job: Job) -> bool:
        """Take in a waiting job. Says whether it has to wait for others."""
        known = self._waits.get(job.id)
        if known is not None:
            return bool(known)
        open_ = {each.job: each for each in job.spec.wishes.after}
        if not open_ or job.number:  # Whoever was placed before had nothing to wait for any more.
            return False
        self._waits[job.id] = open_
        for name in open_:
            self._heirs.setdefault(name, {})[job.id] = None
            if name not in self._open:
                self.unresolved.add(name)
        cycle = self._cycle(job.id)
        if cycle:
            self.never[job.id] = "it waits for itself: " + ", which waits for ".join(cycle)
        return True

    def waits_for(self, job: JobId) -> tuple[After, ...]:
        return tuple(self._waits.get(job, {}).values())

    def leave(self, job: JobId) -> None:
        """It ended or is gone, and waits no more."""
        for name in self._waits.pop(job, {}):
            heirs = self._heirs.get(name)
            if heirs is not None:
                heirs.pop(job, None)
                if not heirs:
                    del self._heirs[name]
                    self.unresolved.discard(name)
        self.never.pop(job, None)
        self.needless.discard(job)

    def resolve(self, name: JobId, state: State | None) -> list[JobId]:
        """Say how a job or array ended that was over before it was seen here; None: there is none of that name.

        Of an array that goes on, FAILED says that a member ended badly before it was seen here.
        """
        self.unresolved.discard(name)
        if name in self._members and state is State.FAILED:
            self._spoilt.add(name)
        if name in self._open or name in self._members or (state is not None and not state.ended):
            return []
        return self._settle(name, state)

    def _settle(self, name: JobId, state: State | None) -> list[JobId]:
        woken = []
        for heir in self._heirs.pop(name, {}):
            waits = self._waits.get(heir, {})
            after = waits.get(name)
            if after is None:
                continue
            verdict = judge(after, state)
            if verdict == MET:
                del waits[name]
                if not waits:
                    woken.append(heir)
            else:
                self._in_vain(heir, after, state)
        self.unresolved.discard(name)
        return woken

    def _in_vain(self, heir: JobId, after: After, state: State | None) -> None:
        """Who waits in vain for several is told of the first; and a failure among them outweighs all others."""
        if is_needless(after, state):
            if heir not in self.never:
                self.never[heir] = in_vain(after, state)
                self.needless.add(heir)
        elif heir not in self.never or heir in self.needless:
            self.never[heir] = in_vain(after, state)
            self.needless.discard(heir)

    def _cycle(self, job: JobId) -> tuple[JobId, ...]:
        reach: dict[JobId, Sequence[JobId]] = {}
        stack = [job]
        while stack:
            at = stack.pop()
            if at not in reach:
                reach[at] = tuple(self._waits.get(at, ()))
                stack.extend(reach[at])
        return cycle_in(reach, job)


def judge(after: After, state: State | None) -> str:
    """What an end means for one who waits for it."""
    if state is None:
        return NEVER
    if not state.ended:
        return OPEN
    good = state is State.SUCCEEDED
    return MET if after.when == "any" or (after.when == "ok") == good else NEVER


def is_needless(after: After, state: State | None) -> bool:
    """Whether one who waits for this in vain has nothing to do, rather than nothing to stand on."""
    if state is State.SUCCEEDED:
        return after.when == "failed"
    return state is State.CANCELLED


def in_vain(after: After, state: State | None) -> str:
    if state is None:
        return f"it waits for {after.job}, and there is no such job"
    wanted = "success" if after.when == "ok" else "failure"
    ended = "succeeded" if state is State.SUCCEEDED else f"ended as {state.value}"
    return f"it waits for the {wanted} of {after.job}, which {ended}"


def cycle_in(graph: Mapping[JobId, Sequence[JobId]], start: JobId | None = None) -> tuple[JobId, ...]:
    """The ids of a cycle in who waits for whom, first and last the same; none when there is no cycle."""
    done: set[JobId] = set()
    for first in [start] if start is not None else sorted(graph):
        path: dict[JobId, None] = {}
        stack: list[tuple[JobId, int]] = [(first, 0)]
        while stack:
            at, number = stack.pop()
            if number == 0:
                if at in path:
                    members = list(path)
                    return (*members[members.index(at) :], at)
                if at in done:
                    continue
                path[at] = None
            nexts = graph.get(at, ())
            if number < len(nexts):
                stack.append((at, number + 1))
                stack.append((nexts[number], 0))
            else:
                path.pop(at, None)
                done.add(at)
    return ()
