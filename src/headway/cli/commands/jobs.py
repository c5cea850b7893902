"""`headway ps`, `describe` and `why`: looking at jobs, and at arrays as one thing each."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.options import connect, job_argument, output_options
from headway.cli.frame.output import Output, on_terminal
from headway.cli.job_flags.selection import filter_options
from headway.cli.screen import jobs as job_pages
from headway.core.errors import NotFound

UNFINISHED = "queued,starting,running,stopping"
ENDED = "succeeded,failed,cancelled"
ENDED_SHOWN = 20
UNFINISHED_SHOWN = 200
ALL = 1_000_000
LOOK_EVERY_S = 2.0


@click.command(
    epilog=examples(
        "headway ps --state running",
        "headway ps -a  # every job, however old",
        "headway ps --tag team=vision --user ada -o wide",
        "headway ps --columns id,name,queue,ran --sort -ran",
        "headway ps --array 4f2a  # the jobs of an array, one by one",
    )
)
@click.option("-a", "--all", "everything", is_flag=True, help="Every job, however old.")
@filter_options
@click.option("--array", metavar="ARRAY", help="The jobs of an array, one by one.")
@click.option("--limit", type=click.IntRange(min=1), help="Show at most this many jobs.")
@click.option("--columns", metavar="COLUMN,...", help=f"Which columns: {', '.join(job_pages.COLUMNS)}.")
@click.option("--sort", metavar="COLUMN", help="Sort by a column; -COLUMN, the largest first.")
@click.option("-w", "--watch", is_flag=True, help="Show it anew every two seconds, until Ctrl-C.")
@output_options
def ps(
    output: Output,
    everything: bool,
    words: Mapping[str, Any],
    array: str | None,
    limit: int | None,
    columns: str | None,
    sort: str | None,
    watch: bool,
) -> int:
    """List unfinished and recently ended jobs, newest first. An array is one row."""
    chosen = job_pages.columns_of(columns, wide=output.wide)
    order = job_pages.order_of(sort)
    client = connect(output)

    def look() -> bool:
        jobs, more = _found(client, words, everything, array, limit)
        if order is not None:
            order(jobs)
        page = lambda: job_pages.jobs(output, jobs, time.time(), chosen)  # noqa: E731
        output.show({"jobs": jobs}, page, lambda: [job["id"] for job in jobs])
        if not jobs:
            output.say("no jobs" if words or array else "no jobs yet; submit one: headway run train.py")
        return more

    if watch and on_terminal(sys.stdout) and not output.machine:
        return watched(look)
    if look():
        output.say("there are more unfinished jobs; -a lists all, --limit so many")
    return exits.OK


def watched(look: Any, every_s: float = LOOK_EVERY_S) -> int:
    """Draw it anew again and again, until Ctrl-C."""
    try:
        while True:
            sys.stdout.write("\x1b[H\x1b[2J")
            look()
            sys.stdout.flush()
            time.sleep(every_s)
    except KeyboardInterrupt:
        return exits.OK


def _found(
    client: Any, words: Mapping[str, Any], everything: bool, array: str | None, limit: int | None
) -> tuple[list[dict[str, Any]], bool]:
    """The rows, and whether there are more unfinished ones than are shown."""
    if array:
        found = client.house.array_counts(array)
        if found is None:
            raise NotFound(f'no array "{array[:80]}"', "headway ps lists arrays and jobs")
        return client.jobs(limit=limit or ALL, **words, array=found["id"]), False
    if everything or "state" in words:
        return _once(client.jobs(limit=limit or ALL, **words, grouped="true")), False
    shown = limit or UNFINISHED_SHOWN
    jobs = client.jobs(limit=shown + 1, **words, state=UNFINISHED, grouped="true")
    more, jobs = len(jobs) > shown, jobs[:shown]
    ended = client.jobs(limit=limit or ENDED_SHOWN, **words, state=ENDED, grouped="true")
    return sorted(_once(jobs + ended), key=lambda job: -job["seq"])[:limit], more


def _once(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each array once: some of its jobs may go on while others have ended."""
    return list({job["id"]: job for job in reversed(jobs)}.values())[::-1]


@click.command(epilog=examples("headway describe mnist", "headway describe 4f2a -o json"))
@job_argument
@output_options
def describe(job: str, output: Output) -> int:
    """Show everything about a job or an array: spec, attempts, outcome and what to do next."""
    client = connect(output)
    array = client.house.array(job)
    if array is not None:
        from headway.cli.screen.arrays import array as page_of

        output.show(array, lambda: page_of(output, array, time.time()), lambda: [array["id"]])
        return exits.OK
    detail = client.detail(job)
    output.show(detail, lambda: job_pages.job(output, detail, time.time()), lambda: [detail["id"]])
    return exits.OK


@click.command(epilog=examples("headway why mnist", "headway why 4f2a -v  # with the evidence"))
@job_argument
@output_options
def why(job: str, output: Output) -> int:
    """Explain in one sentence why a job or an array waits, where it runs, or why it ended."""
    client = connect(output)
    array = client.house.array_counts(job)
    answer = client.why(job) if array is None else client.house.why_array(array["id"])
    output.show(answer, lambda: job_pages.why(output, answer), lambda: [str(answer["sentence"])])
    return exits.OK
