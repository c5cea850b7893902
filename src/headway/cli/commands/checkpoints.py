"""`headway checkpoint` and `preempt`: what a job has kept of its progress, and asking it to make room."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.groups import Noun
from headway.cli.frame.options import DURATION, connect, job_argument, jobs_argument, output_options, step_of
from headway.cli.frame.output import Output
from headway.cli.job_flags.selection import for_each
from headway.cli.screen import jobs as job_pages
from headway.core.errors import BadInput
from headway.core.steps import named
from headway.core.units import show_size


@click.group(cls=Noun)
def checkpoint() -> None:
    """Checkpoints: what a job has kept of its progress."""


@checkpoint.command("ls", epilog=examples("headway checkpoint ls mnist", "headway checkpoint ls mnist -o json"))
@job_argument
@click.option("--pin", "pins", metavar="STEP", multiple=True, hidden=True)
@click.option("--unpin", "unpins", metavar="STEP", multiple=True, hidden=True)
@output_options
def list_checkpoints(job: str, pins: Sequence[str], unpins: Sequence[str], output: Output) -> int:
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


@checkpoint.command(
    "get",
    epilog=examples(
        "headway checkpoint get mnist@last",
        "headway checkpoint get mnist@1200 here",
        "headway checkpoint get mnist@best --metric val_acc --mode max",
    ),
)
@click.argument("ref", metavar="JOB[@STEP|@best|@last]")
@click.argument("directory", metavar="[DIR]", required=False)
@click.option("--metric", default="", metavar="NAME", help="Of @best: by which metric. [default: the job's own]")
@click.option("--mode", type=click.Choice(["min", "max"]), help="Of @best: whether small or large is good.")
@click.option("--force", is_flag=True, help="Overwrite files of yours that are there and differ.")
@output_options
def get(ref: str, directory: str | None, metric: str, mode: str | None, force: bool, output: Output) -> int:
    """Fetch the files of a checkpoint: of a step, of the best by a metric, or the last.

    They go into DIR, or into a new directory here that is named after the job and the step. What broke off is resumed,
    and each file is checked by its hashes before it appears under its name.
    """
    from headway.cli.screen.transfers import Transfer, shown
    from headway.client import checkpoints as kept

    name, which = kept.split_ref(ref)
    client = connect(output)
    job = client.detail(name)
    chosen = kept.pick(client.checkpoints(job["id"]), which, job, metric, mode or "")
    step, unit = int(chosen["step"]), str(chosen.get("unit") or "step")
    files = client.checkpoint_files(job["id"], step, parts=True)
    base = os.path.expanduser(directory) if directory else f"{job['name']}-{unit}-{step}"
    places = kept.places_of(files, base)
    standing = [
        place
        for file, place in zip(files, places, strict=True)
        if os.path.lexists(place) and not kept.is_here(file, place)
    ]
    if standing and not force:
        others = f" and {len(standing) - 1:,} more" if len(standing) > 1 else ""
        raise BadInput(
            f"{standing[0]}{others} would be overwritten; nothing was fetched",
            "name another directory, or overwrite with --force",
        )
    size = sum(int(file["size"]) for file in files)
    with shown(output, Transfer("fetching", size, len(files))) as transfer:
        for file, place in zip(files, places, strict=True):
            kept.fetch_file(client, job["id"], step, file, place, transfer.add)
            transfer.file_done()
    told = {"job": job["id"], "step": step, "unit": unit, "directory": base, "files": places}
    output.show({"fetched": told}, lambda: base, lambda: [base])
    count = f"{len(files):,} {'file' if len(files) == 1 else 'files'}, {show_size(size)}"
    output.say(f"headway: checkpoint of {job['id']} at {named(step, unit)}: {count}")
    return exits.OK


@checkpoint.command(
    epilog=examples("headway checkpoint pin mnist@1200", "headway checkpoint pin mnist@best mnist@last")
)
@click.argument("refs", metavar="JOB@STEP...", nargs=-1, required=True)
@output_options
def pin(refs: Sequence[str], output: Output) -> int:
    """Keep checkpoints, whatever the retention says."""
    return _pin(refs, True, output)


@checkpoint.command(epilog=examples("headway checkpoint unpin mnist@1200", "headway checkpoint unpin mnist@best -q"))
@click.argument("refs", metavar="JOB@STEP...", nargs=-1, required=True)
@output_options
def unpin(refs: Sequence[str], output: Output) -> int:
    """Keep checkpoints no longer than the retention says."""
    return _pin(refs, False, output)


def _pin(refs: Sequence[str], pinned: bool, output: Output) -> int:
    from headway.client import checkpoints as kept

    for ref in refs:
        if "@" not in ref:
            raise BadInput(f'"{ref[:200]}" names no step', f"write {ref[:60]}@1200, {ref[:60]}@best or {ref[:60]}@last")
    wanted = [kept.split_ref(ref) for ref in refs]
    client = connect(output)

    def change(name: str, which: str) -> dict[str, Any]:
        if which.isdecimal():
            client.pin(name, int(which), pinned)
            return {"job": name, "step": int(which), "pinned": pinned}
        job = client.detail(name)
        step = int(kept.pick(client.checkpoints(job["id"]), which, job)["step"])
        client.pin(job["id"], step, pinned)
        return {"job": name, "step": step, "pinned": pinned}

    done = [change(name, which) for name, which in wanted]
    says = "is kept until it is unpinned" if pinned else "is kept as long as the retention says"
    output.show(
        {"checkpoints": done},
        lambda: "\n".join(f"{each['job']}@{each['step']} {says}" for each in done),
        lambda: [f"{each['job']}@{each['step']}" for each in done],
    )
    return exits.OK


@click.command(epilog=examples("headway preempt mnist", "headway preempt mnist cifar --grace 2m"))
@jobs_argument
@click.option("--grace", type=DURATION, metavar="TIME", help="Time to save in. [default: the job's own]")
@output_options
def preempt(jobs: Sequence[str], grace: float | None, output: Output) -> int:
    """Let jobs make room: each is told, saves within its grace, and starts again from its newest checkpoint."""
    client = connect(output)

    def ask(ref: str) -> dict[str, Any]:
        array = client.house.array_counts(ref)
        if array is None:
            answer: dict[str, Any] = client.preempt(ref, grace)
            return answer
        running = [job["id"] for job in client.jobs(limit=1_000_000, array=array["id"], state="running")]
        for job in running:
            client.preempt(job, grace)
        return {"id": array["id"], "done": running, "sentence": f"{len(running):,} jobs make room", "many": True}

    return for_each(output, jobs, ask, lambda job: f"{job['id']} {job['sentence']}")
