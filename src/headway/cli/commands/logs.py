"""`headway logs`: what a job wrote, attempt after attempt, or one attempt to the byte."""

from __future__ import annotations

import time
from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.options import DURATION, connect, job_argument, output_options
from headway.cli.frame.output import Output
from headway.core.errors import BadInput


@click.command()
@job_argument
@click.option("-f", "--follow", "following", is_flag=True, help="Follow until the job ends, across attempts.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="The last N lines (of each rank).")
@click.option("--since", type=DURATION, metavar="TIME", help="Only output of the last, say, 10m.")
@click.option("--attempt", metavar="N|last", help="One attempt only, byte for byte.")
@click.option("--rank", type=click.IntRange(min=0), help="One rank only.")
@click.option(
    "--raw", is_flag=True, help="On a terminal too, every byte: also what moves its cursor or sets its title."
)
@output_options
def logs(
    job: str,
    following: bool,
    tail: int | None,
    since: float | None,
    attempt: str | None,
    rank: int | None,
    raw: bool,
    output: Output,
) -> int:
    """Show a job's log: all attempts in order, with a marked line between them.

    With -f, the exit code says how the job ended, as with run.
    """
    from headway.cli.screen.follow import LogReader, follow
    from headway.client.story import Story

    client = connect(output)
    narrow: dict[str, Any] = {"attempt": which(attempt), "rank": rank, "tail": tail}
    narrow["since_at"] = None if since is None else time.time() - since
    if following:
        return follow(client, job, output, raw=raw, **narrow)
    if output.machine:
        output.show(client.logs_index(job, fresh=True), lambda: "", list)
        return exits.OK
    written, reader = False, LogReader(output, raw)
    for piece in Story(client, job, **narrow).tell():
        written = written or bool(piece.data)
        reader.emit(piece)
    reader.end()
    if not written and tail is None and since is None:
        answer = client.why(job)
        output.say(f"headway: job {answer['job']} has written nothing; it {answer['sentence']}")
    return exits.OK


def which(attempt: str | None) -> int | str | None:
    if attempt is None or attempt == "last":
        return attempt
    if not attempt.isdecimal() or int(attempt) < 1:
        raise BadInput(f'--attempt: "{attempt[:80]}" is neither a number from 1 on nor "last"')
    return int(attempt)
