"""Parameters in the command: how `params: {lr: 0.1}` replaces `--lr` where it stands, and a job's seed.

One rule for submit, fork and sweeps; what the ranks see in their environment is the agent's business.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from headway.core.errors import BadInput
from headway.core.model import Job
from headway.core.spec.command import script_in, shell_script_in
from headway.core.spec.job import JobSpec
from headway.core.spec.program_words import SEED_MAX, Value

# An option with its value in a line of a shell script: `--lr 0.1`, `--lr=$LR`, `--name "two words"`.
IN_A_SCRIPT = re.compile(
    r"""(?<![\w-])--([A-Za-z][\w.-]*)(=|[ \t]+)("[^"\n]*"|'[^'\n]*'|[^\s;|&()<>"'\\-][^\s;|&()<>"'\\]*)"""
)


def command_with(command: Sequence[str], params: Iterable[tuple[str, Value]]) -> list[str]:
    """The command with each parameter's value where its option stands; options that do not stand there stay away."""
    words = list(command)
    if shell_script_in(words):
        values = {_plain(name): value for name, value in params}
        return [*words[:-1], IN_A_SCRIPT.sub(lambda found: _in_script(found, values), words[-1])]
    for name, value in params:
        words = _with(words, _plain(name), value)
    return words


def _in_script(found: re.Match[str], values: Mapping[str, Value]) -> str:
    name = _plain(found[1])
    if name not in values:
        return found[0]
    return f"--{found[1]}{found[2]}{shlex.quote(show_value(values[name]))}"


def _with(words: list[str], name: str, value: Value) -> list[str]:
    replaced: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        option, equals, _ = word.partition("=")
        if not option.startswith("--") or _plain(option[2:]) != name:
            replaced.append(word)
        elif equals:
            replaced.append(f"{option}={show_value(value)}")
        elif at < len(words) and not words[at].startswith("--"):
            replaced += [option, show_value(value)]
            at += 1
        elif isinstance(value, bool):
            replaced += [option] if value else []
        else:
            replaced += [option, show_value(value)]
    return replaced


def with_values(params: dict[str, Value], values: Mapping[str, Value]) -> dict[str, Value]:
    """Parameters with other values, each under the name that it has: `batch-size` is `batch_size`."""
    named = {_plain(name): name for name in params}
    return params | {named.get(_plain(name), name): value for name, value in values.items()}


def refuse_unknown(spec: JobSpec, values: Iterable[str]) -> None:
    """Refuse another value for a parameter that a job does not have: nothing would read it."""
    known = {name for name, _ in spec.progress.params}
    known |= {word.partition("=")[0][2:] for word in spec.command if word.startswith("--") and word != "--"}
    script = script_in(spec.command) or shell_script_in(spec.command)
    known |= {found[1] for found in IN_A_SCRIPT.finditer(shell_script_in(spec.command))}
    for name in values:
        if _plain(name) in map(_plain, known) or variable(name) in script:
            continue
        near = difflib.get_close_matches(name, known, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"--set params.{name}=VALUE adds one"
        if not near and known:
            hint = f"it has {', '.join(sorted(known)[:10])}; {hint}"
        raise BadInput(f'the job has no parameter "{name[:80]}"', hint)


def variable(name: str) -> str:
    """The variable in which a rank, or a script, finds a parameter."""
    return "HEADWAY_PARAM_" + "".join(letter if letter.isalnum() else "_" for letter in name).upper()


def _plain(name: str) -> str:
    return name.replace("-", "_")


def show_value(value: Value) -> str:
    """As it is written on a command line: `true`, `0.1`, `adam`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def seed_of(job: Job) -> int:
    """The seed that was asked for, else one made from the id: the same for all attempts, another for each job."""
    seed = job.spec.progress.seed
    if seed is not None:
        return seed
    return int.from_bytes(hashlib.sha256(job.id.encode()).digest()[:4], "big") & SEED_MAX
