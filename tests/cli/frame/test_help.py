"""Every command's help: two examples at least, which the real parser takes, and one grammar for all."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from headway.cli.frame.examples import typed
from headway.cli.main import headway as root
from headway.cli.table import COMMANDS, OLD, SECTIONS

NOUN_VERBS = {"create", "ls", "show", "set", "rm"}
# Redirections and variables are the shell's.
SHELL = {">", "<", "|", "&&"}


def leaves() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(root, info_name="headway")
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {verb}", inner) for verb, inner in command.commands.items())
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield name, command


@pytest.mark.parametrize("name", [name for name, _ in leaves()])
def test_a_command_shows_two_examples_that_it_understands(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token.txt").touch()
    (tmp_path / "monday").mkdir()
    shown = typed(dict(leaves())[name].epilog)
    assert len(shown) >= 2
    for line in shown:
        words = shlex.split(line)
        cut = next((at for at, word in enumerate(words) if word in SHELL), len(words))
        assert (
            words[: 1 + len(name.split())] == ["headway", *name.split()] or words[1].startswith("-") or name == "doctor"
        )
        parse(words[1:cut])


def parse(words: list[str]) -> None:
    """What the parser makes of these words, down to the command, without running it."""
    context = root.make_context("headway", list(words))
    command: click.Command = root
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        name, found, after = command.resolve_command(context, rest)
        assert found is not None
        command, context = found, found.make_context(name, after, parent=context)


@pytest.mark.parametrize("noun", [name for name, command in leaves() if " " in name])
def test_verbs_of_nouns_mean_the_same_everywhere(noun: str) -> None:
    verb = noun.split()[1]
    assert verb not in {"list", "add", "delete", "remove", "get-all", "update", "new", "describe", "info"}


@pytest.mark.parametrize("name", [name for name, _ in leaves() if name != "completion"])
def test_every_command_takes_o(name: str) -> None:
    assert any("-o" in param.opts for param in dict(leaves())[name].params)


def test_help_has_sections_and_each_command_once(headway: Callable) -> None:
    shown = headway("--help").out
    for section in SECTIONS:
        assert f"\n{section}:\n" in shown
    for word in OLD:
        assert f"\n  {word} " not in shown


def test_help_is_a_word_too(headway: Callable) -> None:
    assert headway("help", "ps").out == headway("ps", "--help").out
    assert headway("help").out == headway("--help").out
    assert headway("help", "queue", "ls").out == headway("queue", "ls", "--help").out


def test_a_noun_alone_shows_its_verbs(headway: Callable) -> None:
    said = headway("queue")
    assert (said.code, said.err) == (0, "")
    assert said.out == headway("queue", "--help").out


def test_a_verb_that_is_nearly_right_is_named(headway: Callable) -> None:
    said = headway("queue", "shwo", "x")
    assert said.code == 2
    assert said.err == 'error: no command "headway queue shwo"\nhint: did you mean "show"?\n'


def test_flags_for_all_go_before_a_command_and_after_it(headway: Callable) -> None:
    after = headway("version", "--json").out
    assert headway("--json", "version").out == after
    assert headway("-o", "json", "version").out == after
    assert headway("-o", "json", "version", "-o", "table").out.startswith("headway ")
