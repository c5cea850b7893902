"""`headway events`: what happened to a job, or lately to all, and which call each of it came of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.moments import MOMENT
from headway.cli.frame.options import connect, output_options
from headway.cli.frame.output import Output
from headway.cli.screen import events as event_pages

EXAMPLES = examples(
    "headway events mnist",
    "headway events mnist -f  # and go on until the job ends",
    "headway events --since 1h --kind NodeSilent --kind NodeLost",
    "headway events --request 201d5b83.1",
)


@click.command(epilog=EXAMPLES)
@click.argument("job", required=False)
@click.option("-f", "--follow", "following", is_flag=True, help="Go on: until the job ends, or without one for ever.")
@click.option("--since", type=MOMENT, metavar="TIME", help="Only what happened after: 10m ago, 14:30, a date.")
@click.option("--until", type=MOMENT, metavar="TIME", help="Only what happened before: as --since.")
@click.option("--kind", "kinds", multiple=True, metavar="EVENT", help="Only events of this kind; may be repeated.")
@click.option("--request", metavar="ID", help="Only what came of this call, or of this turn of the leader.")
@click.option("--limit", type=click.IntRange(min=1, max=100_000), default=500, help="Look at this many at most.")
@output_options
def events(job: str | None, following: bool, limit: int, output: Output, **only: Any) -> int:
    """Show what happened to a job, oldest first; without a job, what happened lately to all of them.

    REQUEST names the call that an event came of: a command that was typed, a turn of the server, or a node's report.
    """
    client = connect(output)
    one = client.detail(job)["id"] if job else ""
    found = [event for event in client.past_events(one, limit) if _wanted(event, **only)]
    if not following or not output.machine:
        output.show(
            {"events": found},
            lambda: event_pages.events(output, found, not one),
            lambda: [str(each["seq"]) for each in found],
        )
    if following and not (one and found and found[-1]["kind"] in event_pages.ENDS):
        after = client.past_events(one, 1)
        return _follow(client, one, max((each["seq"] for each in after), default=0), output, only)
    if not found:
        output.say("no events" if job or any(only.values()) else "no events yet")
    return exits.OK


def _follow(client: Any, job: str, after: int, output: Output, only: Mapping[str, Any]) -> int:
    """Tell events as they come: a line each, for programs an object in a line."""
    import json

    for event in client.events(after, job):
        if _wanted(event, **only):
            told = json.dumps(event) if output.machine else event_pages.line(event, not job)
            click.echo(str(event["seq"]) if output.quiet and not output.machine else told)
        if job and event["kind"] in event_pages.ENDS:
            break
    return exits.OK


def _wanted(
    event: Mapping[str, Any], since: float | None, until: float | None, kinds: tuple[str, ...], request: str | None
) -> bool:
    in_time = (since is None or event["at"] >= since) and (until is None or event["at"] <= until)
    return in_time and (not kinds or event["kind"] in kinds) and (request is None or event.get("request") == request)
