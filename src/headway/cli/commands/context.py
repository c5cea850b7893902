"""`headway context`: which server commands work with, by name."""

from __future__ import annotations

import os
from typing import Any

import click

from headway import settings
from headway.cli.commands.login import warn_of_variables
from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.groups import Noun
from headway.cli.frame.options import output_options
from headway.cli.frame.output import Output
from headway.cli.frame.things import done


@click.group(cls=Noun)
def context() -> None:
    """Choose which server commands work with. `headway login` adds one, and chooses it."""


@context.command(name="ls", epilog=examples("headway context ls", "headway context ls -q"))
@output_options
def list_contexts(output: Output) -> int:
    """List the servers that you work with. Asks none of them."""
    rows = _rows()
    heads = ("CONTEXT", "SERVER", "SIGNED IN", "")
    cells = [
        (row["name"], row["server"] or "of this machine", "yes" if row["signed_in"] else "–", _mark(row))
        for row in rows
    ]
    output.show({"contexts": rows}, lambda: output.table(heads, cells), lambda: [row["name"] for row in rows])
    return exits.OK


@context.command(epilog=examples("headway context use lab", "headway context use local  # the server of this machine"))
@click.argument("name", metavar="CONTEXT|URL")
@output_options
def use(name: str, output: Output) -> int:
    """Work with this server from now on, in every terminal."""
    from headway.client.connection import contexts

    home = settings.home_from(os.environ)
    name = contexts.choose(home, name)
    url = settings.read_contexts(home).url(name) or ""
    warn_of_variables(output, url)
    return done(
        output, {"name": name, "server": url}, f"commands work with {url or 'the server of this machine'}", name
    )


@context.command(epilog=examples("headway context rm lab", "headway context rm lab -q"))
@click.argument("name", metavar="CONTEXT")
@output_options
def rm(name: str, output: Output) -> int:
    """Forget a server, and the token for it."""
    from headway.client.connection import contexts, logins

    home = settings.home_from(os.environ)
    was_chosen = settings.read_contexts(home).chosen == name
    url = contexts.forget(home, name)
    if url not in settings.read_contexts(home).known.values():
        logins.save(home, url, "")
    said = f"{name} ({url}) is forgotten"
    if was_chosen:
        said += f"; commands work with {_now()['server'] or 'the server of this machine'}"
    return done(output, {"removed": name, "server": url}, said, name)


@context.command(epilog=examples("headway context show", "headway context show --json"))
@output_options
def show(output: Output) -> int:
    """Show which server commands work with here, and what says so."""
    now = _now()
    said = f"{now['server'] or 'the server of this machine'} (from: {now['source']})"
    output.show(now, lambda: said, lambda: [now["name"] or now["server"]])
    return exits.OK


def _now() -> dict[str, Any]:
    resolved = settings.load(os.environ)
    url, source = resolved.settings.server_url, resolved.sources["server_url"]
    known = settings.read_contexts(settings.home_from(os.environ)).known
    name = next((each for each, at in known.items() if at == url), "") if url else settings.LOCAL
    return {"name": name, "server": url, "source": source}


def _rows() -> list[dict[str, Any]]:
    from headway.client.connection import logins

    home = settings.home_from(os.environ)
    known, now = settings.read_contexts(home).known, _now()
    tokens = logins.read(home)
    rows = [{"name": settings.LOCAL, "server": ""}, *({"name": name, "server": url} for name, url in known.items())]
    if now["server"] and not now["name"]:
        rows.append({"name": "", "server": now["server"]})  # Named by a setting alone.
    return [
        {
            **row,
            "signed_in": any(logins.plain(each) in tokens for each in row["server"].split(",")),
            "used": row["server"] == now["server"],
            "source": now["source"] if row["server"] == now["server"] else "",
        }
        for row in rows
    ]


def _mark(row: dict[str, Any]) -> str:
    if not row["used"]:
        return ""
    chosen = row["source"].startswith("context ") or row["source"] == "built in"
    return "used" if chosen else f"used ({row['source']})"
