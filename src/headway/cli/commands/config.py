"""`headway config explain`: every setting, its value, and where the value comes from."""

from __future__ import annotations

import difflib
import os

import click

from headway import settings
from headway.cli.frame import exits
from headway.cli.frame.options import output_options
from headway.cli.frame.output import Output
from headway.core.errors import NotFound


@click.group()
def config() -> None:
    """Show the settings, and where each value comes from."""


@config.command()
@click.argument("name", required=False)
@output_options
def explain(name: str | None, output: Output) -> int:
    """Print each setting with its value, its source and what it means. Needs no server."""
    resolved = settings.load(os.environ)
    home = settings.home_from(os.environ)
    names = list(resolved.sources)
    if name is not None and name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        raise NotFound(f'no setting "{name[:80]}"', f'did you mean "{near[0]}"?' if near else "")
    rows = [
        {
            "name": each,
            "value": getattr(resolved.settings, each),
            "source": resolved.sources[each],
            "says": settings.says(each),
        }
        for each in ([name] if name else names)
    ]
    told = {"settings": rows, "config": str(home.config), "data": str(home.data), "state": str(home.state)}

    def page() -> str:
        lines = [(row["name"], str(row["value"]) or '""', row["source"], row["says"]) for row in rows]
        table = output.table(("SETTING", "VALUE", "FROM", "WHAT IT IS"), lines)
        return table if name else f"{table}\n\nconfig: {home.config}\ndata:   {home.data}\nstate:  {home.state}"

    output.show(told, page, lambda: [f"{row['name']}={row['value']}" for row in rows])
    return exits.OK
