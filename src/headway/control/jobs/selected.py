"""The same command for many jobs, found by what they are: which jobs a verb is for, and what came of it.

The store finds them, a page at a time, so that neither a list of a hundred thousand nor a long turn of the leader comes
of it. What is refused for one job is told, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from headway.control.state.transaction import Transaction
from headway.control.views.selection import BADLY, ENDED, OPEN
from headway.core.errors import BadInput, UserError
from headway.core.job.signals import Tagged
from headway.core.model import Job, JobId
from headway.core.spec.job import read_tags
from headway.store.protocol import JobFilter

AT_ONCE_MOST = 200
REFUSED_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Verb:
    """What may be done to many: to those in which states, and to which of them if nobody says."""

    states: frozenset[str]
    usual: frozenset[str]
    says: str


VERBS: dict[str, Verb] = {
    "stop": Verb(OPEN, OPEN, "only unfinished jobs can be stopped"),
    "rm": Verb(ENDED, ENDED, "only ended jobs can be deleted"),
    "retry": Verb(ENDED | {"queued"}, BADLY, "only ended jobs, and queued ones that back off, can be retried"),
    "tag": Verb(OPEN | ENDED, frozenset(), ""),
}


def narrowed(which: JobFilter, verb: str) -> JobFilter:
    """The selection without those for which a verb means nothing. What is retried is not retried again."""
    rule = VERBS[verb]
    wanted = which.states & rule.states if which.states else rule.usual
    if which.states and not wanted:
        said = " or ".join(sorted(which.states))
        raise BadInput(f"{verb}: nothing that is {said}: {rule.says}", "leave --state out, or choose another")
    return replace(which, states=wanted, unretried=which.unretried or verb == "retry")


class Command(Protocol):
    def apply(self, tx: Transaction) -> Any: ...


@dataclass(frozen=True, slots=True)
class Each:
    """One command for each of these jobs. Answers what was done, and why what was refused."""

    jobs: tuple[JobId, ...]
    make: Callable[[JobId], Command]

    def apply(self, tx: Transaction) -> dict[str, Any]:
        done: list[JobId] = []
        refused: list[dict[str, str]] = []
        for job in self.jobs:
            try:
                made = self.make(job).apply(tx)
            except UserError as error:
                refused.append({"id": job, "message": error.message})
            else:
                done.append(made if isinstance(made, str) else job)
        return {"done": done, "refused": refused[:REFUSED_SHOWN], "refused_count": len(refused)}


@dataclass(frozen=True, slots=True)
class Tag:
    """Change the tags of a job, whatever its state: null takes one away."""

    job: JobId
    changes: Mapping[str, str | None]

    def apply(self, tx: Transaction) -> Job:
        job = tx.get(self.job)
        tags = {**dict(job.spec.tags), **self.changes}
        kept = {key: value for key, value in tags.items() if value is not None}
        return tx.step(job, Tagged(read_tags(kept)))
