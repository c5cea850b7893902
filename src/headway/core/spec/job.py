"""What a user may ask for: the description of a job, checked and complete.

`read_spec` is the one gate: CLI flags, YAML files and API bodies all pass through it, and it refuses nonsense before
anything is uploaded or saved. Defaults stand here and nowhere else.
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
from headway.core.fields import one_of as _one_of
from headway.core.fields import text_bytes as _bytes
from headway.core.fields import whole as _int
from headway.core.model import Resources
from headway.core.spec.program import KEYS as PROGRESS_KEYS
from headway.core.spec.program import PLAIN, ProgramSpec, grace_of, read_progress, retries_of, show_progress
from headway.core.spec.scheduling import KEYS as WISH_KEYS
from headway.core.spec.scheduling import NO_WISHES, Wishes, read_wishes, show_wishes
from headway.core.units import duration_s, size_bytes

ARGUMENTS_BYTES_MAX = 1 << 20
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


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A checked description: everything that is needed to run the job, and nothing about how it went."""

    command: tuple[str, ...]
    name: str
    project: str = "default"
    queue: str = "default"
    pool: str = ""  # Empty: any pool.
    priority: int = 0
    nodes: int = 1
    ranks_per_node: int = 1
    resources: Resources = Resources(cpus=1.0)  # Per task, that is per node.
    env: tuple[tuple[str, str], ...] = ()
    workdir: str = ""  # Empty: a fresh directory per attempt.
    retries_max: int = 0
    wall_s_max: float | None = None
    grace_s: float = 30.0
    streams: str = "merged"  # or "split": stdout and stderr in two files.
    log_bytes_max: int = 256 * 2**20
    tags: tuple[tuple[str, str], ...] = ()
    progress: ProgramSpec = PLAIN
    wishes: Wishes = NO_WISHES
    launcher: str = "plain"  # Who starts the ranks: ourselves, torchrun or mpirun.


KEYS: dict[str, str] = {
    "command": "the command as a list of words; the first is the program",
    "name": "a name for people; letters, digits, dot, dash and underscore",
    "project": "the project it belongs to",
    "queue": "the queue in which it waits",
    "pool": "the only pool that it may use; any, when left out",
    "priority": "a larger number goes first",
    "nodes": "how many nodes the job takes, all or none",
    "ranks_per_node": "how many processes are started on each node",
    "launcher": "who starts the ranks: " + ", ".join(LAUNCHERS),
    "resources": "what each node must give: cpus, memory, gpus",
    "env": "environment variables for the ranks",
    "workdir": "the directory in which it runs; a fresh one, when left out",
    "retries": "how often the job is tried again after its own failure",
    "max_duration": "the longest time that one attempt may run, such as 6h",
    "grace": "seconds between the request to stop and the kill",
    "streams": "merged: one log in true order; split: stdout and stderr apart",
    "log_max": "the size above which the middle of the log is dropped",
    "tags": "labels for finding it again",
    **PROGRESS_KEYS,
    **WISH_KEYS,
}
RESOURCE_KEYS = {"cpus": "processors, may be a fraction", "memory": "such as 16G", "gpus": "how many GPUs"}


def read_spec(raw: Mapping[str, Any]) -> JobSpec:
    """Return the checked spec of a raw description, or raise BadInput naming field, value and a way out."""
    check_keys(raw, KEYS, "job")
    command = _command(raw.get("command"))
    return JobSpec(
        command=command,
        name=_name(raw.get("name") or name_for(command), "name"),
        project=_name(raw.get("project", "default"), "project"),
        queue=_name(raw.get("queue", "default"), "queue"),
        pool=_name(raw["pool"], "pool") if raw.get("pool") else "",
        priority=_int(raw.get("priority", 0), "priority", -PRIORITY_MOST, PRIORITY_MOST),
        nodes=_int(raw.get("nodes", 1), "nodes", 1, NODES_MAX),
        ranks_per_node=_int(raw.get("ranks_per_node", 1), "ranks_per_node", 1, RANKS_PER_NODE_MAX),
        resources=_resources(raw.get("resources")),
        env=_pairs(raw.get("env"), "env", ENV_NAME),
        workdir=_workdir(raw.get("workdir", "")),
        retries_max=retries_of(raw),
        wall_s_max=_positive_s(raw.get("max_duration"), "max_duration"),
        grace_s=grace_of(raw),
        streams=_one_of(raw.get("streams", "merged"), "streams", ("merged", "split")),
        log_bytes_max=_log_max(raw.get("log_max", 256 * 2**20)),
        tags=_pairs(raw.get("tags"), "tags", NAME),
        progress=read_progress(raw),
        wishes=read_wishes(raw),
        launcher=_one_of(raw.get("launcher", "plain"), "launcher", tuple(LAUNCHERS)),
    )


def show_spec(spec: JobSpec) -> dict[str, Any]:
    """The description that reads back into this spec."""
    return {
        "command": list(spec.command),
        "name": spec.name,
        "project": spec.project,
        "queue": spec.queue,
        "pool": spec.pool,
        "priority": spec.priority,
        "nodes": spec.nodes,
        "ranks_per_node": spec.ranks_per_node,
        "resources": {
            "cpus": spec.resources.cpus,
            "memory": spec.resources.memory_bytes,
            "gpus": spec.resources.gpus,
        },
        "env": dict(spec.env),
        "workdir": spec.workdir,
        "retries": spec.retries_max,
        "max_duration": spec.wall_s_max,
        "grace": spec.grace_s,
        "streams": spec.streams,
        "log_max": spec.log_bytes_max,
        "tags": dict(spec.tags),
        **show_progress(spec.progress, spec.retries_max, spec.grace_s),
        **show_wishes(spec.wishes),
        **({"launcher": spec.launcher} if spec.launcher != "plain" else {}),
    }


def name_for(command: tuple[str, ...]) -> str:
    """A name for people, made from the script or program."""
    words = [word for word in command if word.endswith((".py", ".sh", ".ipynb"))] or [command[0]]
    stem = words[0].rsplit("/", 1)[-1].split(".", 1)[0]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_")[:40] or "job"


def _command(value: object) -> tuple[str, ...]:
    if not value:
        raise BadInput("job: no command", "give a script, or a command after --")
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise BadInput("command: expected a list of words", 'write ["python", "train.py"], or use sh -c for a line')
    for word in value:
        if not isinstance(word, str):
            raise BadInput(f"command: {word!r} is not a text", "quote it")
        if "\0" in word:
            raise BadInput("command: a word contains a NUL byte")
        longest = _bytes(word, "command")
        if longest > WORD_BYTES_MAX:
            raise BadInput(
                f'command: the word "{word[:20]}…" has {longest:,} bytes; the system takes {WORD_BYTES_MAX:,} at most',
                "put the data in a file and pass its path",
            )
    total = sum(_bytes(word, "command") for word in value)
    if total > ARGUMENTS_BYTES_MAX:
        raise BadInput(
            f"command: {total:,} bytes of arguments; at most {ARGUMENTS_BYTES_MAX:,} are taken",
            "put the data in a file and pass its path",
        )
    if not value[0]:
        raise BadInput("command: the program's name is empty")
    return tuple(value)


def _name(value: object, what: str) -> str:
    if not isinstance(value, str) or not NAME.match(value):
        raise BadInput(
            f'{what}: "{str(value)[:80]}" is not a name',
            "use 1 to 63 letters, digits, dots, dashes and underscores, beginning with a letter or digit",
        )
    return value


def _resources(raw: object) -> Resources:
    if raw is None:
        return Resources(cpus=1.0)
    check_keys(raw, RESOURCE_KEYS, "resources")
    assert isinstance(raw, Mapping)
    cpus = raw.get("cpus", 1.0)
    if isinstance(cpus, bool) or not isinstance(cpus, int | float) or not 0 <= cpus <= 100_000:
        raise BadInput(f'resources.cpus: "{str(cpus)[:80]}" is not a number from 0 to 100000')
    return Resources(
        cpus=float(cpus),
        memory_bytes=_memory(raw.get("memory", 0)),
        gpus=_int(raw.get("gpus", 0), "resources.gpus", 0, 1024),
    )


def _memory(value: Any) -> int:
    size = size_bytes(value, "resources.memory")
    if size > 1 << 60:
        raise BadInput(f'resources.memory: "{value}" is more than any machine has')
    return size


def _log_max(value: Any) -> int:
    size = size_bytes(value, "log_max")
    if size < 4096:
        raise BadInput(f'log_max: "{value}" is less than 4096 bytes')
    return min(size, 1 << 50)


def _pairs(raw: object, what: str, shape: re.Pattern[str]) -> tuple[tuple[str, str], ...]:
    if raw is None:
        return ()
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


def _workdir(value: object) -> str:
    if value in ("", None):
        return ""
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value or ".." in value.split("/"):
        raise BadInput(f'workdir: "{str(value)[:80]}" is not an absolute path without ".."')
    _bytes(value, "workdir")
    return value


def _positive_s(value: Any, what: str) -> float | None:
    if value is None:
        return None
    seconds = duration_s(value, what)
    if seconds <= 0:
        raise BadInput(f'{what}: "{value}" is not longer than nothing', "leave it out for no limit")
    return seconds
