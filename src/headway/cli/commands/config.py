"""`headway config`: every setting, its value, where the value comes from, and a line of the user's file."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from typing import Any

import click

from headway import settings
from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.groups import Noun
from headway.cli.frame.options import output_options, pair
from headway.cli.frame.output import Output
from headway.cli.frame.things import done
from headway.core.errors import NotFound


@click.group(cls=Noun, old={"explain": "ls"})
def config() -> None:
    """Show the settings, where each value comes from, and change those of your own file."""


@config.command(name="ls", epilog=examples("headway config ls", "headway config ls -o json"))
@click.argument("name", required=False)
@output_options
def list_settings(name: str | None, output: Output) -> int:
    """List each setting with its value, its source and what it means. Needs no server."""
    rows = _rows(name)
    home = settings.home_from(os.environ)
    told = {"settings": rows, "config": str(home.config), "data": str(home.data), "state": str(home.state)}

    def page() -> str:
        lines = [(row["name"], str(row["value"]) or '""', row["source"], row["says"]) for row in rows]
        table = output.table(("SETTING", "VALUE", "FROM", "WHAT IT IS"), lines)
        return table if name else f"{table}\n\nconfig: {home.config}\ndata:   {home.data}\nstate:  {home.state}"

    output.show(told, page, lambda: [f"{row['name']}={row['value']}" for row in rows])
    return exits.OK


@config.command(epilog=examples("headway config show server_url", "headway config show -q local_cpus"))
@click.argument("name")
@output_options
def show(name: str, output: Output) -> int:
    """Show one setting; with -q its value alone."""
    (row,) = _rows(name)
    page = f"{row['name']} = {row['value']!r}\nfrom: {row['source']}\n{row['says']}"
    output.show(row, lambda: page, lambda: [str(row["value"])])
    return exits.OK


@config.command(name="set", epilog=examples("headway config set local_cpus=4", "headway config set server_wait_s=5m"))
@click.argument("words", metavar="NAME=VALUE...", nargs=-1, required=True)
@output_options
def set_(words: Sequence[str], output: Output) -> int:
    """Write settings into your config.toml. A server that runs takes them when it is restarted."""
    given = dict(pair(word, "NAME=VALUE") for word in words)
    for name, value in given.items():
        _known(name)
        settings.load(os.environ, {name: value})  # Says what is wrong with the value.
    path = settings.home_from(os.environ).config / "config.toml"
    for name, value in given.items():
        settings.write(path, name, value)
    return done(
        output, given, f"written to {path}; a server takes it when it starts: headway server restart", str(path)
    )


@config.command(epilog=examples("headway config rm local_cpus", "headway config rm local_cpus -q"))
@click.argument("name")
@output_options
def rm(name: str, output: Output) -> int:
    """Remove a setting from your config.toml: it is what it was before."""
    _known(name)
    path = settings.home_from(os.environ).config / "config.toml"
    if not settings.write(path, name, None):
        raise NotFound(f"{name} is not set in {path}", f"headway config show {name}")
    return done(output, {"removed": name}, f"{name} is removed from {path}", name)


def _known(name: str) -> None:
    names = list(settings.load(os.environ).sources)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        raise NotFound(f'no setting "{name[:80]}"', f'did you mean "{near[0]}"?' if near else "headway config ls")


def _rows(name: str | None) -> list[dict[str, Any]]:
    resolved = settings.load(os.environ)
    if name is not None:
        _known(name)
    return [
        {
            "name": each,
            "value": getattr(resolved.settings, each),
            "source": resolved.sources[each],
            "says": settings.says(each),
        }
        for each in ([name] if name else resolved.sources)
    ]
