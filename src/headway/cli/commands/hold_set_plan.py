"""`headway hold`, `release`, `set` and `plan`: what is asked of jobs that wait, and when they will start.

JOB may be an array: then all its jobs are meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from headway.cli.commands.run import WORDS, JobCommand, describe, job_options
from headway.cli.commands.stop_retry_rm_wait import for_each
from headway.cli.frame import exits
from headway.cli.frame.options import connect, jobs_argument, output_options, pair
from headway.cli.frame.output import Output
from headway.cli.job_flags.scheduling import wishes_given
from headway.cli.screen import cluster as cluster_pages
from headway.core.errors import BadInput, Conflict, NotFound


@click.command()
@jobs_argument
@output_options
def hold(jobs: Sequence[str], output: Output) -> int:
    """Hold queued jobs until they are released."""
    return change_all(output, jobs, {"hold": True}, "held")


@click.command()
@jobs_argument
@output_options
def release(jobs: Sequence[str], output: Output) -> int:
    """Release held jobs."""
    return change_all(output, jobs, {"hold": False}, "released")


@click.command(name="set")
@jobs_argument
@click.option("--priority", type=int, help="Larger numbers go first.")
@click.option("--queue", help="Queue to submit to.")
@click.option("--pool", help="Use only this pool; - is any.")
@click.option("--max-duration", metavar="TIME", help="Time limit of an attempt; - is no limit.")
@click.option("--max-retries", "retries", type=int, help="Retries after its own failure.")
@click.option("--cpus", type=float, help="Processors per node.")
@click.option("--mem", "memory", metavar="SIZE", help="Memory per node.")
@click.option("--gpus", type=int, help="GPUs per node.")
@click.option("--after", metavar="JOB[:ok|any|failed]", multiple=True, help="Start once that job has ended.")
@click.option("--start-at", metavar="TIME", help="Start no earlier than this; - is at once.")
@click.option("--deadline", metavar="TIME", help="Deadline; - clears it.")
@click.option("--estimate", metavar="TIME", help="Expected run time.")
@click.option("--zone", help="The zone of its nodes; - is any.")
@click.option("--gpu-type", help="Only GPUs of this type; - is any.")
@click.option("--tag", "tags", metavar="K=V", multiple=True, help="Label, for finding it again.")
@output_options
def set_(jobs: Sequence[str], output: Output, **given: Any) -> int:
    """Change queued jobs: priority, queue, limits."""
    changes = changes_given(given)
    if not changes:
        raise BadInput("nothing to change", "headway set JOB --priority 10")
    return change_all(output, jobs, changes, "changed")


def changes_given(given: dict[str, Any]) -> dict[str, Any]:
    """The words that flags change; a dash takes a word away."""
    after, tags = given.pop("after"), given.pop("tags")
    amounts = {key: value for key in ("cpus", "memory", "gpus") if (value := given.pop(key)) is not None}
    changes = {key: None if value == "-" else value for key, value in given.items() if value is not None}
    if amounts:
        changes["resources"] = amounts
    if after:
        none: dict[str, Any] = dict.fromkeys(
            ("array", "start_at", "deadline", "estimate", "zone", "layout", "gpu_type", "launcher")
        )
        none |= {"after": after, "after_each": (), "labels": (), "licences": (), "hold": False}
        changes["after"] = wishes_given(none, {})["after"]
    if tags:
        changes["tags"] = dict(pair(word, "--tag") for word in tags)
    return changes


def change_all(output: Output, refs: Sequence[str], changes: Mapping[str, Any], done: str) -> int:
    client = connect(output)

    def change(ref: str) -> dict[str, Any]:
        try:
            job: dict[str, Any] = client.house.change(ref, changes)
        except (Conflict, NotFound):
            if client.house.array(ref) is None:
                raise
            answer = client.house.change_array(ref, changes)
            return {"id": ref, "array": answer["array"], "sentence": f"{answer['changed']} jobs {done}"}
        return job

    return for_each(output, refs, change, lambda job: f"{job['id']} {job['sentence']}")


@click.command(cls=JobCommand, context_settings={"allow_interspersed_args": False})
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
