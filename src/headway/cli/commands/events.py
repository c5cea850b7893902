"""`headway events`: what happened to a job, or lately to all, and which call each of it came of."""

from __future__ import annotations

import click

from headway.cli.frame import exits
from headway.cli.frame.options import connect, output_options
from headway.cli.frame.output import Output
from headway.cli.screen import events as event_pages


@click.command()
@click.argument("job", required=False)
@click.option("--request", metavar="ID", help="Only what came of this call, or of this turn of the leader.")
@click.option("--limit", type=click.IntRange(min=1, max=100_000), default=500, help="Look at this many at most.")
@output_options
def events(job: str | None, request: str | None, limit: int, output: Output) -> int:
    """Show what happened to a job, oldest first; without a job, what happened lately to all of them."""
    client = connect(output)
    found = client.past_events(client.detail(job)["id"] if job else "", limit)
    if request:
        found = [event for event in found if event.get("request") == request]
    output.show(
        {"events": found}, lambda: event_pages.events(output, found), lambda: [str(each["seq"]) for each in found]
    )
    if not found:
        output.say("no events" if job or request else "no events yet")
    return exits.OK
