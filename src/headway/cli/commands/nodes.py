"""`headway node`: the machines that have called home, and closing them."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.groups import Noun
from headway.cli.frame.options import connect, output_options
from headway.cli.frame.output import Output
from headway.cli.frame.things import done, named, show
from headway.cli.screen import jobs as job_pages


@click.group(cls=Noun)
def node() -> None:
    """Nodes: the machines that have called home."""


@node.command(name="ls", epilog=examples("headway node ls", "headway node ls -o json"))
@output_options
def list_nodes(output: Output) -> int:
    """List the nodes that have called home, and what is free on them."""
    found = connect(output).nodes()
    output.show({"nodes": found}, lambda: job_pages.nodes(output, found), lambda: [node["id"] for node in found])
    if not found:
        output.say("no node has called home yet; headway pool ls shows where nodes come from")
    return exits.OK


@node.command(name="show", epilog=examples("headway node show local-1", "headway node show local-1 -o json"))
@click.argument("node")
@output_options
def show_node(node: str, output: Output) -> int:
    """Show one node: its state, what it has, what is free and what runs there."""
    return show(output, named(connect(output).nodes(), node, "node", "id"), node)


@node.command(epilog=examples("headway node cordon local-1", "headway node cordon local-1 -q"))
@click.argument("node")
@output_options
def cordon(node: str, output: Output) -> int:
    """Place nothing more on a node. What runs there keeps running."""
    return _close(output, node, "cordon", f"{node} is cordoned")


@node.command(epilog=examples("headway node uncordon local-1", "headway node uncordon local-1 --json"))
@click.argument("node")
@output_options
def uncordon(node: str, output: Output) -> int:
    """Let a node take tasks again."""
    return _close(output, node, "uncordon", f"{node} takes tasks again")


@node.command(
    epilog=examples(
        "headway node drain local-1", "headway node drain local-1 --stop  # what runs there saves and goes on elsewhere"
    )
)
@click.argument("node")
@click.option("--stop", is_flag=True, help="Preempt what runs there: it saves and restarts elsewhere.")
@output_options
def drain(node: str, stop: bool, output: Output) -> int:
    """Place nothing more on a node until it is empty."""
    return _close(output, node, "drain", f"{node} is being drained", stop)


@node.command(epilog=examples("headway node release lab-3", "headway node release lab-3 --force"))
@click.argument("node")
@click.option("--force", is_flag=True, help="Also while jobs are there: they end there and start elsewhere.")
@output_options
def release(node: str, force: bool, output: Output) -> int:
    """Give it back: all that is Headway's on it ends. A node that its pool always has comes back new."""
    answer: dict[str, Any] = connect(output).house.release_node(node, force)
    return done(output, answer, f"{node} is given back", node)


@node.command(epilog=examples("headway node revoke lab-3", "headway node revoke lab-3 --json"))
@click.argument("node")
@output_options
def revoke(node: str, output: Output) -> int:
    """Revoke a node's token, for example because somebody may have read it.

    Local nodes and ssh hosts are handed a new one within seconds, and go on. A node that was ordered is cut off.
    """
    answer: dict[str, Any] = connect(output).house.revoke_node(node)
    again = "it is handed a new one" if answer["given_again"] else f"give it back: headway node release {node}"
    return done(output, answer, f"the token of {node} is revoked; {again}", node)


def _close(output: Output, node: str, how: str, said: str, stop: bool = False) -> int:
    answer: dict[str, Any] = connect(output).house.close_node(node, how, stop)
    return done(output, answer, said, node)
