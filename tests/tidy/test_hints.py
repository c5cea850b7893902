"""What messages tell people to type exists: every flag, every command, and the flag of that command."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click

from headway.cli.main import headway as root
from headway.core import errors

SOURCES = Path(__file__).parents[2] / "src"
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
TYPED = re.compile(r"headway ((?:[a-z-]+ ?){1,3})([^;\n]*)")
TOLD_BY = {name for name, value in vars(errors).items() if isinstance(value, type)} | {"CauseRow", "Row", "say"}
OF_OTHERS = {"--to", "--create-home"}  # Of jupyter and useradd, which hints name too.
CONTEXT = click.Context(root, info_name="headway")


def messages() -> Iterator[tuple[str, str]]:
    """Every text in a message for people, with its place."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            called = getattr(node, "func", None)
            if getattr(called, "id", getattr(called, "attr", "")) not in TOLD_BY:
                continue
            for each in ast.walk(node):
                if isinstance(each, ast.JoinedStr):
                    parts = [part.value if isinstance(part, ast.Constant) else "X" for part in each.values]
                    yield f"{path.relative_to(SOURCES)}:{each.lineno}", "".join(map(str, parts))
                elif isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield f"{path.relative_to(SOURCES)}:{each.lineno}", each.value


def flags(command: click.Command) -> set[str]:
    found = {word for each in command.params for word in (*each.opts, *each.secondary_opts)} | {"--help"}
    if isinstance(command, click.Group):
        for name in command.list_commands(CONTEXT):
            inner = command.get_command(CONTEXT, name)
            found |= flags(inner) if inner else set()
    return found


def test_every_flag_that_a_message_names_exists() -> None:
    known = flags(root) | OF_OTHERS
    wrong = [f"{where}: {flag}" for where, text in messages() for flag in FLAG.findall(text) if flag not in known]
    assert not wrong, "\n".join(wrong)


def test_every_command_that_a_message_names_exists_and_has_the_flags_that_are_named_with_it() -> None:
    wrong = []
    for where, text in messages():
        for words, rest in TYPED.findall(text):
            command: click.Command = root
            for word in words.split():
                if not isinstance(command, click.Group):
                    break
                inner = command.get_command(CONTEXT, word)
                if inner is None and command.invoke_without_command and command is not root:
                    break
                if inner is None:
                    wrong.append(f'{where}: "headway {words}" names no command')
                    break
                command = inner
            wrong += [f"{where}: headway {words}{flag}" for flag in FLAG.findall(rest) if flag not in flags(command)]
    assert not wrong, "\n".join(wrong)
