"""What a server answers: what its node shall do, what it need not say again, and how long its lease is."""

from __future__ import annotations

from dataclasses import dataclass

from headway_wire.claim import Claim
from headway_wire.kinds import (
    Anything,
    Beside,
    Flag,
    Many,
    Maybe,
    Message,
    Number,
    Others,
    Pair,
    Record,
    Table,
    TaskWord,
    Text,
    WholeNumber,
    record_of,
    word,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

CLAIM, GO, STOP, BACK = "claim", "go", "stop", "back"
EXEC, PORT = "exec", "port"
_COUNT, _TASK, _TEXT, _FLAG = WholeNumber(), TaskWord(), Maybe(Text(), ""), Maybe(Flag(), False)
_TASKS = Maybe(Many(_TASK), ())


@dataclass(frozen=True)
class Duty(Message):
    """What a node shall do about one task."""

    task: str = word(_TASK, about="the task")
    do: str = word(Text(), about="`claim`, `go`, `stop` or `back`")
    claim: Claim | None = word(Beside(record_of(Claim), lambda said: said.get("do") == CLAIM), None, "what the task is")
    peers: tuple[tuple[str, int], ...] | None = word(
        Maybe(Many(Pair(Text(), _COUNT))), None, "the address and port of each task of the attempt"
    )
    gang: tuple[int, ...] = word(
        Maybe(Many(_COUNT), ()), (), "where there are several ranks: how many on each node, and which node this is"
    )
    grace_s: float | None = word(Maybe(Number(0.0, 1e18)), None, "of `stop`: what is left of it")
    cause: str = word(_TEXT, "", "of `stop`: why")
    mark: str = word(_TEXT, "", "what tells it from the duty before it that has the same word")


@dataclass(frozen=True)
class VisitCall(Message):
    """Somebody asks for a command, a shell or a port where a task runs. The word `visits` is a list of these."""

    id: str = word(Text(), about="which visit")
    task: str = word(_TASK, about="at which task")
    kind: str = word(_TEXT, EXEC, "`exec` or `port`", always=True)
    tty: bool = word(_FLAG, False, "it has a terminal")
    term: str = word(_TEXT, "", "of which kind")
    rows: int = word(Maybe(_COUNT, 0), 0, "its height")
    columns: int = word(Maybe(_COUNT, 0), 0, "its width")
    port: int = word(Maybe(_COUNT, 0), 0, "of `port`: which")
    command: tuple[str, ...] | None = word(Maybe(Many(Text())), None, "of `exec`: the command; none is a shell")
    rank: int | None = word(Maybe(_COUNT), None, "at which rank; else at the first")


@dataclass(frozen=True)
class StorageTold(Message):
    """Where storage is now."""

    mark: str = word(_TEXT, "", "the mark of the place")
    dir: str = word(_TEXT, "", "its folder on the server's own host")
    copy: str = word(_TEXT, "", "which copy of it that is")


@dataclass(frozen=True)
class Reply(Message):
    """The answer to one sync. It is sent only after everything in the sync was committed."""

    leader_epoch: int = word(WholeNumber(-(2**62)), about="who answers")
    said: int = word(
        Maybe(_COUNT, 0), 0, "the number of this reply: one that comes after a larger one is not applied", True
    )
    lease_left_s: float | None = word(
        Maybe(Number(0.0, 1e18)), None, "counted from when the sync was sent; null: no lease", always=True
    )
    full: bool = word(_FLAG, False, "the duties are all of them: every other task is gone", always=True)
    duties: tuple[Duty, ...] = word(Maybe(Many(Record(Duty)), ()), (), "what to do", always=True)
    gone: tuple[str, ...] = word(_TASKS, (), "tasks that the server does not want to hear of any more", always=True)
    duties_digest: str = word(_TEXT, "", "of all duties of the node", always=True)
    resend: bool = word(_FLAG, False, "the next sync shall be full", always=True)
    safe: Mapping[str, Mapping[str, int]] = word(
        Maybe(Table(Table(_COUNT)), {}), {}, "by task and `rank/stream`: up to which byte its output is indexed", True
    )
    agent_version: str = word(_TEXT, "", "the agent that the server hands out", always=True)
    # None: nothing is said of it.
    follow: tuple[str, ...] | None = word(Maybe(Many(_TASK)), None, "tasks whose log somebody watches: ship it at once")
    saved: Mapping[str, int] = word(
        Maybe(Table(_COUNT), {}), {}, "by task: the step that others of its gang have saved; has it written anything?"
    )
    leave: bool = word(_FLAG, False, "no order explains this node: without tasks it ends itself")
    servers: tuple[str, ...] = word(Maybe(Many(Text()), ()), (), "where all servers are")
    # None: it is where the agent believes.
    storage: StorageTold | None = word(Maybe(Record(StorageTold)), None, "where storage is now")
    checkpoints_safe: Mapping[str, tuple[object, ...]] = word(
        Maybe(Table(Many(Anything())), {}), {}, "by task: steps that need not be told again"
    )
    artifacts_safe: tuple[tuple[str, object], ...] = word(
        Maybe(Many(Pair(Text(), Anything())), ()), (), "tasks and paths that need not be told again"
    )
    refused: tuple[str, ...] = word(Maybe(Many(Text()), ()), (), "what was not taken, and why")
    token: str = word(_TEXT, "", "the keys were rotated: the node's token from now on")
    more: Mapping[str, Any] = word(Others(), {}, "words of features, each said and read by its own")
