"""A group of commands whose modules are loaded only when their command is typed, with aliases and near misses."""

from __future__ import annotations

import importlib
from typing import Any

import click

from headway.cli.frame import exits

# name: (module, attribute, one line for the overview)
Table = dict[str, tuple[str, str, str]]


class LazyGroup(click.Group):
    def __init__(self, *args: Any, table: Table, aliases: dict[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table
        self.aliases = aliases

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = self.aliases.get(cmd_name, cmd_name)
        if name not in self.table:
            return None
        module, attribute, _ = self.table[name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None:
            if name.startswith("-"):
                ctx.fail(f'unknown flag "{name[:80]}" before a command')
            import difflib

            near = difflib.get_close_matches(name, [*self.table, *self.aliases], n=1)
            hint = f' (did you mean "{near[0]}"?)' if near else ""
            ctx.fail(f'no command "{name[:80]}"{hint}')
        return name, command, args[1:]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Click would make an ordinary error of it.
            raise click.exceptions.Exit(exits.reader_gone()) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, row[2]) for name, row in self.table.items()])
        with formatter.section("Aliases"):
            formatter.write_dl([(alias, f"the same as {name}") for alias, name in self.aliases.items()])
