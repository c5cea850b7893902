"""The flags that describe a job, made from the words of a description; and what was said by them, as words again.

A word's entry in core/spec says its flags. Here is only what is particular to a command line: the order in which help
shows them, and the words of a few that are more than a value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from headway.cli.frame.options import pair
from headway.core.errors import BadInput
from headway.core.spec.job import WORDS, JobSpec
from headway.core.spec.scheduling import WHEN
from headway.core.spec.words import Flag, Word, Words

TYPES: dict[str, Any] = {"int": int, "float": float}
# The order in which people know them. Flags that are not named here come after these.
FIRST = (
    "--name", "--cpus", "--mem", "--gpus", "--nodes", "--ranks-per-node", "--env", "--env-all", "--env-file", "--stdin",
    "--max-duration", "--max-retries", "--priority", "--queue", "--project", "--pool", "--tag", "--grace",
    "--split-streams", "--workdir", "--dry-run", "--bundle", "--allow-large", "--environment", "--param", "--seed",
    "--input", "--volume", "--outputs", "--checkpoint-keep", "--checkpoint-dir", "--saved-by", "--max-losses",
    "--max-losses-per-day", "--notice-signal", "--stalled-after", "--secret", "--secret-file", "--hold-on-failure",
    "--pending-max", "--array", "--at-once", "--after", "--after-each", "--hold", "--start-at", "--deadline",
    "--estimate", "--zone", "--layout", "--gpu-type", "--label", "--licence", "--launcher", "--force",
)  # fmt: skip
FIRST_TO_CHANGE = (
    "--priority", "--queue", "--pool", "--max-duration", "--max-retries", "--cpus", "--mem", "--gpus", "--after",
    "--start-at", "--deadline", "--estimate", "--zone", "--gpu-type", "--tag",
)  # fmt: skip

OF_A_NEW_JOB = ("--array", "--at-once", "--after-each")

Said = tuple[Word, Flag]
Command = Callable[..., Any]
Option = Callable[[Command], Command]


def flags_of(words: Words[JobSpec]) -> list[Said]:
    return [(entry, flag) for entry in words.all.values() for flag in entry.flags]


def changing_flags_of(words: Words[JobSpec]) -> list[Said]:
    """Those that a waiting job may still be given."""
    return [(entry, flag) for entry, flag in flags_of(words) if entry.changeable and flag.changing is not None]


def option(flag: Flag, says: str = "") -> Option:
    """The flag for click, under its own name."""
    named = [*filter(None, [flag.short]), flag.name, parameter(flag)]
    if flag.value is not None:
        return click.option(*named, is_flag=True, help=says or flag.says)
    kind = click.Choice(flag.choices) if flag.choices else TYPES.get(flag.type)
    return click.option(*named, type=kind, metavar=flag.metavar, multiple=flag.many, help=says or flag.says)


def parameter(flag: Flag) -> str:
    return flag.name[2:].replace("-", "_")


def with_options(command: Command, options: Mapping[str, Option], first: Sequence[str]) -> Command:
    """The command with these flags, in the order of help."""
    in_order = sorted(options, key=lambda name: first.index(name) if name in first else len(first))
    for name in reversed(in_order):
        command = options[name](command)
    return command


def spec_options(command: Command, others: Mapping[str, Option], words: Words[JobSpec] = WORDS) -> Command:
    """The command with the flags of a job, and with others that stand among them."""
    found = {flag.name: option(flag) for _, flag in flags_of(words)}
    return with_options(command, {**found, **others}, FIRST)


def set_options(command: Command, words: Words[JobSpec] = WORDS) -> Command:
    """The command with the flags of what a waiting job may still be given."""
    found = {flag.name: option(flag, flag.changing or "") for _, flag in changing_flags_of(words)}
    return with_options(command, found, FIRST_TO_CHANGE)


def again_options(command: Command, words: Words[JobSpec] = WORDS) -> Command:
    """The command with the flags by which a job that is done again differs."""
    found = {flag.name: option(flag) for _, flag in flags_of(words) if flag.name not in OF_A_NEW_JOB}
    found["--set"] = set_option
    return with_options(command, found, ("--name", "--param", "--set", *FIRST))


set_option = click.option(
    "--set", "sets", metavar="KEY=VALUE", multiple=True, help="Set one key, such as resources.gpus=2."
)


def again_given(
    given: dict[str, Any], sets: Sequence[str], of: Mapping[str, Any], cwd: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Other values of parameters, and other words, that flags say of a job which is done again. `of`: as it was."""
    changes: dict[str, Any] = {}
    for word in sets:
        key, value = pair(word, "--set")
        if key.partition(".")[0] not in WORDS.all:
            raise BadInput(f'--set: "{key[:80]}" is not a key of a job', _hint_for_set(key, value))
        from headway.cli.frame.yaml import set_value

        set_value(changes, key, value)
    for entry, flag in flags_of(WORDS):  # As in `headway set`, a dash takes a word away.
        if given.get(parameter(flag)) == "-":
            del given[parameter(flag)]
            changes[entry.key] = {**changes.get(entry.key, {}), flag.inner: None} if flag.inner else None
    lists = {key: value for key, value in of.items() if isinstance(value, list)}
    said = spec_given(given, {**lists, **changes}, cwd)
    params = said.pop("params", {}) if "params" not in changes else {}
    if said.get("workdir"):
        from headway.client.code.script import workdir

        said["workdir"] = workdir(said["workdir"], cwd)
    return params, {**changes, **said}


def _hint_for_set(key: str, value: str) -> str:
    import difflib

    near = difflib.get_close_matches(key, list(WORDS.all), n=1, cutoff=0.7)
    return f'did you mean "{near[0]}"?' if near else f"--param {key[:80]}={value[:80]} sets a parameter"


def spec_given(
    given: dict[str, Any], base: Mapping[str, Any], cwd: str, words: Words[JobSpec] = WORDS
) -> dict[str, Any]:
    """The words of a job that its flags say; what they say of a part of a word is put beside the file's."""
    found: dict[str, Any] = {}
    for entry, flag in flags_of(words):
        value = given.pop(parameter(flag), None)
        if value is None or value == () or value is False:
            continue
        value = flag.value if flag.value is not None else _read(flag, value, cwd)
        beside = found.get(entry.key, base.get(entry.key) or {})
        if flag.inner and isinstance(beside, Mapping):
            value = {**beside, flag.inner: value}
        elif flag.type == "pairs" and isinstance(beside, Mapping):
            value = {**beside, **value}
        elif flag.inner or flag.type == "pairs":
            continue  # The file says something that cannot be: it is refused for that.
        elif flag.adds and isinstance(beside, list):
            value = [*beside, *value]
        elif isinstance(found.get(entry.key), list):
            value = [*found[entry.key], *value]
        found[entry.key] = value
    return found


def changes_given(given: dict[str, Any], words: Words[JobSpec] = WORDS) -> dict[str, Any]:
    """The words that flags change; a dash takes a word away."""
    changes: dict[str, Any] = {}
    for entry, flag in changing_flags_of(words):
        value = given.pop(parameter(flag))
        if value is None or value == ():
            continue
        value = None if value == "-" else _read(flag, value, "")
        changes[entry.key] = {**changes.get(entry.key, {}), flag.inner: value} if flag.inner else value
    return changes


# --- words that are more than a value -------------------------------------------------------------------------------


def _read(flag: Flag, value: Any, cwd: str) -> Any:
    """What a flag says, as a description has it."""
    if flag.name in ("--input", "--volume"):
        return dict(_places(flag, value, cwd))
    read = PARTICULAR.get(flag.name)
    if read is not None:
        return read(value)
    if flag.type == "pairs":
        return dict(pair(word, flag.name) for word in value)
    return list(value) if flag.many else value


def _places(flag: Flag, given: tuple[str, ...], cwd: str) -> Iterator[tuple[str, str]]:
    """Names and places; a path is the caller's, made absolute."""
    for word in given:
        name, where = pair(word, flag.name)
        if not where:
            raise BadInput(f'{flag.name}: "{word[:80]}" names no place', f"{flag.name} {name[:80]}=PLACE")
        is_url = flag.name == "--input" and "://" in where
        yield name, where if is_url else os.path.normpath(os.path.join(cwd, os.path.expanduser(where)))


def _env(words: tuple[str, ...]) -> dict[str, str]:
    env: dict[str, str] = {}
    for word in words:
        if "=" in word:
            env.update([pair(word, "--env")])
        elif word in os.environ:
            env[word] = os.environ[word]
        else:
            raise BadInput(f'--env: "{word[:80]}" is not set here', f"give it a value: --env {word[:80]}=…")
    return env


def _env_files(paths: tuple[str, ...]) -> dict[str, str]:
    env: dict[str, str] = {}
    for path in paths:
        env |= read_env_file(path)
    return env


def read_env_file(path: str) -> dict[str, str]:
    """Lines of K=V; empty ones and those that begin with # are passed over; quotes around a value are taken off."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read(1 << 20).splitlines()
    except (OSError, ValueError) as error:
        raise BadInput(f'--env-file: "{path}" cannot be read: {getattr(error, "strerror", None) or error}') from None
    env = {}
    for number, line in enumerate(lines, start=1):
        line = line.strip().removeprefix("export ")
        if line and not line.startswith("#"):
            key, value = pair(line, f"--env-file {path}, line {number}")
            value = value.strip()
            quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
            env[key.strip()] = value[1:-1] if quoted else value
    return env


def values(words: Sequence[str], flag: str) -> dict[str, Any]:
    """K=V with V read as in a job file: `3e-5` is a number, `true` a truth value, the rest text."""
    if not words:
        return {}
    from headway.cli.frame.yaml import parse

    return {key: parse(text, f"{flag} {key}") for key, text in (pair(word, flag) for word in words)}


def _signal(word: str) -> str:
    return word.upper() if word.upper().startswith("SIG") else f"SIG{word.upper()}"


def _secret_files(words: tuple[str, ...]) -> dict[str, Any]:
    return {
        variable: {"name": name, "file": True} for variable, name in (pair(word, "--secret-file") for word in words)
    }


def _after(words: tuple[str, ...]) -> list[dict[str, Any]]:
    found = []
    for word in words:
        job, colon, when = word.partition(":")
        if colon and when not in WHEN:
            raise BadInput(f'--after: "{when[:80]}" is not one of {", ".join(WHEN)}', f"--after {job[:80]}:ok")
        found.append({"job": job, "when": when or "ok"})
    return found


def _after_each(words: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{"job": word, "each": True} for word in words]


def _licences(words: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for word in words:
        name, equals, count = word.partition("=")
        try:
            found[name] = int(count) if equals else 1
        except ValueError:
            raise BadInput(f'--licence: "{word[:80]}" is not of the form NAME or NAME=NUMBER') from None
    return found


PARTICULAR: dict[str, Callable[[Any], Any]] = {
    "--after": _after,
    "--after-each": _after_each,
    "--env": _env,
    "--env-file": _env_files,
    "--licence": _licences,
    "--notice-signal": _signal,
    "--param": lambda words: values(words, "--param"),
    "--secret-file": _secret_files,
}
