"""What a user may ask for: the description of a job, checked and complete.

`read_spec` is the one gate: CLI flags, YAML files and API bodies all pass through it, and it refuses nonsense before
anything is uploaded or saved. Each word is one entry, at the field that holds it: here, in program.py or in
scheduling.py; the entries say all that is to be known of a word (words.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.core.errors import BadInput
from headway.core.fields import WORD_BYTES_MAX as WORD_BYTES_MAX
from headway.core.fields import check_keys as check_keys
from headway.core.fields import kind_of as _kind
from headway.core.fields import one_of, whole
from headway.core.fields import text_bytes as _bytes
from headway.core.model import Resources
from headway.core.spec.command import name_for as name_for
from headway.core.spec.command import no_command, read_command
from headway.core.spec.program import PLAIN, ProgramSpec
from headway.core.spec.program_words import grace_of, retries_of, show_list, show_pairs
from headway.core.spec.scheduling import NO_WISHES, Wishes, check_wishes, split_array
from headway.core.spec.words import (
    AMOUNT,
    MAYBE_AMOUNT,
    NUMBER,
    PAIRS,
    TEXT,
    WHOLE,
    Flag,
    Travel,
    Words,
    array,
    obj,
    word,
)
from headway.core.units import duration_s, size_bytes

ENV_BYTES_MAX = 1 << 20
NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
ENV_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*\Z")
NODES_MAX = 10_000
RANKS_PER_NODE_MAX = 256
PRIORITY_MOST = 1_000_000
LAUNCHERS = {
    "plain": "every rank is started by Headway",
    "torchrun": "torchrun is started once on each node, and starts the ranks",
    "mpi": "mpirun is started on the first node, and starts the ranks on all of them",
}
RESOURCE_KEYS = {"cpus": "processors, may be a fraction", "memory": "such as 16G", "gpus": "how many GPUs"}
RESOURCES = obj(
    cpus={**NUMBER, "description": RESOURCE_KEYS["cpus"], "minimum": 0},
    memory={**AMOUNT, "description": RESOURCE_KEYS["memory"]},
    gpus={**WHOLE, "description": RESOURCE_KEYS["gpus"], "minimum": 0},
)


def _name(value: object, what: str) -> str:
    if not isinstance(value, str) or not NAME.match(value):
        raise BadInput(
            f'{what}: "{str(value)[:80]}" is not a name',
            "use 1 to 63 letters, digits, dots, dashes and underscores, beginning with a letter or digit",
        )
    return value


def _maybe_name(value: object, what: str) -> str:
    return _name(value, what) if value else ""


def _priority(value: object, what: str) -> int:
    return whole(value, what, -PRIORITY_MOST, PRIORITY_MOST)


def _nodes(value: object, what: str) -> int:
    return whole(value, what, 1, NODES_MAX)


def _ranks(value: object, what: str) -> int:
    return whole(value, what, 1, RANKS_PER_NODE_MAX)


def _launcher(value: object, what: str) -> str:
    return one_of(value, what, tuple(LAUNCHERS))


def _streams(value: object, what: str) -> str:
    return one_of(value, what, ("merged", "split"))


def _resources(raw: object, what: str) -> Resources:
    check_keys(raw, RESOURCE_KEYS, what)
    assert isinstance(raw, Mapping)
    cpus = raw.get("cpus", 1.0)
    if isinstance(cpus, bool) or not isinstance(cpus, int | float) or not 0 <= cpus <= 100_000:
        raise BadInput(f'resources.cpus: "{str(cpus)[:80]}" is not a number from 0 to 100000')
    return Resources(
        cpus=float(cpus),
        memory_bytes=_memory(raw.get("memory", 0)),
        gpus=whole(raw.get("gpus", 0), "resources.gpus", 0, 1024),
    )


def _shown_resources(resources: Resources, spec: Any) -> dict[str, Any]:
    return {"cpus": resources.cpus, "memory": resources.memory_bytes, "gpus": resources.gpus}


def _told_resources(resources: Resources, spec: Any) -> dict[str, Any]:
    return {"memory_bytes": resources.memory_bytes, "cpus": resources.cpus}


def _memory(value: Any) -> int:
    size = size_bytes(value, "resources.memory")
    if size > 1 << 60:
        raise BadInput(f'resources.memory: "{value}" is more than any machine has')
    return size


def _log_max(value: Any, what: str) -> int:
    size = size_bytes(value, what)
    if size < 4096:
        raise BadInput(f'{what}: "{value}" is less than 4096 bytes')
    return min(size, 1 << 50)


def _env(raw: object, what: str) -> tuple[tuple[str, str], ...]:
    return _pairs(raw, what, ENV_NAME)


def read_tags(raw: object, what: str = "tags") -> tuple[tuple[str, str], ...]:
    return _pairs(raw, what, NAME)


def _pairs(raw: object, what: str, shape: re.Pattern[str]) -> tuple[tuple[str, str], ...]:
    if not isinstance(raw, Mapping):
        raise BadInput(f"{what}: expected names and values, found {_kind(raw)}")
    pairs = []
    for key, value in raw.items():
        if not isinstance(key, str) or not shape.match(key):
            raise BadInput(f'{what}: "{str(key)[:80]}" is not a usable name')
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise BadInput(f"{what}.{key}: expected a text, found {_kind(value)}", "quote it")
        if "\0" in str(value):
            raise BadInput(f"{what}.{key}: contains a NUL byte")
        if _bytes(f"{key}={value}", what) > WORD_BYTES_MAX:
            raise BadInput(f"{what}.{key}: longer than the {WORD_BYTES_MAX:,} bytes that the system takes")
        pairs.append((key, str(value)))
    total = sum(len(key) + len(value) for key, value in pairs)
    if total > ENV_BYTES_MAX:
        raise BadInput(f"{what}: {total:,} bytes; at most {ENV_BYTES_MAX:,} are taken")
    return tuple(pairs)


def _workdir(value: object, what: str) -> str:
    if value == "":
        return ""
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value or ".." in value.split("/"):
        raise BadInput(f'{what}: "{str(value)[:80]}" is not an absolute path without ".."')
    _bytes(value, what)
    return value


def _positive_s(value: Any, what: str) -> float:
    seconds = duration_s(value, what)
    if seconds <= 0:
        raise BadInput(f'{what}: "{value}" is not longer than nothing', "leave it out for no limit")
    return seconds


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A checked description: everything that is needed to run the job, and nothing about how it went."""

    command: tuple[str, ...] = word(
        key="command",
        says="the command: a list of words, a line of them, or a shell script after |",
        read=read_command,
        show=show_list,
        schema={"anyOf": [{**array({"type": ["string", "number"]}), "minItems": 1}, TEXT]},
        required=True,
        always=True,
    )
    name: str = word(
        key="name",
        says="a name for people; letters, digits, dot, dash and underscore",
        read=_maybe_name,
        always=True,
        changeable=True,
        flags=(Flag("--name", "Job name.", short="-n", changing=None),),
        travels=Travel("name", always=True),
    )
    project: str = word(
        "default",
        key="project",
        says="the project it belongs to",
        read=_name,
        always=True,
        null=False,
        changeable=True,
        flags=(Flag("--project", "Project it belongs to.", changing=None),),
    )
    queue: str = word(
        "default",
        key="queue",
        says="the queue in which it waits",
        read=_name,
        always=True,
        null=False,
        changeable=True,
        flags=(Flag("--queue", "Queue to submit to."),),
    )
    pool: str = word(  # Empty: any pool.
        "",
        key="pool",
        says="the only pool that it may use; any, when left out",
        read=_maybe_name,
        always=True,
        changeable=True,
        flags=(Flag("--pool", "Use only this pool.", changing="Use only this pool; - is any."),),
    )
    priority: int = word(
        0,
        key="priority",
        says="a larger number goes first",
        read=_priority,
        schema=WHOLE,
        always=True,
        null=False,
        changeable=True,
        flags=(
            Flag(
                "--priority", "Larger numbers go first. [default: 0]", type="int", changing="Larger numbers go first."
            ),
        ),
    )
    nodes: int = word(
        1,
        key="nodes",
        says="how many nodes the job takes, all or none",
        read=_nodes,
        schema={**WHOLE, "minimum": 1},
        always=True,
        null=False,
        flags=(Flag("--nodes", "Number of nodes, all or none. [default: 1]", type="int"),),
        travels=Travel("nodes", always=True),
    )
    ranks_per_node: int = word(
        1,
        key="ranks_per_node",
        says="how many processes are started on each node",
        read=_ranks,
        schema={**WHOLE, "minimum": 1},
        always=True,
        null=False,
        flags=(Flag("--ranks-per-node", "Processes on each node. [default: 1]", type="int"),),
        travels=Travel("ranks", always=True),
    )
    launcher: str = word(  # Who starts the ranks: ourselves, torchrun or mpirun.
        "plain",
        key="launcher",
        says="who starts the ranks: " + ", ".join(LAUNCHERS),
        read=_launcher,
        schema={"enum": list(LAUNCHERS)},
        null=False,
        flags=(Flag("--launcher", "What starts the ranks. [default: plain]", metavar="plain|torchrun|mpi"),),
        travels=Travel("launcher"),
    )
    resources: Resources = word(  # Per task, that is per node.
        Resources(cpus=1.0),
        key="resources",
        says="what each node must give: cpus, memory, gpus",
        read=_resources,
        show=_shown_resources,
        schema=RESOURCES,
        always=True,
        changeable=True,
        flags=(
            Flag(
                "--cpus",
                "Processors per node; may be a fraction. [default: 1]",
                type="float",
                inner="cpus",
                changing="Processors per node.",
            ),
            Flag(
                "--mem",
                "Memory per node, such as 16G.",
                metavar="SIZE",
                inner="memory",
                changing="Memory per node.",
            ),
            Flag("--gpus", "GPUs per node.", type="int", inner="gpus"),
        ),
        travels=Travel("limits", _told_resources, always=True),
    )
    env: tuple[tuple[str, str], ...] = word(
        (),
        key="env",
        says="environment variables for the ranks",
        read=_env,
        show=show_pairs,
        schema=PAIRS,
        always=True,
        flags=(
            Flag("--env-file", "Environment variables, one K=V per line.", metavar="FILE", type="pairs", many=True),
            Flag("--env", "Environment variable; K alone copies yours.", metavar="K[=V]", type="pairs", many=True),
        ),
        travels=Travel("env", show_pairs, always=True),
    )
    workdir: str = word(  # Empty: a fresh directory per attempt.
        "",
        key="workdir",
        says="the directory in which it runs; a fresh one, when left out",
        read=_workdir,
        always=True,
        flags=(Flag("--workdir", "Where it runs. [default: here]", metavar="DIR"),),
        travels=Travel("workdir", always=True),
    )
    retries_max: int = word(  # Said here or in `retry`: see read_spec.
        0,
        key="retries",
        says="how often the job is tried again after its own failure",
        schema={**WHOLE, "minimum": 0},
        always=True,
        changeable=True,
        flags=(
            Flag(
                "--max-retries",
                "Retries after its own failure. [default: 0]",
                type="int",
                changing="Retries after its own failure.",
            ),
        ),
    )
    wall_s_max: float | None = word(
        None,
        key="max_duration",
        says="the longest time that one attempt may run, such as 6h",
        read=_positive_s,
        schema=MAYBE_AMOUNT,
        always=True,
        changeable=True,
        flags=(
            Flag(
                "--max-duration",
                "Time limit of an attempt, such as 6h.",
                metavar="TIME",
                changing="Time limit of an attempt; - removes it.",
            ),
        ),
    )
    grace_s: float = word(  # Said here or in `notice`: see read_spec.
        30.0,
        key="grace",
        says="seconds between the request to stop and the kill",
        schema=AMOUNT,
        always=True,
        changeable=True,
        flags=(Flag("--grace", "Time between SIGTERM and SIGKILL. [default: 30s]", metavar="TIME", changing=None),),
        travels=Travel("grace_s", always=True),
    )
    streams: str = word(  # or "split": stdout and stderr in two files.
        "merged",
        key="streams",
        says="merged: one log in true order; split: stdout and stderr apart",
        read=_streams,
        schema={"enum": ["merged", "split"]},
        always=True,
        null=False,
        flags=(Flag("--split-streams", "Keep stdout and stderr in two logs.", value="split"),),
        travels=Travel("streams", always=True),
    )
    log_bytes_max: int = word(
        256 * 2**20,
        key="log_max",
        says="the size above which the middle of the log is dropped",
        read=_log_max,
        schema=AMOUNT,
        always=True,
        null=False,
        changeable=True,
    )
    tags: tuple[tuple[str, str], ...] = word(
        (),
        key="tags",
        says="labels for finding it again",
        read=read_tags,
        show=show_pairs,
        schema=PAIRS,
        always=True,
        changeable=True,
        flags=(Flag("--tag", "Label, for finding it again.", metavar="K=V", type="pairs", many=True),),
    )
    progress: ProgramSpec = PLAIN
    wishes: Wishes = NO_WISHES


WORDS = Words(JobSpec)


def check_words(raw: object, words: Words[JobSpec] = WORDS) -> None:
    """Refuse a key that no job has. What is inside a group, or is a flag's name, is told by its place."""
    try:
        check_keys(raw, words.says, "job")
    except BadInput as error:
        unknown = next((key for key in raw if key not in words.says), "") if isinstance(raw, Mapping) else ""
        place = _places(words).get(str(unknown))
        if unknown == "jobs":
            raise BadInput(error.message, "several jobs of a file are parted by lines of ---") from None
        if place is None:
            raise
        group, _, inner = place.partition(".")
        raise BadInput(
            error.message, f"write {group}: {{{inner}: …}}" if inner else f'did you mean "{group}"?'
        ) from None


def _places(words: Words[JobSpec]) -> dict[str, str]:
    """Where people find what they know by another name: `gpus` is resources.gpus, `max_retries` is retries."""
    found: dict[str, str] = {}
    for key, entry in words.all.items():
        for inner in entry.schema.get("properties", {}):
            found.setdefault(inner, f"{key}.{inner}")
    for key, entry in words.all.items():
        for flag in entry.flags:
            found[flag.name[2:].replace("-", "_")] = f"{key}.{flag.inner}" if flag.inner else key
    return found


def read_spec(raw: Mapping[str, Any], words: Words[JobSpec] = WORDS) -> JobSpec:
    """Return the checked spec of a raw description, or raise BadInput naming field, value and a way out."""
    check_words(raw, words)
    raw = split_array(raw)
    found = words.read(raw)
    if "command" not in found:
        raise no_command()
    if not found.get("name"):
        found["name"] = name_for(found["command"])
    if "retries" in raw or "retry" in raw:
        found["retries_max"] = retries_of(raw)
    if "grace" in raw or "notice" in raw:
        found["grace_s"] = grace_of(raw)
    spec = words.record(**found)
    if spec.wishes is not NO_WISHES:
        check_wishes(spec.wishes, spec.resources.gpus)
    return spec


def show_spec(spec: JobSpec, words: Words[JobSpec] = WORDS) -> dict[str, Any]:
    """The description that reads back into this spec."""
    return words.show(spec)
