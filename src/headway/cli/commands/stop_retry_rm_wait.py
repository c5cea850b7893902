"""`headway stop`, `retry`, `rm`, `tag` and `wait`: what is asked of jobs that exist.

Which jobs is said in one way for all of them: see job_flags/selection.py. Several jobs, one exit code: the worst.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.options import DURATION, connect, jobs_argument, output_options, pair
from headway.cli.frame.output import Output
from headway.cli.job_flags.selection import Deed, Selection, act, for_each, selection_options
from headway.core.errors import BadInput


@click.command(
    epilog=examples(
        "headway stop mnist",
        "headway stop 4f2a --grace 2m",
        "headway stop --state queued --user ada  # shows which, and asks",
        "headway stop --name 'sweep-*' -y",
    )
)
@selection_options
@click.option("--grace", type=DURATION, metavar="TIME", help="Time between SIGTERM and SIGKILL.")
@click.option("--force", is_flag=True, help="SIGKILL at once.")
@click.option("--drop-files", is_flag=True, help="Give up files that are still being saved.")
@output_options
def stop(chosen: Selection, grace: float | None, force: bool, drop_files: bool, output: Output) -> int:
    """Stop jobs: SIGTERM, then SIGKILL after the grace period.

    Their files are saved first, however long that takes; their CPUs and GPUs are free meanwhile.
    """
    if force and grace:
        raise BadInput("--force and --grace exclude each other", "--force is --grace 0")
    client = connect(output)
    grace_s = 0.0 if force else grace
    more = {"grace_s": grace_s, **({"drop_files": True} if drop_files else {})}
    deed = Deed(
        "stop",
        lambda ref: client.stop(ref, grace_s, drop_files),
        lambda job: f"{job['id']} {job['sentence']}",
        "asked to end",
        more,
    )
    return act(client, output, chosen, deed)


@click.command(
    epilog=examples(
        "headway retry mnist",
        "headway retry --failed 4f2a  # of an array: those that failed",
        "headway retry --state failed --older-than 1h",
    )
)
@selection_options
@click.option("--failed", is_flag=True, help="Only jobs that failed; the same as --state failed.")
@output_options
def retry(chosen: Selection, failed: bool, output: Output) -> int:
    """Retry: a job that is backing off starts now; an ended job is submitted again as a new job.

    Of many, those that failed or were cancelled, and were not retried since.
    """
    if failed:
        chosen = Selection(chosen.refs, {**chosen.words, "state": "failed"}, chosen.yes)
    client = connect(output)
    return act(client, output, chosen, Deed("retry", client.retry, _retried, "submitted again", {}))


@click.command(
    epilog=examples(
        "headway rm mnist",
        "headway rm --state succeeded --older-than 30d  # shows which, and asks",
        "headway rm --tag experiment=old -y",
    )
)
@selection_options
@output_options
def rm(chosen: Selection, output: Output) -> int:
    """Delete ended jobs and their logs."""
    client = connect(output)

    def forget(ref: str) -> dict[str, Any]:
        job: dict[str, Any] = client.detail(ref)
        client.forget(job["id"])
        return job

    told = "{id} ({name}) is forgotten"
    return act(client, output, chosen, Deed("rm", forget, lambda job: told.format(**job), "forgotten", {}))


@click.command(
    epilog=examples(
        "headway tag mnist best=yes",
        "headway tag --name 'sweep-*' --state failed triage=todo",
        "headway tag mnist --remove best",
    )
)
@selection_options
@click.option("--remove", metavar="K", multiple=True, help="Take this tag away.")
@output_options
def tag(chosen: Selection, remove: Sequence[str], output: Output) -> int:
    """Tag jobs, whatever their state: K=V for each tag, after the jobs. --tag chooses by the tags they have."""
    said = [word for word in chosen.refs if "=" in word]
    chosen = Selection(tuple(word for word in chosen.refs if "=" not in word), chosen.words, chosen.yes)
    changes: dict[str, str | None] = dict(pair(word, "tag") for word in said)
    changes |= dict.fromkeys(remove)
    if not changes:
        raise BadInput("no tag is given", "headway tag JOB KEY=VALUE, or --remove KEY")
    client = connect(output)

    def change(ref: str) -> dict[str, Any]:
        job: dict[str, Any] = client.detail(ref)
        for _ in client.selected.each("tag", {"id": job["id"]}, tags=changes):
            pass
        return dict(client.detail(job["id"]))

    return act(client, output, chosen, Deed("tag", change, _tagged, "tagged", {"tags": changes}))


def _tagged(job: dict[str, Any]) -> str:
    tags = ", ".join(f"{key}={value}" for key, value in dict(job.get("tags") or {}).items())
    return f"{job['id']} ({job['name']}) has {f'the tags {tags}' if tags else 'no tags'}"


@click.command(
    epilog=examples(
        "headway wait mnist", "headway wait 4f2a 9c31 --timeout 2h", "headway wait 4f2a --exit-code-from-job"
    )
)
@jobs_argument
@click.option("--timeout", type=DURATION, metavar="TIME", help="Give up after this time (exit code 101).")
@click.option("--exit-code-from-job", is_flag=True, help="Exit with the job's exit code.")
@output_options
def wait(jobs: Sequence[str], timeout: float | None, exit_code_from_job: bool, output: Output) -> int:
    """Wait until jobs, or all jobs of an array, have ended; the exit code says how."""
    client = connect(output)
    give_up_at = None if timeout is None else time.monotonic() + timeout
    worst = exits.OK

    def await_end(ref: str) -> dict[str, Any]:
        nonlocal worst
        left_s = None if give_up_at is None else max(0.0, give_up_at - time.monotonic())
        array = client.house.array_counts(ref)
        with output.watch.over(f"waiting for {ref} to end; headway why {ref} tells how far it is"):
            if array is not None:
                job: dict[str, Any] = client.house.wait_array(array["id"], left_s)[0]
            else:
                job = client.wait(ref, left_s)[0]
        worst = max(worst, exits.for_job(job, exit_code_from_job))
        return job

    return for_each(output, jobs, await_end, lambda job: f"{job['id']} ({job['name']}) {job['sentence']}") or worst


def _retried(job: dict[str, Any]) -> str:
    of = job.get("retry_of")
    return f"{job['id']} ({job['name']}) is submitted, a retry of {of}" if of else f"{job['id']} goes now"
