"""`headway stop`, `retry`, `rm` and `wait`: what is asked of jobs that exist.

Several jobs, one exit code: the worst.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.options import DURATION, connect, jobs_argument, output_options
from headway.cli.frame.output import Output
from headway.core.errors import BadInput, Conflict, HeadwayError, NotFound


@click.command()
@jobs_argument
@click.option("--grace", type=DURATION, metavar="TIME", help="Time between SIGTERM and SIGKILL.")
@click.option("--force", is_flag=True, help="SIGKILL at once.")
@click.option("--drop-files", is_flag=True, help="Give up files that are still being saved.")
@output_options
def stop(jobs: Sequence[str], grace: float | None, force: bool, drop_files: bool, output: Output) -> int:
    """Stop jobs: SIGTERM, then SIGKILL after the grace period.

    Their files are saved first, however long that takes; their CPUs and GPUs are free meanwhile.
    """
    if force and grace:
        raise BadInput("--force and --grace exclude each other", "--force is --grace 0")
    client = connect(output)

    def ask(ref: str) -> dict[str, Any]:
        grace_s = 0.0 if force else grace
        try:
            answer: dict[str, Any] = client.stop(ref, grace_s, drop_files)
        except (Conflict, NotFound):
            if client.house.array(ref) is None:
                raise
            told = client.house.stop_array(ref, grace_s, drop_files)
            return {"id": ref, "array": told["array"], "sentence": f"{told['changed']} jobs were asked to end"}
        return answer

    return for_each(output, jobs, ask, lambda job: f"{job['id']} {job['sentence']}")


@click.command()
@jobs_argument
@output_options
def retry(jobs: Sequence[str], output: Output) -> int:
    """Retry: a job that is backing off starts now; an ended job is submitted again as a new job."""
    return for_each(output, jobs, connect(output).retry, _retried)


@click.command()
@jobs_argument
@output_options
def rm(jobs: Sequence[str], output: Output) -> int:
    """Delete ended jobs and their logs."""
    client = connect(output)

    def forget(ref: str) -> dict[str, Any]:
        job: dict[str, Any] = client.detail(ref)
        client.forget(job["id"])
        return job

    return for_each(output, jobs, forget, lambda job: f"{job['id']} ({job['name']}) is forgotten")


@click.command()
@jobs_argument
@click.option("--timeout", type=DURATION, metavar="TIME", help="Give up after this time (exit code 101).")
@click.option("--exit-code-from-job", is_flag=True, help="Exit with the job's exit code.")
@output_options
def wait(jobs: Sequence[str], timeout: float | None, exit_code_from_job: bool, output: Output) -> int:
    """Wait until jobs have ended; the exit code says how."""
    client = connect(output)
    give_up_at = None if timeout is None else time.monotonic() + timeout
    worst = exits.OK

    def await_end(ref: str) -> dict[str, Any]:
        nonlocal worst
        left_s = None if give_up_at is None else max(0.0, give_up_at - time.monotonic())
        try:
            job: dict[str, Any] = client.wait(ref, left_s)[0]
        except (Conflict, NotFound):
            if client.house.array(ref) is None:
                raise
            job = array_as_job(*client.house.wait_array(ref, left_s))
        worst = max(worst, exits.for_job(job, exit_code_from_job))
        return job

    return for_each(output, jobs, await_end, lambda job: f"{job['id']} ({job['name']}) {job['sentence']}") or worst


def array_as_job(array: dict[str, Any], ended: bool) -> dict[str, Any]:
    """An array as if it were one job: it succeeded if all of its jobs did."""
    states = array["states"]
    state = next((each for each in ("failed", "cancelled") if states.get(each)), "succeeded") if ended else "running"
    said = ", ".join(f"{count} {name}" for name, count in states.items())
    return {**array, "state": state, "cause": None, "exit_code": None, "sentence": said}


def for_each(
    output: Output, refs: Sequence[str], act: Callable[[str], dict[str, Any]], tell: Callable[[dict[str, Any]], str]
) -> int:
    """Do it to each job, go on after an error, and show what came of it."""
    done: list[dict[str, Any]] = []
    code = exits.OK
    for ref in refs:
        try:
            job = act(ref)
        except HeadwayError as error:
            if len(refs) == 1:
                raise
            failed = exits.for_error(error)
            output.error(error, failed)
            code = code or failed
            continue
        done.append(job)
        if not output.machine:
            output.show(job, lambda job=job: tell(job), lambda job=job: [job["id"]])  # type: ignore[misc]
    if output.machine:
        output.show({"jobs": done}, lambda: "", list)
    return code


def _retried(job: dict[str, Any]) -> str:
    of = job.get("retry_of")
    return f"{job['id']} ({job['name']}) is submitted, a retry of {of}" if of else f"{job['id']} goes now"
