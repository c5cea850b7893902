"""How a script or a command of the caller becomes the description of a job that runs in place.

The caller's directory, active interpreter and search paths are passed on; the rest of the environment is not, because
it holds secrets. core/spec/job.py checks the result.
"""

from __future__ import annotations

import difflib
import os
import shutil
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.client.code import shebang
from headway.core.errors import BadInput
from headway.core.spec.command import command_words

# What a program needs to find its parts and to write text; everything else is given by name.
PASSED_ON = (
    "PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "LANG",
    "LC_ALL",
)
RESOURCES = ("cpus", "memory", "gpus")


def describe_job(
    words: Sequence[str], wishes: Mapping[str, Any], env: Mapping[str, str], cwd: str, *, verbatim: bool = False
) -> dict[str, Any]:
    """Return the raw description of a job. `verbatim` words are a command as it stands, not a script."""
    raw = {key: value for key, value in wishes.items() if value is not None and key not in RESOURCES}
    wanted = {key: wishes[key] for key in RESOURCES if wishes.get(key) is not None}
    of_file = raw.get("resources") or {}
    if wanted and isinstance(of_file, Mapping):
        raw["resources"] = {**of_file, **wanted}
    raw["workdir"] = workdir(raw.get("workdir"), cwd)
    if words:
        raw["command"] = list(words) if verbatim else command_for(words, raw["workdir"], cwd, env)
    elif raw.get("command"):
        raw["command"] = command_words(raw["command"])
    given = raw.get("env") or {}
    if isinstance(given, Mapping):
        raw["env"] = {**{name: env[name] for name in PASSED_ON if env.get(name)}, **given}
    return raw


def workdir(asked: object, cwd: str) -> str:
    """The directory of the job, which must exist: the job runs in place."""
    if asked is not None and not isinstance(asked, str):
        raise BadInput(f'workdir: "{str(asked)[:80]}" is not a path')
    if asked and "\0" in asked:
        raise BadInput("workdir: contains a NUL byte")
    path = os.path.normpath(os.path.join(cwd, os.path.expanduser(asked))) if asked else cwd
    what = _not_enterable(path)
    if what:
        raise BadInput(f'workdir: "{str(asked or path)[:200]}" {what}', nearest(path) if "exist" in what else "")
    return path


def _not_enterable(path: str) -> str:
    """Why nothing could run in a directory, as the end of a sentence; empty where it could."""
    try:
        found = os.stat(path)
    except PermissionError:
        return "may not be entered by you: permission denied"
    except (OSError, ValueError):
        return "does not exist"
    if not stat.S_ISDIR(found.st_mode):
        return "is not a directory"
    return "" if os.access(path, os.X_OK) else "may not be entered by you: permission denied"


def command_for(words: Sequence[str], directory: str, cwd: str, env: Mapping[str, str]) -> list[str]:
    """The command that runs a script with the caller's interpreter, or a program as it is."""
    first, rest = words[0], list(words[1:])
    # `run train.py -- --lr 0.1` is a habit from other tools; a second `--` is the script's own.
    if rest[:1] == ["--"]:
        rest = rest[1:]
    if first.endswith(".ipynb"):
        raise BadInput(f'"{_short(first)}" is a notebook', "convert it first: jupyter nbconvert --to script")
    if first.endswith((".py", ".sh")):
        script = _existing(first, directory, cwd)
        return [*runner_of(script, directory, env), script, *rest]
    if "/" in first:
        program = _existing(first, directory, cwd)
        runner = [] if _can_run(program, directory) else shebang.of_file(os.path.join(directory, program))
        return [*runner, program, *rest]
    if not shutil.which(first, path=env.get("PATH")):
        if os.path.exists(os.path.join(directory, first)):
            runner = shebang.of_file(os.path.join(directory, first))
            if runner:
                return [*runner, first, *rest]
            raise BadInput(
                f'"{_short(first)}" is a file, but neither a .py nor a .sh script, and has no #! line',
                f"./{first} runs it as a program",
            )
        raise BadInput(
            f'"{_short(first)}" is neither a script here nor a program on the PATH',
            nearest(os.path.join(directory, first)) or "a command that only the node has goes after --",
        )
    return [first, *rest]


def runner_of(script: str, directory: str, env: Mapping[str, str]) -> list[str]:
    """What runs a script: what its first line says; where that is any Python, or nothing, the caller's own."""
    said = shebang.of_file(os.path.join(directory, script))
    if script.endswith(".py") and (not said or shebang.names_python(said)):
        return [interpreter(env), *said[1:]]
    return said or [shutil.which("bash", path=env.get("PATH")) or "/bin/sh"]


def _can_run(program: str, directory: str) -> bool:
    return os.access(os.path.join(directory, program), os.X_OK)


def interpreter(env: Mapping[str, str]) -> str:
    """The Python of the caller's active environment, else what `python3` means in the caller's shell, also when
    Headway lives there: `pip install` beside it went to the same place. Headway's own where there is no other."""
    for prefix in (env.get("VIRTUAL_ENV"), env.get("CONDA_PREFIX")):
        if prefix and os.access(os.path.join(prefix, "bin", "python"), os.X_OK):
            return os.path.join(prefix, "bin", "python")
    for name in ("python3", "python"):
        found = shutil.which(name, path=env.get("PATH", os.defpath))
        if found:
            return found
    return sys.executable


def _existing(script: str, directory: str, cwd: str) -> str:
    """The script as typed when the job's directory has it; as an absolute path when only the caller's has."""
    if "\0" in script:
        raise BadInput("the script's name contains a NUL byte")
    typed = os.path.expanduser(script)
    for base in (directory, cwd):
        path = os.path.join(base, typed)
        try:
            if os.path.isdir(path):
                raise BadInput(f'"{_short(script)}" is a directory, not a script', "name the script in it")
            if os.path.exists(path):
                if not os.access(path, os.R_OK):
                    raise BadInput(f'"{_short(script)}" cannot be read', "check its permissions")
                return typed if base == directory else path
        except OSError:
            break
    raise BadInput(f'no file "{_short(script)}" in {directory}', nearest(os.path.join(directory, typed)))


def nearest(path: str) -> str:
    wanted = Path(path)
    try:
        names = [each.name for each in wanted.parent.iterdir()][:10_000]
    except (OSError, ValueError):
        return ""
    near = difflib.get_close_matches(wanted.name[:255], names, n=1)
    return f'did you mean "{near[0]}"?' if near else ""


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:80] + "…"
