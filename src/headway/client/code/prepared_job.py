"""From a described job to one that can be submitted: where its code comes from, and what its packages are made from.

Decides between running in place and bundling (docs/decisions/0031-a-plain-folder-is-bundled.md). Reads the project and
sends nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from headway.client.code import bundle, environments, ignored_files, passed_env
from headway.client.code.bundle import ReadBundle
from headway.client.code.script import interpreter
from headway.core.errors import BadInput

WHEN = ("auto", "always", "never")
OF_THIS_MACHINE = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH", "LD_LIBRARY_PATH")
OF_AN_ENVIRONMENT = ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH")


@dataclass(frozen=True, slots=True)
class Packing:
    """What the caller said about code and packages; None where nothing was said."""

    bundle: bool | None = None
    allow_large: bool = False
    environment: object = None
    env_all: bool = False  # All of the caller's variables go along, not only those of the list.


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """A description that the server takes, and the bundle that has to be there first."""

    raw: dict[str, Any]
    bundle: ReadBundle | None = None
    notes: tuple[str, ...] = ()  # What the caller should know, and did not ask for.


def take_packing(wishes: dict[str, Any]) -> Packing:
    """Take out of a job's wishes what is about packing. A digest stays: that code is on the server already."""
    asked = wishes.get("bundle")
    if isinstance(asked, bool):
        del wishes["bundle"]
    environment = wishes.pop("environment", None)
    allow_large = bool(wishes.pop("allow_large", False))
    env_all = bool(wishes.pop("env_all", False))
    return Packing(asked if isinstance(asked, bool) else None, allow_large, environment, env_all)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is the same for all jobs of a caller. `shared`: the server is another machine's."""

    when: str
    shared: bool
    cache: Path
    env: Mapping[str, str]
    pass_env: str = ""


def prepare(raw: dict[str, Any], packing: Packing, here: Surroundings) -> PreparedJob:
    """Return the description with its variables, code and packages settled."""
    raw, notes = _with_variables(raw, packing, here)
    made = _settled(raw, packing, here)
    return replace(made, notes=(*made.notes, *notes))


def _with_variables(raw: dict[str, Any], packing: Packing, here: Surroundings) -> tuple[dict[str, Any], list[str]]:
    given, secrets = raw.get("env") or {}, raw.get("secrets") or {}
    taken = frozenset([*given, *secrets])
    found = passed_env.passed(here.env, here.pass_env, taken, everything=packing.env_all, shared=here.shared)
    said = passed_env.notes(found)
    return ({**raw, "env": {**found.env, **given}} if found.env else raw), said


def _settled(raw: dict[str, Any], packing: Packing, here: Surroundings) -> PreparedJob:
    when, shared, env = here.when, here.shared, here.env
    if when not in WHEN:
        raise BadInput(f'bundle: "{when[:80]}" is not one of {", ".join(WHEN)}')
    workdir = str(raw["workdir"])
    made = raw.get("bundle")
    root = None if made else _root(workdir, packing.bundle, when, shared)
    if root is not None and packing.bundle is None and too_much(root):
        return _without_files(raw, workdir, OF_THIS_MACHINE if shared else (), env)
    if packing.environment is not None:
        base = root or workdir
        script = next((word for word in raw.get("command") or () if str(word).endswith(".py")), None)
        raw = {**raw, "environment": environments.resolve(packing.environment, base, workdir, script)}
        raw = _without(raw, OF_AN_ENVIRONMENT, env)
        raw["command"] = _in_environment(raw["command"])
    if made:
        return PreparedJob({key: value for key, value in raw.items() if key != "workdir"})
    if root is None:
        return PreparedJob(raw)
    found = bundle.read(root, here.cache / "bundles", allow_large=packing.allow_large)
    return PreparedJob(_bundled(raw, found, workdir, shared, env), found)


def _root(workdir: str, asked: bool | None, when: str, shared: bool) -> str | None:
    """The directory to bundle, or None for a job that runs in place."""
    project = ignored_files.project_root(workdir)
    if project is not None and asked is None and too_much(project):
        project = None  # A home that is kept in git, say: what lies below it is not all one project.
    wanted = asked if asked is not None else when == "always" or (when == "auto" and shared)
    return (project or workdir) if wanted else None


def too_much(root: str) -> bool:
    """Whether a directory is one that nobody means to send: a home, what holds homes, or where everybody writes."""
    place = os.path.realpath(root)
    home = os.path.realpath(os.path.expanduser("~"))
    return (
        place == "/"
        or place in (home, "/tmp", "/var/tmp", os.path.realpath(gettempdir()))
        or home.startswith(place.rstrip("/") + "/")
    )


def _without_files(raw: dict[str, Any], workdir: str, names: Sequence[str], env: Mapping[str, str]) -> PreparedJob:
    """A job that was submitted from such a directory: without its files where it names none of them, else refused."""
    named = next((word for word in raw.get("command") or () if _is_file_there(str(word), workdir)), None)
    hint = "go to the project's directory, or name it: --workdir DIR; --bundle sends it, --no-bundle runs in place"
    if named is not None:
        raise BadInput(f'"{named[:200]}" lies in {workdir}, which is too much to send to the server', hint)
    given = _without({key: value for key, value in raw.items() if key != "workdir"}, names, env)
    given["command"] = _portable(given["command"], "python3", env) if names else given["command"]
    return PreparedJob(given, notes=(f"headway: {workdir} is not sent: the job runs in an empty directory of its own",))


def _is_file_there(word: str, workdir: str) -> bool:
    if os.path.isabs(word) or "\0" in word or not word:
        return False
    return os.path.isfile(os.path.join(workdir, word))


def _bundled(
    raw: dict[str, Any], found: ReadBundle, workdir: str, shared: bool, env: Mapping[str, str]
) -> dict[str, Any]:
    given = {key: value for key, value in raw.items() if key != "workdir"}
    subdir = os.path.relpath(workdir, found.root)
    given["bundle"] = found.digest
    if subdir != ".":
        given["subdir"] = subdir
    given["command"] = [_inner(word, found, workdir) for word in given["command"]]
    path = str((given.get("environment") or {}).get("path") or "")
    if path and not found.holds(path):
        raise BadInput(f'environment: "{path}" is left out of the bundle by .gitignore or {ignored_files.OURS}')
    if shared:
        given = _without(given, OF_THIS_MACHINE, env)
        given["command"] = _portable(given["command"], "python3", env)
    return given


def _inner(word: str, found: ReadBundle, workdir: str) -> str:
    """A script of the project by its path in the bundle; refused when it is not in there, all else as it is."""
    full = os.path.normpath(os.path.join(workdir, word))
    if not word.endswith((".py", ".sh")) or not os.path.isfile(full):
        return word
    path = os.path.relpath(full, found.root)
    if path.startswith("../"):
        if os.path.isabs(word):
            return word
        raise BadInput(f'"{word}" is outside the project {found.root}', "--no-bundle runs it in place")
    if not found.holds(path):
        raise BadInput(
            f'"{path}" is left out of the bundle by .gitignore or {ignored_files.OURS}', "--no-bundle runs it in place"
        )
    return os.path.relpath(full, workdir) if os.path.isabs(word) else word


def _portable(command: Sequence[str], python: str, env: Mapping[str, str]) -> list[str]:
    """The command with what the node has in place of the caller's own Python or bash. Any other stays as typed."""
    first = command[0]
    if first in (interpreter(env), sys.executable, os.path.join(env.get("VIRTUAL_ENV") or "/", "bin/python3")):
        return [python, *command[1:]]
    return ["bash", *command[1:]] if first == shutil.which("bash", path=env.get("PATH")) else list(command)


def _in_environment(command: Sequence[str]) -> list[str]:
    """The command with the environment's Python in place of any that stands there with its path."""
    plain = re.fullmatch(r"/.*/python[\d.]*", command[0])
    return ["python", *command[1:]] if plain else list(command)


def _without(raw: dict[str, Any], names: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """Without those variables that were merely passed on from here; what was given on purpose differs, and stays."""
    given = raw.get("env") or {}
    return {**raw, "env": {name: value for name, value in given.items() if name not in names or value != env.get(name)}}
