"""The command of a job: a list of words, a line of them, or a shell script; and the name that a job gets from it.

However it was written, it is held as words: the first is the program. A script is handed to its interpreter as text.
"""

from __future__ import annotations

import re
import shlex

from headway.core.errors import BadInput
from headway.core.fields import WORD_BYTES_MAX, kind_of, text_bytes

ARGUMENTS_BYTES_MAX = 1 << 20
# A script without a first line of its own ends at the first command that fails, in a pipe too.
SHELL = ("bash", "-eo", "pipefail", "-c")
# What makes of a line more than words: a shell has to read it.
FOR_A_SHELL = re.compile(r"[\n$`|&;<>(){}*?\[\]~#\\!]")
SHELL_WORDS = frozenset((".", ":", "alias", "cd", "command", "eval", "exec", "export", "if", "for", "set", "source"))
SHELL_WORDS |= {"time", "trap", "ulimit", "umask", "unset", "while"}
# By which flag an interpreter takes a program as text.
AS_TEXT = {"sh": "-c", "bash": "-c", "dash": "-c", "ksh": "-c", "zsh": "-c", "python": "-c"}
AS_TEXT |= {"perl": "-e", "ruby": "-e", "node": "-e", "Rscript": "-e"}
SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
SCRIPTS = (".py", ".sh", ".ipynb")


def no_command() -> BadInput:
    return BadInput("job: no command", "give a script, or a command after --")


def command_words(value: object, what: str = "command") -> list[str]:
    """The words of a command, however it was written."""
    if not (value.strip() if isinstance(value, str) else value):
        raise no_command()
    if isinstance(value, str):
        return _of_text(value, what)
    if not isinstance(value, list | tuple):
        raise BadInput(
            f"{what}: expected words or a script, found {kind_of(value)}",
            'write ["python", "train.py"], or a script after command: |',
        )
    return [_word(each, what) for each in value]


def read_command(value: object, what: str) -> tuple[str, ...]:
    words = command_words(value, what)
    for each in words:
        if "\0" in each:
            raise BadInput(f"{what}: a word contains a NUL byte")
        longest = text_bytes(each, what)
        if longest > WORD_BYTES_MAX:
            raise BadInput(
                f'{what}: the word "{each[:20]}…" has {longest:,} bytes; the system takes {WORD_BYTES_MAX:,} at most',
                "put the data in a file and pass its path",
            )
    total = sum(text_bytes(each, what) for each in words)
    if total > ARGUMENTS_BYTES_MAX:
        raise BadInput(
            f"{what}: {total:,} bytes of arguments; at most {ARGUMENTS_BYTES_MAX:,} are taken",
            "put the data in a file and pass its path",
        )
    if not words[0]:
        raise BadInput(f"{what}: the program's name is empty")
    return tuple(words)


def _word(value: object, what: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInput(f"{what}: {value!r} is not a word", "quote it")
    return str(value)


def _of_text(text: str, what: str) -> list[str]:
    if text.startswith("#!"):
        return _by_its_first_line(text, what)
    line = text.strip()
    first = line.split(maxsplit=1)[0]
    if FOR_A_SHELL.search(line) or "=" in first or first in SHELL_WORDS:
        return [*SHELL, text]
    try:
        return shlex.split(line)
    except ValueError as error:
        raise BadInput(f'{what}: "{line[:80]}": {str(error).lower()}', "close the quote") from None


def _by_its_first_line(text: str, what: str) -> list[str]:
    interpreter = text.split("\n", 1)[0][2:].split()
    if not interpreter:
        raise BadInput(f"{what}: its first line names no interpreter", "such as #!/bin/bash -eu")
    named = [word for word in interpreter if not word.startswith("-")]
    program = named[1] if named[0].endswith("/env") and len(named) > 1 else named[0]
    stem = re.sub(r"[\d.]+$", "", program.rsplit("/", 1)[-1])
    if stem not in AS_TEXT:
        raise BadInput(
            f'{what}: "{program[:80]}" is not known to take a script as text',
            f"put the script in a file; known: {', '.join(AS_TEXT)}",
        )
    return [*interpreter, AS_TEXT[stem], text]


def script_in(command: tuple[str, ...] | list[str]) -> str:
    """The script that a command hands to its interpreter as text; empty where it does not."""
    handed = len(command) > 2 and command[-2] in ("-c", "-e") and "\n" in command[-1].strip()
    return command[-1] if handed or tuple(command[:-1]) == SHELL else ""


def shell_script_in(command: tuple[str, ...] | list[str]) -> str:
    """The script, or the line, that a command hands to a shell; empty where it does not."""
    handed = len(command) > 2 and re.fullmatch(r"-[a-z]*c", command[-2])
    return command[-1] if handed and any(word.rsplit("/", 1)[-1] in SHELLS for word in command[:-2]) else ""


def name_for(command: tuple[str, ...]) -> str:
    """A name for people, made from the script or program."""
    words = [word for word in command if word.endswith(SCRIPTS)] or [command[0]]
    script = script_in(command)
    if script:
        inside = [word for line in script.splitlines() if not line.startswith("#") for word in line.split()]
        words = [word for word in inside if word.endswith(SCRIPTS)] or ["script"]
    stem = words[0].rsplit("/", 1)[-1].split(".", 1)[0]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_")[:40] or "job"
