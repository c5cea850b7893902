"""Writes the reference pages from what the program itself knows, so that they cannot lie: `make docs`.

A test compares docs/reference with what is written here.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

import click

from headway.cli.frame import exits
from headway.cli.main import ALIASES, COMMANDS, headway
from headway.core.job.causes import TABLE, Again
from headway.core.job.states import FOLLOWS, HEARS, MEANS
from headway.core.spec.job import RESOURCE_KEYS, WORDS
from headway.settings import Settings

WRITTEN = "<!-- Written by `make docs`; edit the sources, not this page. -->"
PLACE = Path("docs/reference")
SHARED = ("form", "as_json", "quiet", "verbose", "no_color")
VARIABLES = {
    "HEADWAY_HOME": "one directory for everything (config, data, state); without it, the XDG directories",
    "HEADWAY_TOKEN": "the token for the server; without it, the private file in the home",
    "HEADWAY_SYSTEM_CONFIG": "the system's settings file; `/etc/headway/config.toml` when left out",
    "NO_COLOR": "no colours, whatever its value",
}
AGAIN = {
    Again.NEVER: "no",
    Again.IN_BUDGET: "while retries last, with a growing pause; costs one",
    Again.AT_ONCE: "yes, free of charge",
}


def pages() -> dict[str, str]:
    return {
        "cli.md": cli_page(),
        "settings.md": settings_page(),
        "states.md": states_page(),
        "causes.md": causes_page(),
    }


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def text(title: str, says: str, *parts: Sequence[str]) -> str:
    lines = [f"# {title}", "", WRITTEN, "", says, ""]
    for part in parts:
        lines += [*part, ""]
    return "\n".join(lines)


def cli_page() -> str:
    root = click.Context(headway, info_name="headway", max_content_width=110)
    parts: list[Sequence[str]] = [["## Flags of every command", "", *shared_flags(root)]]
    for name in COMMANDS:
        command = headway.get_command(root, name)
        assert command is not None
        parts += command_parts(command, click.Context(command, root, info_name=name))
    aliases = ", ".join(f"`{alias}` = `{name}`" for alias, name in ALIASES.items())
    parts.append(["## Aliases", "", aliases])
    keys = [*WORDS.says.items(), *((f"resources.{key}", says) for key, says in RESOURCE_KEYS.items())]
    parts.append(["## Keys of a job file", "", *table(("key", "meaning"), ((f"`{key}`", says) for key, says in keys))])
    codes = table(("code", "meaning"), ((str(code), says) for code, says in exits.MEANINGS.items()))
    parts.append(["## Exit codes", "", *codes])
    return text(
        "The command line", "Data goes to stdout, messages to stderr. `JOB` is an id, its beginning, or a name.", *parts
    )


def shared_flags(root: click.Context) -> list[str]:
    command = headway.get_command(root, "version")
    assert command is not None
    return flags_table(command, click.Context(command, root), shared=True)


def command_parts(command: click.Command, context: click.Context) -> list[list[str]]:
    if isinstance(command, click.Group):
        found = [own_part(command, context)] if command.invoke_without_command else []
        for name, inner in command.commands.items():
            found += command_parts(inner, click.Context(inner, context, info_name=name))
        return found
    return [own_part(command, context)]


def own_part(command: click.Command, context: click.Context) -> list[str]:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    lines = [f"## {context.command_path}", "", f"`{usage}`", "", *help_lines(command)]
    flags = flags_table(command, context, shared=False)
    return lines + (["", *flags] if len(flags) > 2 else [])


def help_lines(command: click.Command) -> list[str]:
    """The command's help; what `\\b` keeps from being wrapped becomes a block of code."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        kept = paragraph.startswith("\b")
        body = paragraph.removeprefix("\b").strip("\n").splitlines()
        lines += ["```", *body, "```", ""] if kept else [" ".join(line.strip() for line in body), ""]
    return lines[:-1]


def flags_table(command: click.Command, context: click.Context, *, shared: bool) -> list[str]:
    rows = []
    for param in command.get_params(context):
        record = param.get_help_record(context)
        ours = isinstance(param, click.Option) and "--help" not in param.opts
        if record and ours and (param.name in SHARED) == shared:
            rows.append((f"`{record[0]}`", record[1]))
    return table(("flag", "meaning"), rows)


def settings_page() -> str:
    rows = [
        (f"`{each.name}`", f"`{each.default!r}`" if each.default == "" else f"`{each.default}`", each.metadata["says"])
        for each in fields(Settings)
    ]
    says = (
        "Later sources win: built in, the system's `config.toml`, the user's `config.toml`, `HEADWAY_<NAME>` in the "
        "environment, flags. `headway config explain` shows each value and where it comes from. Durations (`_s`) may "
        "be written `30s`, `10m`, `6h`, `2d`; sizes (`_bytes`) `512Mi`, `16G`."
    )
    variables = [
        "## Other variables",
        "",
        *table(("variable", "meaning"), ((f"`{n}`", s) for n, s in VARIABLES.items())),
    ]
    return text("Settings", says, table(("setting", "built in", "meaning"), rows), variables)


def states_page() -> str:
    arrows = [
        f"    {state.value} --> {after.value}" for state in FOLLOWS for after in FOLLOWS if after in FOLLOWS[state]
    ]
    ends = [f"    {state.value} --> [*]" for state in FOLLOWS if state.ended]
    diagram = ["```mermaid", "stateDiagram-v2", "    [*] --> queued", *arrows, *ends, "```"]
    rows = [
        (f"`{state.value}`", says, ", ".join(f"`{name}`" for name in HEARS[state]) or "nothing")
        for state, says in MEANS.items()
    ]
    says = "Where a job is. Why it is there is its cause, or its reason to wait. What a state does not hear is late."
    return text("States of a job", says, diagram, table(("state", "meaning", "hears"), rows))


def causes_page() -> str:
    rows = [
        (f"`{cause.value}`", row.whose.value, f"the attempt {row.says}", AGAIN[row.again], row.hint)
        for cause, row in TABLE.items()
    ]
    says = "Every end has one cause; this table says whose it is, whether the job is tried again, and what it costs."
    return text("Causes", says, table(("cause", "whose", "what happened", "tried again", "what to do"), rows))


def main() -> int:
    PLACE.mkdir(parents=True, exist_ok=True)
    for name, page in pages().items():
        (PLACE / name).write_text(page)
        print(PLACE / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
