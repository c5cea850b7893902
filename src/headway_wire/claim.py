"""A claim: everything that an agent needs to run a task. What the job's description says is checked by the server.

Words that were not given are left out. What each means to a job is told in docs/explanation/keeping-progress.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway_wire.kinds import (
    Anything,
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
    word,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping

_COUNT, _TEXT, _FLAG = WholeNumber(), Maybe(Text(), ""), Maybe(Flag(), False)
_TEXTS, _TABLE = Maybe(Many(Text()), ()), Maybe(Table(Text()), {})
_AMOUNT, _SECONDS = Maybe(Number(0.0, 1e18), 0.0), Number(0.0, 1e18)


@dataclass(frozen=True)
class Resume(Message):
    """What a task is restored from: its own share, and whatever files of the others it has not got."""

    step: int = word(_COUNT, about="of which step")
    key: str = word(Text(), about="the manifest of its own share, or of the first one")
    how: str = word(_TEXT, "settled", "how it is known that it is complete", always=True)
    own: bool = word(Flag(), True, "false where the share is another task's")
    others: tuple[str, ...] = word(_TEXTS, (), "the manifests of the other tasks' shares")


@dataclass(frozen=True)
class TaskAmounts(Message):
    """What a task was given of its node."""

    memory_bytes: int = word(Maybe(_COUNT, 0), 0, "memory", always=True)
    cpus: float = word(_AMOUNT, 0.0, "processors", always=True)


@dataclass(frozen=True)
class TaskLimits(Message):
    """What a task may use beyond what it was given."""

    open_files: int = word(Maybe(_COUNT, 0), 0, "files open at once in each process")
    output_bytes: int = word(Maybe(_COUNT, 0), 0, "bytes of output")
    stalled_s: float = word(_AMOUNT, 0.0, "how long it may do nothing")
    pin_cpus: bool = word(_FLAG, False, "it is pinned to processors of its own")


@dataclass(frozen=True)
class JobEnvironment(Message):
    """From what the packages of a job are built."""

    kind: str = word(Text(), about="by which tool")
    path: str = word(_TEXT, "", "the file that names them", always=True)
    digest: str = word(_TEXT, "", "the hash of that file", always=True)


@dataclass(frozen=True)
class JobInput(Message):
    """Data that is fetched before a task begins."""

    url: str = word(Text(), about="where it is")
    sha256: str = word(_TEXT, "", "what it must be")


@dataclass(frozen=True)
class GivenSecrets(Message):
    """Secrets by name only: the agent asks for their values when it is about to need them."""

    env: Mapping[str, str] = word(_TABLE, {}, "by variable that holds the value")
    files: Mapping[str, str] = word(_TABLE, {}, "by variable that names a file with it")


@dataclass(frozen=True)
class Stay(Message):
    """How long the place of a task is kept after a failure."""

    s: float = word(_SECONDS, about="seconds")
    exempt: tuple[int, ...] = word(
        Maybe(Many(WholeNumber(-(2**31), 2**32)), ()), (), "exit codes after which it is not", named="not"
    )


@dataclass(frozen=True)
class LogPolicy(Message):
    """A pattern in the output of a task that says something about its end."""

    pattern: str = word(Text(), about="what is looked for")
    label: str = word(_TEXT, "", "what it is called", always=True)
    action: str = word(_TEXT, "", "what follows", always=True)


@dataclass(frozen=True)
class MetricRule(Message):
    """A metric that is looked for in the output of a task."""

    name: str = word(Text(), about="what it is called")
    regex: str = word(Text(), about="what is looked for; its first group is the value")


@dataclass(frozen=True)
class CheckpointWish(Message):
    """How a task says that a checkpoint is complete."""

    marker: str = word(_TEXT, "", "the file that completes one")
    dirs: tuple[str, ...] = word(_TEXTS, (), "directories to watch beside the job's own")
    saved_by: str = word(_TEXT, "auto", "whose shares make a checkpoint")
    settle_s: float = word(_AMOUNT, 0.0, "how long files must be still", always=True)


@dataclass(frozen=True)
class Program(Message):
    """What a job's program was given, and what is kept of what it does. A plain command has a seed alone."""

    seed: int | None = word(Maybe(WholeNumber(-(2**63), 2**64)), None, "of all its chance", always=True)
    bundle: str = word(_TEXT, "", "the digest of its code")
    subdir: str = word(_TEXT, "", "where in it the command runs")
    environment: JobEnvironment | None = word(Maybe(Record(JobEnvironment)), None, "its packages")
    inputs: Mapping[str, JobInput] = word(Maybe(Table(Record(JobInput)), {}), {}, "its data, by name")
    volumes: Mapping[str, str] = word(_TABLE, {}, "directories of the node, by name")
    params: Mapping[str, object] = word(Maybe(Table(Anything()), {}), {}, "its parameters")
    outputs: tuple[str, ...] = word(_TEXTS, (), "patterns of files that are kept")
    limits: TaskLimits = word(Maybe(Record(TaskLimits), TaskLimits()), TaskLimits(), "what it may use")
    secrets: GivenSecrets = word(Maybe(Record(GivenSecrets), GivenSecrets()), GivenSecrets(), "what it is given")
    artifacts_every_s: float = word(_AMOUNT, 0.0, "how often its outputs are kept while it runs")
    stay: Stay | None = word(Maybe(Record(Stay)), None, "how long its place is kept after a failure")
    log_policies: tuple[LogPolicy, ...] = word(Maybe(Many(Record(LogPolicy)), ()), (), "what its output may say")
    metrics: tuple[MetricRule, ...] = word(Maybe(Many(Record(MetricRule)), ()), (), "what to look for in its output")
    checkpoint: CheckpointWish | None = word(Maybe(Record(CheckpointWish)), None, "how it saves")
    notice_signal: str = word(_TEXT, "", "by which signal its ranks hear that they must end")
    stdin: str = word(_TEXT, "", "what they read on standard input")
    more: Mapping[str, object] = word(Others(), {}, "words that a newer server says")


NO_PROGRAM = Program()


@dataclass(frozen=True)
class Claim(Message):
    """What a task is. Its words stand among those of the duty `claim`; a full reply repeats them with any duty."""

    task: str = word(TaskWord(), about="the task")
    job: str = word(_TEXT, "", "its job", always=True)
    name: str = word(_TEXT, "", "what the job is called", always=True)
    attempt: int = word(Maybe(_COUNT, 0), 0, "which of the job's attempts", always=True)
    argv: tuple[str, ...] = word(_TEXTS, (), "the command", always=True)
    env: Mapping[str, str] = word(Maybe(Table(Anything()), {}), {}, "variables of its ranks", always=True)
    workdir: str = word(_TEXT, "", "where they run; empty: in a directory of their own", always=True)
    ranks: int = word(Maybe(_COUNT, 1), 1, "ranks on each node", always=True)
    node_rank: int = word(Maybe(_COUNT, 0), 0, "which of the nodes this is", always=True)
    nodes: int = word(Maybe(_COUNT, 1), 1, "how many nodes the attempt has", always=True)
    world_size: int = word(Maybe(_COUNT, 0), 0, "how many ranks it has", always=True)
    first_rank: int = word(Maybe(_COUNT, 0), 0, "the first of them on this node", always=True)
    gpus: tuple[int, ...] = word(Maybe(Many(_COUNT), ()), (), "its GPUs, by number on the node", always=True)
    streams: str = word(_TEXT, "", "`split` where stderr has a file of its own", always=True)
    grace_s: float = word(Number(0.0, 1e18), 30.0, "between the first signal and the last", always=True)
    limits: TaskAmounts = word(
        Maybe(Record(TaskAmounts), TaskAmounts()), TaskAmounts(), "what it was given", always=True
    )
    resume: Resume | None = word(Maybe(Record(Resume)), None, "what it is restored from", always=True)
    progress: Program = word(Maybe(Record(Program), NO_PROGRAM), NO_PROGRAM, "its program", always=True)
    launcher: str = word(_TEXT, "plain", "what starts its ranks")
    array: tuple[str, int] | None = word(Maybe(Pair(Text(), _COUNT)), None, "its array, and its index there")
    gang_key: str = word(_TEXT, "", "what the tasks of an attempt prove to each other that they belong together")
    go: bool = word(_FLAG, False, "it begins as soon as the keeper holds it: it is all of its attempt")
    behind: str = word(_TEXT, "", "the task after whose end it begins")
    more: Mapping[str, object] = word(Others(), {}, "words that a newer server says")
