"""`headway ps`, `describe` and `why`: looking at jobs."""

from __future__ import annotations

import time

import click

from headway.cli.frame import exits
from headway.cli.frame.options import connect, job_argument, output_options
from headway.cli.frame.output import Output
from headway.cli.screen import jobs as job_pages
from headway.core.errors import BadInput

UNFINISHED = ("queued", "starting", "running", "stopping")
ENDED = ("succeeded", "failed", "cancelled")
ENDED_SHOWN = 20
UNFINISHED_SHOWN = 200
ALL = 1_000_000


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Every job, however old.")
@click.option("--state", metavar="STATE,...", help="Only jobs in these states.")
@click.option("-n", "--name", help="Only jobs of this name.")
@click.option("--project", help="Only jobs of this project.")
@click.option("--queue", help="Only jobs of this queue.")
@click.option("--user", help="Only jobs of this user.")
@click.option("--limit", type=click.IntRange(min=1), help="Show at most this many jobs.")
@output_options
def ps(
    output: Output,
    everything: bool,
    state: str | None,
    name: str | None,
    project: str | None,
    queue: str | None,
    user: str | None,
    limit: int | None,
) -> int:
    """List unfinished and recently ended jobs, newest first."""
    wanted = states(state)
    narrowed = {"name": name, "project": project, "queue": queue, "user": user}
    only = {key: value for key, value in narrowed.items() if value}
    client = connect(output)
    more = False
    if everything or wanted:
        chosen = {"state": ",".join(wanted)} if wanted else {}
        jobs = client.jobs(limit=limit or ALL, **chosen, **only)
    else:
        shown = limit or UNFINISHED_SHOWN
        jobs = client.jobs(limit=shown + 1, state=",".join(UNFINISHED), **only)
        more, jobs = len(jobs) > shown, jobs[:shown]
        ended = client.jobs(limit=limit or ENDED_SHOWN, state=",".join(ENDED), **only)
        jobs = sorted(jobs + ended, key=lambda job: -job["seq"])[:limit]
    output.show({"jobs": jobs}, lambda: job_pages.jobs(output, jobs, time.time()), lambda: [job["id"] for job in jobs])
    if more:
        output.say("there are more unfinished jobs; -a lists all, --limit so many")
    if not jobs:
        output.say("no jobs" if only or wanted else "no jobs yet; submit one: headway run train.py")
    return exits.OK


def states(text: str | None) -> list[str]:
    wanted = [word.strip().lower() for word in (text or "").split(",") if word.strip()]
    for word in wanted:
        if word not in UNFINISHED + ENDED:
            raise BadInput(f'--state: "{word[:80]}" is not a state', "states: " + ", ".join(UNFINISHED + ENDED))
    return wanted


@click.command()
@job_argument
@output_options
def describe(job: str, output: Output) -> int:
    """Show everything about a job: spec, attempts, outcome and what to do next."""
    detail = connect(output).detail(job)
    output.show(detail, lambda: job_pages.job(output, detail, time.time()), lambda: [detail["id"]])
    return exits.OK


@click.command()
@job_argument
@output_options
def why(job: str, output: Output) -> int:
    """Explain in one sentence why a job waits, where it runs, or why it ended."""
    answer = connect(output).why(job)
    output.show(answer, lambda: job_pages.why(output, answer), lambda: [str(answer["sentence"])])
    return exits.OK
