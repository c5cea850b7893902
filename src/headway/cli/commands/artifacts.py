"""`headway artifacts` and `cp`: the files that a job has kept, listed and fetched."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.options import connect, job_argument, output_options
from headway.cli.frame.output import Output
from headway.cli.screen import jobs as job_pages
from headway.core.errors import BadInput
from headway.core.units import show_size

attempt_option = click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Those of one attempt.")


@click.group()
def artifacts() -> None:
    """List and fetch the files that a job has kept."""


@artifacts.command("ls")
@job_argument
@attempt_option
@output_options
def list_artifacts(job: str, attempt: int | None, output: Output) -> int:
    """List the files that a job has kept; of each path, the newest attempt's."""
    from headway.client.artifacts import choose

    found = choose(connect(output).artifacts(job), (), attempt)
    output.show(
        {"artifacts": found},
        lambda: job_pages.artifacts(output, found, time.time()),
        lambda: [str(each["path"]) for each in found],
    )
    if not found:
        output.say("nothing is kept; name what to keep: --outputs DIR, or outputs: in the job file")
    return exits.OK


@artifacts.command("get")
@job_argument
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("-C", "--directory", default=".", metavar="DIR", help="Where they go. [default: here]")
@attempt_option
@click.option("--force", is_flag=True, help="Overwrite files of yours that are there and differ.")
@output_options
def get(job: str, paths: Sequence[str], directory: str, attempt: int | None, force: bool, output: Output) -> int:
    """Fetch files that a job has kept: all, or those named; a directory stands for what is in it.

    What broke off is resumed, and each file is checked by its hash before it appears under its name. A file of yours
    that differs is left alone, and then nothing is fetched, unless --force is given.
    """
    from headway.client.artifacts import choose, in_the_way, place_of

    client = connect(output)
    chosen = choose(client.artifacts(job), paths, attempt)
    apart = len({each.get("task") or 0 for each in chosen}) > 1
    places = [place_of(each, os.path.expanduser(directory), apart) for each in chosen]
    if not force and (standing := in_the_way(chosen, places)):
        others = f" and {len(standing) - 1:,} more" if len(standing) > 1 else ""
        raise BadInput(
            f"{standing[0]}{others} would be overwritten; nothing was fetched",
            "-C DIR fetches into another directory, --force overwrites",
        )
    return _fetch(client, job, chosen, places, output)


@click.command()
@click.argument("source", metavar="JOB:PATH")
@click.argument("destination", metavar="DEST")
@attempt_option
@output_options
def cp(source: str, destination: str, attempt: int | None, output: Output) -> int:
    """Copy what a job has kept: a file to a file or into a directory, a directory into a directory."""
    from headway.client.artifacts import choose

    job, colon, path = source.partition(":")
    if not colon or not job or not path.strip("/"):
        raise BadInput(f'"{source[:200]}" is not of the form JOB:PATH', "headway cp mnist:output/model.pt .")
    client = connect(output)
    chosen = choose(client.artifacts(job), [path], attempt)
    target = os.path.expanduser(destination)
    wanted = path.strip("/")
    places = []
    for each in chosen:
        inner = os.path.relpath(str(each["path"]), wanted)
        if inner == ".":
            into = os.path.isdir(target) or destination.endswith("/")
            places.append(os.path.join(target, os.path.basename(wanted)) if into else target)
        elif inner.startswith("../"):
            raise BadInput(f"the server names an artifact {each['path']!r}, which is not below {wanted!r}")
        else:
            base = os.path.join(target, os.path.basename(wanted)) if os.path.isdir(target) else target
            places.append(os.path.join(base, inner))
    return _fetch(client, job, chosen, places, output)


def _fetch(client: Any, job: str, chosen: Sequence[Any], places: Sequence[str], output: Output) -> int:
    from headway.client.artifacts import fetch

    done = [fetch(client, job, each, ".", to=place) for each, place in zip(chosen, places, strict=True)]
    size = sum(int(each["size"]) for each in chosen)
    told = [{"path": each["path"], "at": place} for each, place in zip(chosen, done, strict=True)]
    output.show({"fetched": told}, lambda: "\n".join(done), lambda: done)
    output.say(f"headway: {len(done)} {'file' if len(done) == 1 else 'files'}, {show_size(size)}")
    return exits.OK
