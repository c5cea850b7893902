"""What can happen on a node (facts, in the past tense) and what the agent may do about it (acts).

Only data. decide.py turns the one into the other; loop/agent.py, or the simulator, brings the facts and performs the
acts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headway_agent.decide.outcomes import Exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence, Union

    from headway_wire.claim import Claim
    from headway_wire.reply import Reply, StorageTold
    from headway_wire.sync import OutputRange, StoredArtifact, StoredCheckpoint


# --- facts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeeperListed:
    """The keeper named everything that it has. What it does not name, it has not."""

    tasks: Sequence[Kept]


@dataclass(frozen=True)
class Kept:
    """A task as the keeper knows it. `lost`: an earlier keeper died while its ranks were alive, or the machine before
    what they left was on its disk.
    """

    task: str
    phase: str  # held, going, over
    exits: tuple[Exit, ...] = ()
    lost: bool = False
    address: str = ""
    port: int = 0
    started_at: float = 0.0
    sizes: Mapping[str, int] = field(default_factory=dict)
    tail: str = ""
    grace_s: float = 30.0
    leftovers: bool = False  # There are files that may have to be kept.
    marks: Mapping[str, Any] = field(default_factory=dict)  # See outcomes.name_outcome.
    stays_s: float = 0.0  # Its ranks have failed, and its place is kept for so long in all.
    notice: str = ""  # The cause in its notice file: an earlier agent told its ranks to end.


@dataclass(frozen=True)
class Stays:
    """The ranks of a task have failed, and its place is kept for a look."""

    task: str
    stays_s: float
    tail: str = ""
    marks: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Held:
    """The task has its directory and its port, and the keeper was told to hold it."""

    task: str
    address: str = ""
    port: int = 0


@dataclass(frozen=True)
class HoldFailed:
    """The task cannot be taken up here. With a cause, it is the job that is in the way."""

    task: str
    detail: str
    cause: str = ""


@dataclass(frozen=True)
class Preparing:
    """What the task needs is being fetched, which takes its time."""

    task: str
    detail: str = ""


@dataclass(frozen=True)
class PrepareFailed:
    """What the task needs cannot be had, here or elsewhere."""

    task: str
    cause: str
    detail: str


@dataclass(frozen=True)
class CheckpointBad:
    """A checkpoint that was to be restored is not what its manifest says, or is gone."""

    task: str
    key: str
    detail: str


@dataclass(frozen=True)
class Spawned:
    task: str
    started_at: float = 0.0  # Time of day, for display only.


@dataclass(frozen=True)
class RankExited:
    task: str
    exit: Exit
    stays: bool = False  # The keeper keeps the place of the task: there is nothing to stop.


@dataclass(frozen=True)
class TaskOver:
    """Nothing of the task is alive. `sizes` is the length of each output, by `rank/stream`."""

    task: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    tail: str = ""  # The end of the failing rank's output.
    leftovers: bool = False  # There are files that may have to be kept.
    marks: Mapping[str, Any] = field(default_factory=dict)  # See outcomes.name_outcome.


@dataclass(frozen=True)
class LimitReached:
    """A task went beyond one of its limits; it is written down in its directory why."""

    task: str
    cause: str
    grace_s: float


@dataclass(frozen=True)
class Dumped:
    """The stacks of a task's processes are in storage."""

    task: str
    key: str
    what: str
    size: int = 0
    sha256: str = ""
    storage: str = ""  # The mark of the place in which it is stored; see storage_moved.py.


@dataclass(frozen=True)
class Shipped:
    ranges: Sequence[OutputRange]
    storage: str = ""
    printed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # By task: its newest steps in it, by unit.
    written: Mapping[tuple[str, str], float] = field(default_factory=dict)  # By task and slot: when, in CLOCK_BOOTTIME.


@dataclass(frozen=True)
class OutputShrank:
    """Somebody cut or removed an output file of a task that is over: there is no more to wait for."""

    task: str
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class CheckpointStored:
    """All parts of a checkpoint and its manifest are in storage. It exists once the server has committed it."""

    task: str
    checkpoint: StoredCheckpoint
    saved_s: float | None = None  # When its last byte was written, in seconds of CLOCK_BOOTTIME.


@dataclass(frozen=True)
class ArtifactStored:
    task: str
    artifact: StoredArtifact


@dataclass(frozen=True)
class Salvaged:
    """All that could be kept of a task that is over is in storage."""

    task: str
    storage: str = ""


@dataclass(frozen=True)
class Salvaging:
    """Files of a task that is over are on their way into storage: so many bytes of so many are there."""

    task: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class Stepped:
    """The task has told that it is at this step."""

    task: str
    step: int
    printed_as: str = ""  # As a step or an epoch in its output; empty where it tells it elsewhere.
    by_itself: bool = True  # Not only by what it saves.


@dataclass(frozen=True)
class Wrote:
    """The task has begun to write something that is kept."""

    task: str


@dataclass(frozen=True)
class NoticeHeard:
    """This machine will go."""

    cause: str
    seconds_left: float
    why: str = ""  # What its platform says, for people.


@dataclass(frozen=True)
class Ticked:
    """A time has come that progress.next_due_s named."""


@dataclass(frozen=True)
class Troubled:
    """Something on the node goes wrong without stopping anything; an empty detail says that it is over."""

    what: str
    detail: str


UNKEPT = "could not be kept"  # Said of outputs that there is no hope for.
WAIT, LOST = "wait on the node", "were not kept"  # Said of files while there is hope, and when the task is over.


def unkept_words(task: str) -> tuple[str, str, str]:
    """Under which words it is told that files of a task are not kept."""
    return (f"checkpoints {task}", f"left out {task}", f"outputs {task}")


@dataclass(frozen=True)
class Answered:
    """A reply came. `seq` is the number of the answered sync; 0 means the oldest under way."""

    reply: Reply
    seq: int = 0


@dataclass(frozen=True)
class NotAnswered:
    """No reply came. Nothing is known about what the server took in; everything unanswered is said again."""

    seq: int = 0


@dataclass(frozen=True)
class Superseded:
    """The server knows a newer agent of this node."""


# --- acts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hold:
    """Make the task's directory, find a port, give it to the keeper; then say Held or HoldFailed."""

    task: str
    claim: Claim


@dataclass(frozen=True)
class Go:
    task: str
    peers: Sequence[tuple[str, int]]
    claim: Claim | None
    gang: Sequence[int] = ()  # Ranks per node, and which of the nodes this is.


@dataclass(frozen=True)
class Stop:
    """End its ranks, after the grace. With a cause they are told it in the notice file first."""

    task: str
    grace_s: float
    cause: str = ""


@dataclass(frozen=True)
class Salvage:
    """Nothing of it is alive: keep the finished files that it left, then say Salvaged. `end` is how its ranks ended."""

    task: str
    end: str


@dataclass(frozen=True)
class Settle:
    """It is over, and what it left is not stored yet: see that it is on the disk, should the machine be restarted."""

    task: str


@dataclass(frozen=True)
class Move:
    """From here on, what is stored goes where the server says that its storage is: `mark`, and `dir` on its host."""

    storage: StorageTold


@dataclass(frozen=True)
class KeepAgain:
    """What was last stored of this task's files lies where nobody looks: store it again."""

    task: str
    checkpoint: bool  # Also its newest checkpoint, not only its artifacts.


@dataclass(frozen=True)
class Forget:
    """Nobody wants to hear of it any more: end at once what is left of it, then remove its directory."""

    task: str


@dataclass(frozen=True)
class Lease:
    """Hand the keeper its deadline, in seconds of CLOCK_BOOTTIME."""

    deadline_s: float
    granted_s: float


@dataclass(frozen=True)
class Upgrade:
    version: str


@dataclass(frozen=True)
class EndAgent:
    reason: str


if TYPE_CHECKING:
    Act = Union[Hold, Go, Stop, Salvage, Settle, Move, KeepAgain, Forget, Lease, Upgrade, EndAgent]
    Fact = Union[
        KeeperListed,
        Held,
        HoldFailed,
        Preparing,
        PrepareFailed,
        CheckpointBad,
        Spawned,
        Stays,
        RankExited,
        TaskOver,
        LimitReached,
        Dumped,
        Shipped,
        OutputShrank,
        CheckpointStored,
        ArtifactStored,
        Salvaged,
        Salvaging,
        Stepped,
        Wrote,
        NoticeHeard,
        Ticked,
        Troubled,
        Answered,
        NotAnswered,
        Superseded,
    ]
else:
    Act = Fact = object
