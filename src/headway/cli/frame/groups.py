"""Groups of commands: the root, whose modules are loaded only when their command is typed, and nouns such as `queue`.

Both say what was nearly meant. Words of former versions stay, hidden: they are typed in scripts.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

import click

from headway.cli.frame import exits

# name: (module, attribute, one line for the overview)
Table = dict[str, tuple[str, str, str]]
Resolved = tuple[str | None, click.Command | None, list[str]]


class LazyGroup(click.Group):
    """The root: commands in sections. `old` maps a former noun to today's; alone, it listed."""

    def __init__(
        self, *args: Any, sections: Mapping[str, Table], aliases: dict[str, str], old: dict[str, str], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self.table = {name: row for table in sections.values() for name, row in table.items()}
        self.aliases = aliases
        self.old = old

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = self.aliases.get(cmd_name) or self.old.get(cmd_name, cmd_name)
        if name not in self.table:
            return None
        module, attribute, _ = self.table[name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return _offering(ctx, command, name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Resolved:
        name = args[0]
        if name == "help":
            if not args[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
            name = args[0]
        command = self.get_command(ctx, name)
        if command is None:
            if name.startswith("-"):
                ctx.fail(f'unknown flag "{name[:80]}" before a command')
            ctx.fail(f'no command "{name[:80]}"{_near(name, [*self.table, *self.aliases, "help"])}')
        if name not in self.old:
            return name, command, args[1:]
        return self.old[name], command, as_verb(ctx, command, args[1:])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Click would make an ordinary error of it.
            raise click.exceptions.Exit(exits.reader_gone()) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, table in self.sections.items():
            with formatter.section(section):
                formatter.write_dl([(name, row[2]) for name, row in table.items()])
        with formatter.section("Aliases"):
            formatter.write_dl([(alias, f"the same as {name}") for alias, name in self.aliases.items()])


class Noun(click.Group):
    """A thing and what can be done with it: `headway queue ls`. `old` maps former verbs to today's."""

    def __init__(self, *args: Any, old: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.old = dict(old or {})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = self.old.get(cmd_name, cmd_name)
        command = super().get_command(ctx, name)
        return command and _offering(ctx, command, name, str(self.name))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Resolved:
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None:
            ctx.fail(f'no command "{ctx.command_path} {name[:80]}"{_near(name, self.commands)}')
        return self.old.get(name, name), command, args[1:]


def _offering(ctx: click.Context, command: click.Command, name: str, noun: str = "") -> click.Command:
    """The command; where the shell asks after Tab, with what can be offered for its words."""
    if not ctx.resilient_parsing:
        return command
    from headway.cli.frame.complete import attach

    return attach(command, name, noun)


def as_verb(ctx: click.Context, noun: click.Command, args: list[str]) -> list[str]:
    """What followed a noun of before: a verb as today's, and else what was to be listed."""
    if ctx.resilient_parsing or args[:1] in (["--help"], ["-h"]):
        return args
    known = isinstance(noun, click.Group) and args and noun.get_command(ctx, args[0]) is not None
    return args if known else ["ls", *args]


def _near(name: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1)
    return f' (did you mean "{near[0]}"?)' if near else ""
