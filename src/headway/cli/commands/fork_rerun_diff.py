"""`headway fork`, `rerun` and `diff`: another job from an old one, and what sets two jobs apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from headway.cli.commands.run import followed, show_submitted
from headway.cli.frame import exits
from headway.cli.frame.options import connect, job_argument, output_options, step_of
from headway.cli.frame.output import Output
from headway.cli.job_flags.flags import values
from headway.cli.screen import jobs as job_pages

detach_option = click.option("-d", "--detach", is_flag=True, help="Submit and return at once.")


@click.command()
@click.argument("which", metavar="JOB[@STEP]")
@click.option("--set", "sets", metavar="PARAM=VALUE", multiple=True, help="Another value for a parameter.")
@detach_option
@output_options
def fork(which: str, sets: Sequence[str], detach: bool, output: Output) -> int:
    """Submit a new job that begins from a checkpoint of another, and follow it.

    \b
    headway fork mnist@1200 --set lr=3e-5     from the checkpoint at step 1200
    headway fork mnist --set lr=3e-5          from the newest
    """
    ref, at, step = which.rpartition("@")
    if not at or (not step.isdecimal() and step != "last"):
        ref, step = (ref, step) if at else (which, "last")
    number = None if step == "last" else step_of(step, "fork")
    client = connect(output)
    return _submitted(client, client.fork(ref, number, values(tuple(sets), "--set")).seen, detach, output)


@click.command()
@job_argument
@detach_option
@output_options
def rerun(job: str, detach: bool, output: Output) -> int:
    """Submit the same job anew, and follow it: the same code, packages, inputs, parameters and seed."""
    client = connect(output)
    of = client.detail(job)
    if not (of.get("spec") or {}).get("bundle"):
        output.say(f"headway: {of['id']} ran in place: the code is whatever lies there now; --bundle keeps it")
    return _submitted(client, client.rerun(of["id"]).seen, detach, output)


@click.command()
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
