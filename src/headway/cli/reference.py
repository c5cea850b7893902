"""Writes the reference pages from what the program itself knows, so that they cannot lie: `make docs`.

A test compares docs/reference with what is written here.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from headway.cli import reference_job_file, reference_sdk
from headway.cli.frame import exits
from headway.cli.frame.examples import typed
from headway.cli.main import headway
from headway.cli.table import ALIASES, SECTIONS
from headway.core.job.causes import TABLE, Again
from headway.core.job.states import FOLLOWS, HEARS, MEANS
from headway.core.spec.job import RESOURCE_KEYS, WORDS
from headway.settings import Settings
from headway_wire import causes, kinds
from headway_wire.kinds import Message
from headway_wire.reply import Reply, VisitCall
from headway_wire.sync import PROTOCOL, SyncRequest

WRITTEN = "<!-- Written by `make docs`; edit the sources, not this page. -->"
PLACE = Path("docs/reference")
SHARED = ("form", "as_json", "quiet", "verbose", "no_color")
VARIABLES = {
    "HEADWAY_HOME": "one directory for everything (config, data, state); without it, the XDG directories",
    "HEADWAY_TOKEN": "the token for the server; without it, the private file in the home",
    "HEADWAY_CONTEXT": "the context (`headway context ls`) that commands use, before the chosen one",
    "HEADWAY_SYSTEM_CONFIG": "the system's settings file; `/etc/headway/config.toml` when left out",
    "NO_COLOR": "no colours, whatever its value",
}
KINDS: dict[type[kinds.WordKind], str] = {
    kinds.Anything: "anything",
    kinds.Figures: "numbers by name",
    kinds.Flag: "true or false",
    kinds.Name: "text",
    kinds.Number: "number",
    kinds.Others: "any other words, in the same object",
    kinds.Shown: "text for people",
    kinds.TaskWord: "task",
    kinds.Text: "text",
    kinds.WholeNumber: "whole number",
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
        "protocol.md": protocol_page(),
        "job-file.md": text("Job files", reference_job_file.INTRODUCTION, *reference_job_file.parts()),
        "sdk.md": text("The SDK", reference_sdk.INTRODUCTION, *reference_sdk.parts()),
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
    for section, commands in SECTIONS.items():
        parts.append([f"## {section}"])
        for name in commands:
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
    lines = [f"### {context.command_path}", "", f"`{usage}`", "", *help_lines(command)]
    flags = flags_table(command, context, shared=False)
    lines += ["", *flags] if len(flags) > 2 else []
    shown = typed(command.epilog)
    return lines + (["", "```console", *(f"$ {line}" for line in shown), "```"] if shown else [])


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
        "Later sources win: built in, the system's `config.toml`, the user's `config.toml`, the chosen context (for "
        "`server_url`), `HEADWAY_<NAME>` in the "
        "environment, flags. `headway config ls` shows each value and where it comes from. Durations (`_s`) may "
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


def protocol_page() -> str:
    says = (
        f"What a node and its server say to each other, protocol {PROTOCOL}: `POST /agent/sync` carries a SyncRequest "
        "and is answered by a Reply. How the two go together, and what else travels, is told in "
        "[The agent's protocol](../explanation/agent-protocol.md). Words that a side does not know are passed over; a "
        "missing word means what is said under *missing*; one of a wrong type is refused by its name. What is always "
        "said is marked with a dot (·)."
    )
    parts = [["## What agents tell"], *map(message_part, reachable(SyncRequest))]
    parts += [["## What servers answer"], *map(message_part, [*reachable(Reply), VisitCall])]
    parts.append(["## Causes that agents name", "", ", ".join(f"`{cause}`" for cause in agent_causes())])
    return text("Words of the agent's protocol", says, *parts)


def reachable(message: type[Message]) -> list[type[Message]]:
    """A message and all that it holds, each once, in the order in which they are met."""
    found = [message]
    for each in found:
        found += [held for held in map(held_in, kinds_of(each)) if held is not None and held not in found]
    return list(dict.fromkeys(found))


def kinds_of(message: type[Message]) -> list[kinds.WordKind]:
    return [each.metadata["kind"] for each in fields(message)]  # type: ignore[arg-type]


def held_in(kind: kinds.WordKind) -> type[Message] | None:
    while isinstance(kind, kinds.Maybe | kinds.Many | kinds.Table):
        kind = kind.kind
    if isinstance(kind, kinds.Beside):
        kind = kind.record
    return kind.type if isinstance(kind, kinds.Record) else None


def message_part(message: type[Message]) -> list[str]:
    rows = [
        (
            f"`{said['named'] or name}`{' ·' if said['always'] else ''}",
            kind_said(said["kind"]),
            missing(said),
            said["about"],
        )
        for name, said in ((each.name, each.metadata) for each in fields(message))  # type: ignore[arg-type]
    ]
    doc = inspect.cleandoc(message.__doc__ or "").replace("\n", " ")
    return [f"### {message.__name__}", "", doc, "", *table(("word", "kind", "missing", "meaning"), rows)]


def missing(said: Mapping[str, Any]) -> str:
    value = said["missing"]
    if value is kinds.MISSING:
        return "refused"
    return "nothing" if value in (None, "", (), {}) or isinstance(value, Message) else f"`{json.dumps(value)}`"


def kind_said(kind: kinds.WordKind) -> str:
    """A kind of word, as a reader of the page knows it."""
    inner = held_in(kind)
    if isinstance(kind, kinds.Maybe):
        return f"{kind_said(kind.kind)}, or null"
    if isinstance(kind, kinds.Beside):
        return f"the words of {inner.__name__ if inner else ''}, in the same object"
    if isinstance(kind, kinds.Many):
        return f"list of {kind_said(kind.kind)}"
    if isinstance(kind, kinds.EachTask | kinds.Table):
        return f"by {'task' if isinstance(kind, kinds.EachTask) else 'name'}: {kind_said(kind.kind)}"
    if isinstance(kind, kinds.Pair):
        return f"[{kind_said(kind.first)}, {kind_said(kind.second)}]"
    if isinstance(kind, kinds.Record):
        return f"[{kind.type.__name__}](#{kind.type.__name__.lower()})"
    if isinstance(kind, kinds.OneOf):
        return ", ".join(f"`{word}`" for word in kind.words)
    return KINDS[type(kind)]


def agent_causes() -> list[str]:
    return sorted(value for name, value in vars(causes).items() if name.isupper() and isinstance(value, str))


def main() -> int:
    PLACE.mkdir(parents=True, exist_ok=True)
    for name, page in pages().items():
        (PLACE / name).write_text(page)
        print(PLACE / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
