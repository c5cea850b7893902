"""What an agent tells: one call with all that is new on its node, within bounds that the server holds it to.

The envelope, the reports and the output are taken wholly or refused wholly. What tells of kept files stands for itself
entry by entry: one that cannot be read must not hold up all else that a node has to say, for ever.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway_wire.kinds import (
    Anything,
    Each,
    EachTask,
    Figures,
    Flag,
    Many,
    Maybe,
    Message,
    Name,
    Number,
    OneOf,
    Record,
    Shown,
    TaskWord,
    WholeNumber,
    WordRefused,
    word,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Mapping

PROTOCOL = 1
CLAIMED, RUNNING, REFUSED = "claimed", "running", "refused"
PREPARING, FAILED_PREPARE, ENDED = "preparing", "failed_prepare", "ended"
PHASES = (CLAIMED, RUNNING, REFUSED, PREPARING, FAILED_PREPARE, ENDED)
DIGESTED = frozenset({CLAIMED, RUNNING, ENDED})
"""The phases that are in the digest of reports; the others come before the claim, or instead of it."""

CALLED_BACK = "called_back"
"""The cause of a refusal that the server asked for."""

HOW = ("settled", "closed", "marker", "renamed", "declared")
"""How it is known that a checkpoint is complete, from the weakest promise to the strongest."""

LOGS = ("out", "err")
"""The streams of a rank's output that are its log. What others hold is for the features that know them."""

LOGGED, COLLECTED = "logged", "metrics"
POINTS = (LOGGED, COLLECTED)
"""The streams that hold points of metrics: what a rank logs itself, and what its agent finds for it."""

STEP = "step"
NAME_MAX = 200
KEY_MAX = 1024  # Of an object in storage; what else makes a key good is storage's to say.
PATH_MAX = 1000
METRICS_MAX = 100
UNIT_MAX, FOUND_MAX = 20, 300
SECONDS_MAX = 1e10
_COUNT, _TASK, _KEY, _FLAG = WholeNumber(), TaskWord(), Name(KEY_MAX, 1), Maybe(Flag(), False)
_SECONDS, _AGO = Number(-SECONDS_MAX, SECONDS_MAX), Number(0.0, SECONDS_MAX)


@dataclass(frozen=True)
class Facts(Message):
    """What a node has. It accompanies every full sync."""

    cpus: float = word(Number(0.0, 1e6), 0.0, "processors", always=True)
    memory_bytes: int = word(_COUNT, 0, "memory", always=True)
    gpus: int = word(_COUNT, 0, "GPUs", always=True)
    address: str = word(Name(300), "", "under which other nodes reach it", always=True)
    hostname: str = word(Shown(300), "", "the machine's own name, for people")
    python: str = word(Shown(100), "", "the version that the agent runs on")


@dataclass(frozen=True)
class MetPolicy(Message):
    """A log policy that matched the output of a task."""

    label: str = word(Shown(100), "", "its label", always=True)
    action: str = word(Shown(100), "", "what it asks for", always=True)


@dataclass(frozen=True)
class TaskOutcome(Message):
    """How a task ended, as its agent names it."""

    exit_code: int | None = word(
        Maybe(WholeNumber(-(2**31), 2**32)), None, "null where a signal ended it or it never ran", always=True
    )
    signal: int | None = word(Maybe(WholeNumber(0, 1000)), None, "the signal that ended it", always=True)
    rank: int | None = word(Maybe(WholeNumber(0, 10**6)), None, "the first rank that failed", always=True)
    # An agent of another version may know causes that this one does not: any text is taken.
    cause: str | None = word(Maybe(Shown(100)), None, "one of the server's causes; null is success", always=True)
    detail: str = word(Shown(1000), "", "one line for people", always=True)
    log_bytes: int = word(_COUNT, 0, "how many bytes of output there are in all", always=True)
    policies: tuple[MetPolicy, ...] = word(Maybe(Many(Record(MetPolicy), 1000), ()), (), "log policies that matched")
    label: str = word(Shown(300), "", "what the end looks like, in a few words")
    suggestion: str = word(Shown(300), "", "what might help")
    retry_helps: bool | None = word(Maybe(Flag()), None, "whether the same can go better a second time")
    unasked: bool = word(_FLAG, False, "its ranks ended well before they were told of any stop")
    failed_ago_s: float | None = word(Maybe(_SECONDS), None, "how long ago its first rank failed by itself")
    idle: bool = word(_FLAG, False, "of a gang: it has written nothing that is kept")
    cut_off: bool = word(_FLAG, False, "of a gang: its ranks may have been about to do more")
    steps_told: bool = word(_FLAG, False, "its job told how far it was, apart from what it saved")
    unkept: str = word(Shown(1000), "", "what of its files is not kept")


NO_OUTCOME = TaskOutcome()


@dataclass(frozen=True)
class Stays(Message):
    """A task whose ranks have ended and whose place is kept for a while."""

    outcome: TaskOutcome = word(Maybe(Record(TaskOutcome), NO_OUTCOME), NO_OUTCOME, "how it ended", always=True)
    left_s: float = word(_SECONDS, 0.0, "for how long its place is kept", always=True)


@dataclass(frozen=True)
class SavingFiles(Message):
    """A task whose ranks have ended and whose files are on their way to storage."""

    outcome: TaskOutcome = word(Maybe(Record(TaskOutcome), NO_OUTCOME), NO_OUTCOME, "how it ended", always=True)
    over_ago_s: float = word(_SECONDS, 0.0, "how long ago its last rank ended", always=True)
    bytes_done: int = word(_COUNT, 0, "how many bytes are in storage", always=True)
    bytes: int = word(_COUNT, 0, "of how many", always=True)


@dataclass(frozen=True)
class Report(Message):
    """What one task is doing."""

    task: str = word(_TASK, about="the task")
    phase: str = word(OneOf(*PHASES), about="where it is")
    began_ago_s: float | None = word(Maybe(_AGO), None, "how long ago it began by itself: no claim was told before")
    address: str = word(Name(300), "", "where its node can be reached")
    port: int = word(WholeNumber(0, 65535), 0, "a free port there, for its gang to meet at")
    detail: str = word(Shown(1000), "", "what is being prepared, or why it was refused")
    cause: str = word(Shown(100), "", "why it could not be prepared, or was refused")
    outcome: TaskOutcome = word(Maybe(Record(TaskOutcome), NO_OUTCOME), NO_OUTCOME, "of `ended`: how")
    over_ago_s: float | None = word(Maybe(_AGO), None, "of `ended`: how long ago, where it began by itself")
    saving: SavingFiles | None = word(
        Maybe(Record(SavingFiles)), None, "its ranks are over, and what they wrote is on its way into storage"
    )
    started_at: float = word(Maybe(_SECONDS, 0.0), 0.0, "when its first rank started, by the node's clock")
    stays: Stays | None = word(Maybe(Record(Stays)), None, "its ranks have failed, and its place is kept")


@dataclass(frozen=True)
class OutputRange(Message):
    """Bytes of a rank's output, and the object in storage that holds them."""

    task: str = word(_TASK, about="the task")
    rank: int = word(WholeNumber(0, 10**6), about="whose output it is")
    stream: str = word(Name(8), about="`out` or `err`; `logged` or `metrics` for points")
    start: int = word(_COUNT, about="the first byte of the stream that is told of")
    end: int = word(_COUNT, about="the first that is not")
    key: str = word(_KEY, about="the object that holds them")
    key_offset: int = word(_COUNT, about="where in it they begin")
    crc32: int | None = word(
        Maybe(WholeNumber(0, 2**32 - 1)), None, "of the bytes; who reads them later is told when they are others", True
    )
    written_ago_s: float | None = word(Maybe(_AGO), None, "how long ago the last of them was written")

    @property
    def slot(self) -> str:
        """The stream within its task, as the server names it: `rank/stream`."""
        return f"{self.rank}/{self.stream}"


@dataclass(frozen=True)
class StoredCheckpoint(Message):
    """A checkpoint whose parts and manifest are in storage. It exists once the server has committed it."""

    task: str = word(_TASK, about="whose share it is")
    step: int = word(_COUNT, about="of which step")
    key: str = word(_KEY, about="its manifest")
    how: str = word(OneOf(*HOW), "settled", "how it is known that it is complete", always=True)
    bytes: int = word(_COUNT, 0, "its size", always=True)
    files: int = word(_COUNT, 0, "how many files it has", always=True)
    at: float = word(Maybe(_SECONDS, 0.0), 0.0, "when it was stored, by the node's clock", always=True)
    metrics: Mapping[str, float] = word(Figures(METRICS_MAX), {}, "figures that the program told with it")
    unit: str = word(Shown(UNIT_MAX), STEP, "what its step counts", always=True)
    sharded: bool = word(_FLAG, False, "it is one of several shards")
    beside: bool = word(_FLAG, False, "its task is not one of those that save")
    covers: tuple[int, ...] = word(
        Maybe(Many(WholeNumber(0, 10**6), 10_000), ()), (), "other tasks of the gang whose shares it stands for"
    )
    late: bool = word(_FLAG, False, "it was found only after its task had ended")
    found: str = word(Shown(FOUND_MAX), "", "where it was found, if not in the checkpoint directory")
    saved_ago_s: float | None = word(Maybe(_SECONDS), None, "how long ago its last byte was written")
    storage: str = word(Shown(NAME_MAX), "", "the mark of the place in which it lies", always=True)


@dataclass(frozen=True)
class StoredArtifact(Message):
    """A file that is in storage as the job left it."""

    task: str = word(_TASK, about="whose it is")
    path: str = word(Name(PATH_MAX, 1), about="its path among the job's artifacts")
    keys: tuple[str, ...] = word(Many(_KEY), about="the objects that hold it, one after the other")
    size: int = word(_COUNT, about="its size in bytes")
    sha256: str = word(Name(64), "", "of all of it")
    at: float = word(Maybe(_SECONDS, 0.0), 0.0, "when it was stored, by the node's clock", always=True)
    storage: str = word(Shown(NAME_MAX), "", "the mark of the place in which it lies", always=True)


@dataclass(frozen=True)
class BadCheckpoint(Message):
    """A checkpoint that failed its hash when it was restored."""

    task: str = word(_TASK, about="who was to be restored from it")
    key: str = word(_KEY, about="its manifest")
    detail: str = word(Shown(500), "", "what is wrong with it", always=True)


@dataclass(frozen=True)
class StackDump(Message):
    """The stacks of a task's processes, in storage."""

    task: str = word(_TASK, about="whose they are")
    key: str = word(_KEY, about="the object that holds them")
    what: str = word(Shown(200), "", "what they are", always=True)
    size: int = word(_COUNT, 0, "in bytes", always=True)
    sha256: str = word(Maybe(Name(64), ""), "", "of all of it", always=True)
    storage: str = word(Shown(NAME_MAX), "", "the mark of the place in which they lie", always=True)


@dataclass(frozen=True)
class Notice(Message):
    """The machine will go."""

    cause: str = word(Shown(100), "", "why", always=True)
    seconds_left: float = word(_SECONDS, 0.0, "how soon", always=True)
    why: str = word(Shown(200), "", "what its platform says, for people")


@dataclass(frozen=True)
class Trouble(Message):
    """Something goes wrong on the node without stopping anything."""

    what: str = word(Shown(100), "", "what it concerns; a task where it names one", always=True)
    detail: str = word(Shown(500), "", "a sentence", always=True)


@dataclass(frozen=True)
class SyncRequest(Message):
    """One call. Which words depend on each other is told in docs/explanation/agent-protocol.md."""

    node: str = word(Name(NAME_MAX, 1), about="who calls")
    pool: str = word(Name(NAME_MAX, 1), about="the pool that the node is of")
    boot_id: str = word(Name(NAME_MAX), about="which life of its machine this is")
    agent_epoch: int = word(_COUNT, about="raised at every start of an agent; never below the time of day in seconds")
    protocol: int = word(WholeNumber(PROTOCOL, PROTOCOL), about="what the words mean")
    seq: int = word(_COUNT, 0, "the number of this call in the agent's life, from 1", always=True)
    agent_version: str = word(Name(NAME_MAX), "", "the hash of the agent's own file", always=True)
    leader_epoch: int | None = word(Maybe(WholeNumber(-1)), None, "the leader that it last heard", always=True)
    full: bool = word(Flag(), False, "the reports are all tasks that the node has", always=True)
    wait_s: float = word(_AGO, 0.0, "for how long the reply may be held while there is nothing to say", always=True)
    facts: Facts = word(Maybe(Record(Facts), Facts()), Facts(), "what the node has")
    marks: bool = word(Flag(), False, "the agent digests the marks of duties, not only their words", always=True)
    # None: an older agent does not say where it keeps files.
    storage: str | None = word(
        Maybe(Name(NAME_MAX), ""), None, "the mark of the place in which all lies that this call tells of", always=True
    )
    reports_digest: str = word(Name(64), "", "of all tasks and their phases", always=True)
    duties_digest: str = word(Name(64), "", "of the duties that the agent holds", always=True)
    reports: tuple[Report, ...] = word(Many(Record(Report)), (), "tasks whose report is new", always=True)
    logs: tuple[OutputRange, ...] = word(Many(Record(OutputRange)), (), "output that is in storage now", always=True)
    troubles: tuple[Trouble, ...] | None = word(
        Many(Record(Trouble), 10_000), None, "all that goes wrong on the node; sent when it changes"
    )
    notice: Notice | None = word(Maybe(Record(Notice)), None, "the machine will go")
    checkpoints: tuple[StoredCheckpoint | WordRefused, ...] = word(
        Each(Record(StoredCheckpoint)), (), "checkpoints that are in storage now"
    )
    artifacts: tuple[StoredArtifact | WordRefused, ...] = word(
        Each(Record(StoredArtifact)), (), "artifacts that are in storage now"
    )
    bad_checkpoints: tuple[BadCheckpoint | WordRefused, ...] = word(
        Each(Record(BadCheckpoint)), (), "checkpoints that could not be restored"
    )
    dumps: tuple[StackDump | WordRefused, ...] = word(Each(Record(StackDump)), (), "stack dumps in storage")
    steps: tuple[tuple[str, int] | WordRefused, ...] = word(EachTask(_COUNT), (), "how far each task has come")
    idle: tuple[tuple[str, int] | WordRefused, ...] = word(
        EachTask(_COUNT), (), "tasks that had written nothing when others of their gang had saved this step"
    )
    still_idle: tuple[tuple[str, int] | WordRefused, ...] = word(EachTask(_COUNT), (), "nor a while later")
    features: Mapping[str, Any] = word(Anything(), {}, "words of features, each read by its own")

    def refused(self) -> Iterator[tuple[str, WordRefused]]:
        """What of it was not taken, with the word that it stood under."""
        for name in SINGLY:
            for each in getattr(self, name):
                if isinstance(each, WordRefused):
                    yield name, each


SINGLY = ("checkpoints", "artifacts", "bad_checkpoints", "dumps", "steps", "idle", "still_idle")
"""The words whose entries stand for themselves."""
