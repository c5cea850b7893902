"""One call of one agent as typed data: every word that the server reads of it, with its type and its bounds.

The envelope, the reports and the output are taken wholly or refused wholly. What tells of kept files stands for itself
entry by entry: one that cannot be read must not hold up all else that a node has to say, for ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headway.core.errors import BadInput
from headway.core.files.checkpoints import HOW
from headway.core.protocol.words import (
    Each,
    EachTask,
    Figures,
    Flag,
    Many,
    Maybe,
    Name,
    Number,
    Record,
    Shown,
    TaskKey,
    TaskWord,
    WholeNumber,
    Word,
    WordRefused,
    Wrong,
    quoted,
    said,
)
from headway.core.steps import STEP

PROTOCOL = 1
PHASES = ("claimed", "running", "refused", "preparing", "failed_prepare", "ended")
NAME_MAX = 200
KEY_MAX = 1024  # Of an object in storage; what else makes a key good is storage's to say.
PATH_MAX = 1000
METRICS_MAX = 100
UNIT_MAX, FOUND_MAX = 20, 300
SECONDS_MAX = 1e10
_COUNT, _TASK, _KEY = WholeNumber(), TaskWord(), Name(KEY_MAX, 1)


@dataclass(frozen=True)
class Facts:
    cpus: float = said(Number(0.0, 1e6), 0.0)
    memory_bytes: int = said(_COUNT, 0)
    gpus: int = said(_COUNT, 0)
    address: str = said(Name(300), "")


@dataclass(frozen=True)
class MetPolicy:
    label: str = said(Shown(100), "")
    action: str = said(Shown(100), "")


@dataclass(frozen=True)
class TaskOutcome:
    """How a task ended, as its agent names it."""

    exit_code: int | None = said(Maybe(WholeNumber(-(2**31), 2**32)), None)
    signal: int | None = said(Maybe(WholeNumber(0, 1000)), None)
    rank: int | None = said(Maybe(WholeNumber(0, 10**6)), None)
    cause: str = said(Shown(100), "")  # An agent of another version may know causes that we do not.
    detail: str = said(Shown(1000), "")
    log_bytes: int = said(_COUNT, 0)
    failed_ago_s: float | None = said(Maybe(Number(-SECONDS_MAX, SECONDS_MAX)), None)
    suggestion: str = said(Shown(300), "")
    retry_helps: bool | None = said(Maybe(Flag()), None)
    unasked: bool = said(Maybe(Flag(), False), False)
    unkept: str = said(Shown(1000), "")
    idle: bool = said(Maybe(Flag(), False), False)
    cut_off: bool = said(Maybe(Flag(), False), False)
    policies: tuple[MetPolicy, ...] = said(Maybe(Many(Record(MetPolicy), 1000), ()), ())


NO_OUTCOME = TaskOutcome()


@dataclass(frozen=True)
class Stays:
    """A task whose ranks have ended and whose place is kept for a while."""

    outcome: TaskOutcome = said(Maybe(Record(TaskOutcome), NO_OUTCOME), NO_OUTCOME)
    left_s: float = said(Number(-SECONDS_MAX, SECONDS_MAX), 0.0)


@dataclass(frozen=True)
class SavingFiles:
    """A task whose ranks have ended and whose files are on their way to storage."""

    outcome: TaskOutcome = said(Maybe(Record(TaskOutcome), NO_OUTCOME), NO_OUTCOME)
    bytes_done: int = said(_COUNT, 0)
    bytes: int = said(_COUNT, 0)
    over_ago_s: float = said(Number(-SECONDS_MAX, SECONDS_MAX), 0.0)


@dataclass(frozen=True)
class Report:
    """What one task is doing."""

    task: TaskKey = said(_TASK)
    phase: str = said(Word(*PHASES))
    detail: str = said(Shown(1000), "")
    address: str = said(Name(300), "")
    port: int = said(WholeNumber(0, 65535), 0)
    began_ago_s: float = said(Maybe(Number(0.0, SECONDS_MAX), 0.0), 0.0)
    over_ago_s: float | None = said(Maybe(Number(0.0, SECONDS_MAX)), None)
    cause: str = said(Shown(100), "")
    outcome: TaskOutcome = said(Maybe(Record(TaskOutcome), NO_OUTCOME), NO_OUTCOME)
    stays: Stays | None = said(Maybe(Record(Stays)), None)
    saving: SavingFiles | None = said(Maybe(Record(SavingFiles)), None)


@dataclass(frozen=True)
class OutputRange:
    """Bytes of a rank's output, and the object in storage that holds them."""

    task: TaskKey = said(_TASK)
    rank: int = said(WholeNumber(0, 10**6))
    stream: str = said(Name(8))
    start: int = said(_COUNT)
    end: int = said(_COUNT)
    key: str = said(_KEY)
    key_offset: int = said(_COUNT)
    crc32: int | None = said(Maybe(WholeNumber(0, 2**32 - 1)), None)


@dataclass(frozen=True)
class StoredCheckpoint:
    task: TaskKey = said(_TASK)
    step: int = said(_COUNT)
    key: str = said(_KEY)
    how: str = said(Word(*HOW), "settled")
    bytes: int = said(_COUNT, 0)
    files: int = said(_COUNT, 0)
    metrics: Mapping[str, float] = said(Figures(METRICS_MAX), {})
    unit: str = said(Shown(UNIT_MAX), STEP)
    found: str = said(Shown(FOUND_MAX), "")
    sharded: bool = said(Maybe(Flag(), False), False)
    saved_ago_s: float = said(Maybe(Number(-SECONDS_MAX, SECONDS_MAX), 0.0), 0.0)
    covers: tuple[int, ...] = said(
        Maybe(Many(WholeNumber(0, 10**6), 10_000), ()), ()
    )  # Tasks whose shares it stands for.
    late: bool = said(Maybe(Flag(), False), False)
    beside: bool = said(Maybe(Flag(), False), False)


@dataclass(frozen=True)
class StoredArtifact:
    task: TaskKey = said(_TASK)
    path: str = said(Name(PATH_MAX, 1))
    keys: tuple[str, ...] = said(Many(_KEY))
    size: int = said(_COUNT)
    sha256: str = said(Name(64), "")


@dataclass(frozen=True)
class BadCheckpoint:
    """A checkpoint that failed its hash when it was restored."""

    task: TaskKey = said(_TASK)
    key: str = said(_KEY)
    detail: str = said(Shown(500), "")


@dataclass(frozen=True)
class StackDump:
    task: TaskKey = said(_TASK)
    key: str = said(_KEY)
    what: str = said(Shown(200), "")
    size: int = said(_COUNT, 0)
    sha256: str = said(Maybe(Name(64), ""), "")


@dataclass(frozen=True)
class Notice:
    """The machine will go."""

    cause: str = said(Shown(100), "")
    seconds_left: float = said(Number(-SECONDS_MAX, SECONDS_MAX), 0.0)
    why: str = said(Shown(200), "")  # What its platform says, for people.


@dataclass(frozen=True)
class Trouble:
    what: str = said(Shown(100), "")
    detail: str = said(Shown(500), "")


@dataclass(frozen=True)
class SyncRequest:
    """One call. Its words are explained in docs/explanation/agent-protocol.md."""

    node: str = said(Name(NAME_MAX, 1))
    pool: str = said(Name(NAME_MAX, 1))
    boot_id: str = said(Name(NAME_MAX))
    agent_epoch: int = said(_COUNT)
    protocol: int = said(WholeNumber(PROTOCOL, PROTOCOL))
    seq: int = said(_COUNT, 0)
    agent_version: str = said(Name(NAME_MAX), "")
    leader_epoch: int | None = said(Maybe(WholeNumber(-1)), None)
    full: bool = said(Flag(), False)
    wait_s: float = said(Number(0.0, SECONDS_MAX), 0.0)
    facts: Facts = said(Maybe(Record(Facts), Facts()), Facts())
    marks: bool = said(Flag(), False)
    storage: str | None = said(
        Maybe(Name(NAME_MAX), ""), None
    )  # None: an older agent does not say where it keeps files.
    reports_digest: str = said(Name(64), "")
    duties_digest: str = said(Name(64), "")
    reports: tuple[Report, ...] = said(Many(Record(Report)), ())
    logs: tuple[OutputRange, ...] = said(Many(Record(OutputRange)), ())
    troubles: tuple[Trouble, ...] | None = said(Many(Record(Trouble), 10_000), None)
    notice: Notice | None = said(Maybe(Record(Notice)), None)
    checkpoints: tuple[StoredCheckpoint | WordRefused, ...] = said(Each(Record(StoredCheckpoint)), ())
    artifacts: tuple[StoredArtifact | WordRefused, ...] = said(Each(Record(StoredArtifact)), ())
    bad_checkpoints: tuple[BadCheckpoint | WordRefused, ...] = said(Each(Record(BadCheckpoint)), ())
    dumps: tuple[StackDump | WordRefused, ...] = said(Each(Record(StackDump)), ())
    steps: tuple[tuple[TaskKey, int] | WordRefused, ...] = said(EachTask(_COUNT), ())
    idle: tuple[tuple[TaskKey, int] | WordRefused, ...] = said(
        EachTask(_COUNT), ()
    )  # Had written nothing at this step,
    still_idle: tuple[tuple[TaskKey, int] | WordRefused, ...] = said(EachTask(_COUNT), ())  # nor a while later.

    def refused(self) -> Iterator[tuple[str, WordRefused]]:
        """What of it was not taken, with the word that it stood under."""
        for word in SINGLY:
            for each in getattr(self, word):
                if isinstance(each, WordRefused):
                    yield word, each


SINGLY = ("checkpoints", "artifacts", "bad_checkpoints", "dumps", "steps", "idle", "still_idle")
"""The words whose entries stand for themselves."""

_REQUEST = Record(SyncRequest)
SCHEMA: dict[str, Any] = _REQUEST.schema
"""The request as JSON Schema, for the API's own description."""


def read_sync(body: Mapping[str, Any]) -> SyncRequest:
    """The call that this JSON says, or BadInput naming the word, what was expected, and what was found."""
    if body.get("protocol") != PROTOCOL:  # First: another one may mean other things by the same words.
        raise BadInput(
            f"agent speaks protocol {quoted(body.get('protocol'))}, this server {PROTOCOL}",
            "let the agent fetch /agent.pyz and start again",
        )
    try:
        read: SyncRequest = _REQUEST.read(body)
    except Wrong as wrong:
        raise BadInput(f"sync: {wrong}", "nothing of this call was taken") from None
    return read


def without_stored(request: SyncRequest) -> SyncRequest:
    """What a call says beside what it tells of storage. Its agent hears where storage is now, and tells it anew."""
    return dataclasses.replace(request, logs=(), checkpoints=(), artifacts=(), dumps=(), bad_checkpoints=())
