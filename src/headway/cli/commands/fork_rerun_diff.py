"""`headway fork`, `rerun` and `diff`: another job from an old one, and what sets two jobs apart."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from headway.cli.commands.run import followed, show_submitted
from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.options import connect, job_argument, output_options
from headway.cli.frame.output import Output
from headway.cli.job_flags.flags import again_given, again_options
from headway.cli.screen import jobs as job_pages

detach_option = click.option("-d", "--detach", is_flag=True, help="Submit and return at once.")


@click.command(
    epilog=examples(
        "headway fork mnist@1200 --param lr=3e-5  # from the checkpoint at step 1200",
        "headway fork mnist --gpus 2 --set checkpoint.keep_last=5  # from the newest",
        "headway fork mnist@best --name mnist-b",
    )
)
@click.argument("which", metavar="JOB[@STEP|@best|@last]")
@again_options
@detach_option
@output_options
def fork(which: str, sets: Sequence[str], detach: bool, output: Output, **given: Any) -> int:
    """Submit a new job that begins from a checkpoint of another, and follow it.

    Flags say what is different: the rest is as it was.
    """
    from headway.client import checkpoints

    ref, step = checkpoints.split_ref(which)
    client = connect(output)
    of = client.detail(ref)
    number = int(step) if step.isdecimal() else None
    if step == checkpoints.BEST:
        number = int(checkpoints.pick(client.checkpoints(of["id"]), step, of)["step"])
    params, changes = again_given(given, sets, of.get("spec") or {}, os.getcwd())
    return _submitted(client, client.fork(of["id"], number, params, changes=changes).seen, detach, output)


@click.command(
    epilog=examples(
        "headway rerun train  # the same once more",
        "headway rerun train --gpus 2 --param lr=3e-5 --name train-2",
        "headway rerun train --set max_duration=12h --env WANDB_MODE=offline",
    )
)
@job_argument
@again_options
@detach_option
@output_options
def rerun(job: str, sets: Sequence[str], detach: bool, output: Output, **given: Any) -> int:
    """Submit the same job anew, and follow it: the same code, packages, inputs, parameters and seed.

    Flags say what is different: the rest is as it was.
    """
    client = connect(output)
    of = client.detail(job)
    params, changes = again_given(given, sets, of.get("spec") or {}, os.getcwd())
    made = client.rerun(of["id"], params=params, changes=changes)
    if not (of.get("spec") or {}).get("bundle"):
        output.say(f"headway: {of['id']} ran in place: the code is whatever lies there now; --bundle keeps it")
    return _submitted(client, made.seen, detach, output)


@click.command(epilog=examples("headway diff train train-2", "headway diff k7m2xq4w p3n8wz1d -o json"))
@click.argument("one", metavar="A")
@click.argument("other", metavar="B")
@output_options
def diff(one: str, other: str, output: Output) -> int:
    """Show what differs between two jobs: code, packages, parameters, description, hardware, results, course."""
    found = connect(output).diff(one, other)
    output.show(found, lambda: job_pages.difference(found, one, other), lambda: [name for name in found if found[name]])
    return exits.OK


def _submitted(client: Any, job: dict[str, Any], detach: bool, output: Output) -> int:
    return show_submitted(output, job) if detach else followed(client, job, output)
