"""`headway nodes`: the machines that have called home."""

from __future__ import annotations

import click

from headway.cli import exits, pages
from headway.cli.options import connect, output_options
from headway.cli.output import Output


@click.command()
@output_options
def nodes(output: Output) -> int:
    """List the nodes that have called home, and what is free on them."""
    found = connect(output).nodes()
    output.show({"nodes": found}, lambda: pages.nodes(output, found), lambda: [node["id"] for node in found])
    if not found:
        output.say("no node has called home yet")
    return exits.OK
