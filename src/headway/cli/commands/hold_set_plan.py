"""`headway hold`, `release`, `set` and `plan`: what is asked of jobs that wait, and when they will start.

JOB may be an array: then all its jobs are meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from headway.cli.commands.run import WORDS, JobCommand, describe, job_options
from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.options import connect, jobs_argument, output_options
from headway.cli.frame.output import Output
from headway.cli.job_flags.flags import changes_given, set_options
from headway.cli.job_flags.selection import for_each
from headway.cli.screen import cluster as cluster_pages
from headway.core.errors import BadInput


@click.command(epilog=examples("headway hold mnist", "headway hold 4f2a 9c31"))
@jobs_argument
@output_options
def hold(jobs: Sequence[str], output: Output) -> int:
    """Hold queued jobs until they are released."""
    return change_all(output, jobs, {"hold": True}, "held")


@click.command(epilog=examples("headway release mnist", "headway release 4f2a 9c31"))
@jobs_argument
@output_options
def release(jobs: Sequence[str], output: Output) -> int:
    """Release held jobs."""
    return change_all(output, jobs, {"hold": False}, "released")


@click.command(
    name="set",
    epilog=examples("headway set mnist --priority 10", "headway set 4f2a 9c31 --queue night --max-duration 6h"),
)
@jobs_argument
@set_options
@output_options
def set_(jobs: Sequence[str], output: Output, **given: Any) -> int:
    """Change queued jobs: priority, queue, limits."""
    changes = changes_given(given)
    if not changes:
        raise BadInput("nothing to change", "headway set JOB --priority 10")
    return change_all(output, jobs, changes, "changed")


def change_all(output: Output, refs: Sequence[str], changes: Mapping[str, Any], done: str) -> int:
    client = connect(output)

    def change(ref: str) -> dict[str, Any]:
        array = client.house.array_counts(ref)
        if array is not None:
            answer = client.house.change_array(array["id"], changes)
            sentence = f"{answer['changed']:,} jobs {done}"
            return {"id": array["id"], "array": answer["array"], "sentence": sentence}
        job: dict[str, Any] = client.house.change(ref, changes)
        return job

    return for_each(output, refs, change, lambda job: f"{job['id']} {job['sentence']}")


@click.command(
    cls=JobCommand,
    context_settings={"allow_interspersed_args": False},
    epilog=examples("headway plan  # when each waiting job will start", "headway plan --gpus 8 train.py"),
)
@job_options
@click.option("--limit", type=click.IntRange(1, 500), default=100, help="At most so many of those that wait.")
@output_options
def plan(output: Output, limit: int, dry_run: bool, force: bool, **given: Any) -> int:
    """Show when a job would start, without submitting it; without a job, when each queued job will start."""
    client = connect(output)
    if not given[WORDS] and not given["file"]:
        found = client.house.outlook(limit)
        output.show(
            found, lambda: cluster_pages.outlook(output, found["jobs"]), lambda: [job["id"] for job in found["jobs"]]
        )
        if not found["jobs"]:
            output.say("nothing waits for a place")
        return exits.OK
    answer = client.house.plan(describe(client, given).raw)
    output.show(answer, lambda: f"{answer['name']} {answer['sentence']}", lambda: [str(answer["sentence"])])
    return exits.OK
