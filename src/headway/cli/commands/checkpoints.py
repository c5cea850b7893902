"""`headway checkpoints` and `preempt`: what a job has kept of its progress, and asking it to make room."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.options import DURATION, connect, job_argument, jobs_argument, output_options, step_of
from headway.cli.frame.output import Output
from headway.cli.job_flags.selection import for_each
from headway.cli.screen import jobs as job_pages


@click.command()
@job_argument
@click.option("--pin", "pins", metavar="STEP", multiple=True, help="Keep this one, whatever the retention says.")
@click.option("--unpin", "unpins", metavar="STEP", multiple=True, help="Keep it no longer than the retention says.")
@output_options
def checkpoints(job: str, pins: Sequence[str], unpins: Sequence[str], output: Output) -> int:
    """List the checkpoints of a job, newest first, and how each is known to be complete."""
    client = connect(output)
    for word in pins:
        client.pin(job, step_of(word, "--pin"), True)
    for word in unpins:
        client.pin(job, step_of(word, "--unpin"), False)
    found = sorted(client.checkpoints(job), key=lambda each: (-each["step"], -each["attempt"]))
    output.show(
        {"checkpoints": found},
        lambda: job_pages.checkpoints(output, found, time.time()),
        lambda: [str(each["step"]) for each in found],
    )
    if not found:
        output.say("no checkpoint yet; what a job writes to $HEADWAY_CHECKPOINT_DIR becomes one")
    return exits.OK


@click.command()
@jobs_argument
@click.option("--grace", type=DURATION, metavar="TIME", help="Time to save in. [default: the job's own]")
@output_options
def preempt(jobs: Sequence[str], grace: float | None, output: Output) -> int:
    """Let jobs make room: each is told, saves within its grace, and starts again from its newest checkpoint."""
    client = connect(output)

    def ask(ref: str) -> dict[str, Any]:
        answer: dict[str, Any] = client.preempt(ref, grace)
        return answer

    return for_each(output, jobs, ask, lambda job: f"{job['id']} {job['sentence']}")
