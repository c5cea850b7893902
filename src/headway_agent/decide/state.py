"""What the agent knows of its node between two facts: its tasks, the requests under way, what is still to be said.

Only data. decide.py changes it, sync_request.py makes the requests out of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headway_agent.decide.outcomes import Exit
from headway_agent.decide.unconfirmed_files import Told, UnconfirmedFiles
from headway_wire.claim import Claim
from headway_wire.reply import GO, Duty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping

    from headway_agent.decide.node_features import NodeFeature
    from headway_wire.sync import OutputRange, TaskOutcome

HOLDING = "holding"  # The keeper is being told of it.
PREPARING = "preparing"  # Its checkpoint, environment or inputs are being fetched; the keeper knows nothing of it.
CLAIMED = "claimed"  # The keeper holds it; not a line of it runs before `go`.
LINED = "lined"  # The keeper holds it; it begins when the task before it has ended. Not told.
GOING = "going"  # `go` was acted on: its ranks may be alive.
OVER = "over"  # Nothing of it is alive; its output is not yet all in storage.
ENDED = "ended"  # The end can be reported.
REFUSED = "refused"
UNPREPARED = "unprepared"  # What it needs cannot be had, here or elsewhere.

# What the server is told about each phase. What is missing here is not reported at all.
REPORTED = {
    PREPARING: "preparing",
    CLAIMED: "claimed",
    GOING: "running",
    OVER: "running",
    ENDED: "ended",
    REFUSED: "refused",
    UNPREPARED: "failed_prepare",
}


@dataclass
class NodeTask:
    key: str
    phase: str
    claim: Claim | None = None  # Kept until `go`; afterwards the keeper knows all, and little of it is left here.
    address: str = ""
    port: int = 0
    detail: str = ""
    cause: str = ""  # Why it could not be prepared.
    held: bool = True  # False once it was claimed and a new keeper could not take it.
    anew: bool = False  # It was claimed, and is being prepared for a new keeper.
    started_at: float = 0.0
    began_s: float = 0.0  # When its ranks were told to begin.
    exits: list[Exit] = field(default_factory=list)  # In the order in which the keeper saw them.
    stopped: bool = False  # The server asked for its end.
    stop_grace_s: float | None = None
    shipped: dict[str, int] = field(default_factory=dict)  # By rank/stream: what is in storage.
    resumable: bool = True  # False until the server said from where on output is missing there.
    sizes: Mapping[str, int] = field(default_factory=dict)
    outcome: TaskOutcome | None = None
    over_s: float = 0.0  # When nothing of it was alive any more.
    saves: bool = False  # And the server is told so: keeping what it left takes its time.
    files_lost: bool = False  # The machine went before all of it was kept.
    failed_s: float = 0.0  # When the first of its ranks failed by itself.
    reclaimed: bool = False  # The machine's own notice ended it.
    stays: tuple[TaskOutcome, float] | None = None  # How it failed, and until when its place is kept.
    notice: tuple[str, float] | None = None  # Why its ranks were told to end, and when their grace is over.
    warned: bool = False  # An earlier agent told them.
    writes: bool = False  # It has begun to write something that is kept, or may have: an earlier agent would know.

    @property
    def behind(self) -> str:
        """The task after whose end it begins."""
        return self.claim.behind if self.claim else ""

    @property
    def ran(self) -> bool:
        """Whether something of it ran here. What never did may have waited for a place: only the server knows."""
        return bool(self.exits or self.started_at or self.began_s)

    @property
    def begins(self) -> bool:
        """Whether it begins by itself once the keeper holds it."""
        return self.claim is not None and self.claim.go

    def resumes_elsewhere(self, claim: Claim) -> bool:
        """Whether one that waits to be restored is, by this claim, to be restored from another checkpoint."""
        if self.phase not in (HOLDING, PREPARING) or self.claim is None:
            return False
        before, after = self.claim.resume, claim.resume
        return (before and (before.key, before.others)) != (after and (after.key, after.others))

    @property
    def grace_s(self) -> float:
        return self.claim.grace_s if self.claim else 30.0


@dataclass
class Flight:
    """A request under way: what to say again if no reply comes."""

    sent_s: float
    full: bool
    held: bool  # The server may keep it waiting.
    reports: dict[str, bool]
    ranges: list[OutputRange]
    troubles: bool = False
    progress: Told = field(default_factory=Told)


@dataclass
class NodeState:
    node: str
    pool: str
    boot_id: str = ""
    agent_epoch: int = 1
    agent_version: str = ""
    leader_epoch: int = 0
    said: int = 0  # The newest reply of this leader that was applied.
    leader_heard_s: float = 0.0  # When this leader, or a later one, last answered.
    older_since_s: float = 0.0  # Since when only an older leader answers; 0 while this one does.
    deadline_s: float = 0.0
    granted_s: float = 0.0
    granted_by_s: float = 0.0  # When the sync was sent that brought the lease; an older one brings nothing.
    listed: bool = False  # The keeper said what it has; before that there is nothing true to report.
    full_due: bool = True
    tasks: dict[str, NodeTask] = field(default_factory=dict)
    duties: dict[str, str] = field(default_factory=dict)  # What the server last said to do, by task.
    go_waits: dict[str, Duty] = field(default_factory=dict)  # `go` that came without a lease.
    behind: dict[str, str] = field(default_factory=dict)  # By task: who begins when it has ended. See waiting_line.py.
    just_ended: list[str] = field(default_factory=list)  # Those of them that have.
    changed: dict[str, bool] = field(default_factory=dict)  # Reports to send; True where somebody waits for it.
    urgent: int = 0
    lazy_due_s: float = 0.0  # When the reports are sent that nobody waits for.
    ranges: list[OutputRange] = field(default_factory=list)
    written: dict[tuple[str, str, int], float] = field(
        default_factory=dict
    )  # Task, slot, end: of ranges not yet taken.
    going: set[str] = field(default_factory=set)  # Tasks whose ranks may be alive.
    draining: set[str] = field(default_factory=set)  # Tasks that are over and have output to ship.
    follow: set[str] = field(default_factory=set)
    troubles: dict[str, str] = field(default_factory=dict)
    troubles_due: bool = False
    reports_xor: int = 0
    duties_xor: int = 0
    flights: dict[int, Flight] = field(default_factory=dict)  # By seq: at most one held, and one with news.
    seq: int = 0
    progress: dict[str, UnconfirmedFiles] = field(default_factory=dict)  # Only of tasks that have something to keep.
    features: list[NodeFeature] = field(default_factory=list)  # What features say and hear on this node.
    steps_at_s: float = 0.0  # When steps were last told.
    say_again_s: float = 0.0
    notice: tuple[str, float] | None = None  # This machine will go: why, and when.
    notice_due: bool = False
    notice_why: str = ""
    storage: str | None = (
        None  # The mark of the server's storage place; None before it has told it. See storage_moved.py.
    )


def go_alone(task: NodeTask) -> Duty:
    """The `go` of a task that is all of its attempt: it waits for nobody, so it says it to itself."""
    ranks = task.claim.ranks or 1 if task.claim else 1
    return Duty(task.key, GO, peers=((task.address, task.port),), gang=(ranks, 0) if ranks > 1 else ())
