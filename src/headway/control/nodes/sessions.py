"""What the leader remembers of each node between two syncs: when it was heard, which duties it was last sent.

Memory only: after a start everything here begins anew, and the next sync of each node fills it again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from headway.control.nodes.duties import claim_of
from headway.control.state.working_copy import WorkingCopy
from headway.core.job.lifecycle import ON_NODE, begins_alone
from headway.core.model import Job, NodeId, State, Task
from headway_wire.claim import Claim
from headway_wire.digests import share
from headway_wire.kinds import replace
from headway_wire.reply import BACK, CLAIM, GO, STOP, Duty, Reply
from headway_wire.tasks import task_key

log = structlog.get_logger()


@dataclass
class Parked:
    """A sync whose reply waits until there is something to say."""

    deliver: Callable[[Reply], None]
    until: float
    agent_epoch: int = 0


@dataclass
class Session:
    node: NodeId
    boot_id: str = ""
    agent_epoch: int = 0
    seq: int = 0  # Of the newest call of this agent that was heard.
    met_later: int = 0  # A later leader than this one that it has heard, and that the log tells of.
    heard_at: float = 0.0
    leased_until: float = 0.0  # The end of the longest lease that it may hold: a shorter one may not have reached it.
    silent: bool = False
    closed_because: str = ""  # Why nothing is placed there although it is heard, such as a notice.
    servers: tuple[str, ...] = ()  # All servers, as this node was told.
    said: int = 0  # How many replies were made: two calls may be answered at once, and their replies overtake.
    sent: dict[str, tuple[str, float]] = field(default_factory=dict)  # Wire key -> (what to do, grace).
    sent_digest: int = 0
    marks: bool = False  # Whether this agent digests a duty's mark, not only its word.
    reported: dict[str, str] = field(default_factory=dict)  # Wire key -> phase that the agent reported.
    reported_digest: int = 0
    follow: frozenset[str] = frozenset()
    troubles: dict[str, str] = field(default_factory=dict)  # What the node says is wrong there now.
    asked: dict[str, int] = field(
        default_factory=dict
    )  # Of which tasks it was asked whether they save: saver_questions.py.
    parked: list[Parked] = field(default_factory=list)

    @property
    def closed(self) -> str:
        """Why nothing is placed on this node; empty when something may be."""
        return "silent" if self.silent else self.closed_because

    def report(self, key: str, phase: str) -> None:
        old = self.reported.get(key)
        if old is not None:
            self.reported_digest ^= share(key, old)
        self.reported[key] = phase
        self.reported_digest ^= share(key, phase)

    def forget(self, key: str) -> None:
        old = self.reported.pop(key, None)
        if old is not None:
            self.reported_digest ^= share(key, old)

    def forget_reports(self) -> None:
        self.reported.clear()
        self.reported_digest = 0

    def meets(self, leader: int, epoch: int) -> None:
        """It has heard this leader before it calls one of this epoch. What should not be is written down, once."""
        if leader > epoch and leader != self.met_later:
            self.met_later = leader
            log.warning(
                "a node has heard a later leader than this server: is this database a restored one, or a copy? "
                "The node takes it for the right one once no later leader has answered it for some seconds",
                node=self.node, its_leader=leader, epoch=epoch,
            )  # fmt: skip

    def digests_marks(self, marks: bool) -> None:
        """What the agent says of itself: an older one digests the words alone."""
        if marks != self.marks:
            self.marks, self.sent_digest = marks, 0
            for key, duty in self.sent.items():
                self.sent_digest ^= share(key, self.digested(duty))

    def digested(self, duty: tuple[str, float]) -> str:
        return mark_of(duty) if self.marks else duty[0]

    def send(self, key: str, duty: tuple[str, float]) -> None:
        self.unsend(key)
        self.sent[key] = duty
        self.sent_digest ^= share(key, self.digested(duty))

    def unsend(self, key: str) -> None:
        old = self.sent.pop(key, None)
        if old is not None:
            self.sent_digest ^= share(key, self.digested(old))


def mark_of(duty: tuple[str, float]) -> str:
    """All that tells a duty from the one before it: a stop whose grace was shortened is another stop."""
    return f"{duty[0]} {duty[1]:.1f}" if duty[1] else duty[0]


def duty_of(job: Job, task: Task, now: float, spoiled: int = 0, called_back: bool = False) -> tuple[str, float]:
    """What the node shall do about this task: the word, and for a stop the grace that is left.

    A claim that was changed because its checkpoint is damaged (`spoiled` times) is another duty, and is sent again.
    """
    if job.state is State.STOPPING:
        # Rounded, so that the same stop is not sent again because a second has passed.
        return (STOP, round(job.stop_by or now, 1))
    if task.behind:
        return (BACK, 0.0) if called_back else (f"{CLAIM} behind {task.behind}", 0.0)
    return (GO, 0.0) if task.phase in ON_NODE else (CLAIM, float(spoiled))


def duty_with(job: Job, task: Task, duty: tuple[str, float], now: float, claim: Claim | None, mark: str) -> Duty:
    """The duty as it travels. With a `claim` it says all that the task is: to begin with, or to one who forgot it."""
    assert job.attempt is not None
    do, key = duty[0].partition(" ")[0], task_key(job.id, job.number, task.index)
    if do in (CLAIM, BACK):
        return Duty(key, do, claim, mark=mark)
    several = job.spec.nodes * job.spec.ranks_per_node > 1
    stops = do == STOP
    return Duty(
        key,
        do,
        claim,
        peers=tuple((each.address, each.port) for each in job.attempt.tasks),
        gang=(job.spec.ranks_per_node, task.index) if several else (),
        grace_s=max(0.0, duty[1] - now) if stops else None,  # What is left of it, not what the claim says.
        cause=job.cause.value if stops and job.cause else "",
        mark=mark,
    )


def claim_with(job: Job, task: Task, do: str, complete: bool, book: WorkingCopy) -> Claim | None:
    """All that the task is, where a duty says it: a claim does, and all others do where the reply is `complete`."""
    if do == BACK or not (do == CLAIM or complete):
        return None
    claim = claim_of(job, task, book.trail.resume_of(job))
    if job.spec.launcher == "mpi":
        claim = replace(claim, gang_key=gang_key(book.secret, job))
    if do == CLAIM and begins_alone(job):  # Once it is held, or after the task before it.
        claim = replace(claim, go=not task.behind, behind=task.behind)
    return claim


def gang_key(secret: bytes, job: Job) -> str:
    """What the tasks of one attempt prove to each other that they belong together. The same from any server."""
    return hmac.new(secret, f"gang {job.id}/{job.number}".encode(), hashlib.sha256).hexdigest()


def changes(session: Session, book: WorkingCopy, now: float, full: bool) -> tuple[tuple[Duty, ...], tuple[str, ...]]:
    """Duties that this node was not sent yet, and tasks that are gone; noted as sent."""
    here = book.on_node.get(session.node, {})
    duties: list[Duty] = []
    spoiled = book.trail.spoiled
    if full:
        session.sent, session.sent_digest = {}, 0
    for key, (job_id, index) in here.items():
        job = book.jobs[job_id]
        assert job.attempt is not None
        task = job.attempt.tasks[index]
        duty = duty_of(job, task, now, spoiled.get(job_id, 0) if spoiled else 0, job_id in book.called_back)
        if session.sent.get(key) != duty:
            claim = claim_with(job, task, duty[0].partition(" ")[0], full, book)
            duties.append(duty_with(job, task, duty, now, claim, mark_of(duty) if session.marks else ""))
            session.send(key, duty)
            book.untold.discard(job_id)
    gone = [key for key in session.sent if key not in here] if len(session.sent) != len(here) else []
    # What a node has though nobody wants it any more: its keeper died before it heard that it may forget it.
    strays = len(session.reported) > len(here)
    gone += [key for key in session.reported if key not in here and key not in session.sent] if strays else []
    for key in gone:
        session.unsend(key)
    return tuple(duties), tuple(gone)
