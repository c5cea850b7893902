"""`headway artifact`: the files that a job has kept. `cp`: those, and what lies in the directory of one that runs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.groups import Noun
from headway.cli.frame.options import connect, job_argument, output_options
from headway.cli.frame.output import Output
from headway.cli.screen import jobs as job_pages
from headway.core.errors import BadInput, Conflict, HeadwayError, NotFound
from headway.core.units import show_size

paths_argument = click.argument("paths", metavar="[PATH]...", nargs=-1)
attempt_option = click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Those of one attempt.")


@click.group(cls=Noun)
def artifact() -> None:
    """Artifacts: the files that a job has kept."""


@artifact.command("ls", epilog=examples("headway artifact ls mnist", "headway artifact ls mnist '*.pt' --attempt 2"))
@job_argument
@paths_argument
@attempt_option
@output_options
def list_artifacts(job: str, paths: Sequence[str], attempt: int | None, output: Output) -> int:
    """List the files that a job has kept (all, or those named); of each path, the newest attempt's."""
    from headway.client.artifacts import choose

    found = choose(connect(output).artifacts(job), paths, attempt)
    output.show(
        {"artifacts": found},
        lambda: job_pages.artifacts(output, found, time.time()),
        lambda: [str(each["path"]) for each in found],
    )
    if not found:
        output.say("nothing is kept; name what to keep: --outputs DIR, or outputs: in the job file")
    return exits.OK


@artifact.command(
    "get",
    epilog=examples(
        "headway artifact get mnist  # all of them, below the current directory",
        "headway artifact get mnist '*.pt' plots -C here",
    ),
)
@job_argument
@paths_argument
@click.option("-C", "--directory", default=".", metavar="DIR", help="Where they go. [default: here]")
@attempt_option
@click.option("--force", is_flag=True, help="Overwrite files of yours that are there and differ.")
@output_options
def get(job: str, paths: Sequence[str], directory: str, attempt: int | None, force: bool, output: Output) -> int:
    """Fetch files that a job has kept: all, or those named; a directory stands for what is in it.

    Of patterns, * and ? stop at a slash and ** does not; one without a slash is for names in every directory. Quote
    them, or the shell takes them for files of this machine.

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
    return fetched(client, job, chosen, places, output)


def fetched(client: Any, job: str, chosen: Sequence[Any], places: Sequence[str], output: Output) -> int:
    """Bring artifacts to their places, with a bar where it takes long, and say what came."""
    from headway.cli.screen.transfers import Transfer, shown
    from headway.client.artifacts import fetch

    size = sum(int(each["size"]) for each in chosen)
    done = []
    with shown(output, Transfer("fetching", size, len(chosen))) as transfer:
        for each, place in zip(chosen, places, strict=True):
            done.append(fetch(client, job, each, ".", to=place, on_bytes=transfer.add))
            transfer.file_done()
    told = [{"path": each["path"], "at": place} for each, place in zip(chosen, done, strict=True)]
    output.show({"fetched": told}, lambda: "\n".join(done), lambda: done)
    output.say(f"headway: {len(done):,} {'file' if len(done) == 1 else 'files'}, {show_size(size)}")
    return exits.OK


CP_EXAMPLES = examples(
    "headway cp mnist:output/model.pt .",
    "headway cp mnist:logs ./logs  # a directory, of a job that runs",
    "headway cp config.yaml mnist:config.yaml  # into a job that runs",
    "headway cp --attempt 2 mnist:output/model.pt old.pt",
)


@click.command(epilog=CP_EXAMPLES)
@click.argument("source", metavar="SOURCE")
@click.argument("destination", metavar="DEST")
@click.option("--rank", type=click.IntRange(min=0), help="Of the node of this rank; the first one, when left out.")
@click.option("--kept", is_flag=True, help="What the job has kept (headway artifact ls), though it runs.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="What this attempt has kept.")
@output_options
def cp(source: str, destination: str, rank: int | None, kept: bool, attempt: int | None, output: Output) -> int:
    """Copy a file or a directory out of a job, or into one that runs. One of SOURCE and DEST is JOB:PATH.

    Of a job that runs, PATH is in its directory (or absolute), as it is now. Of one that has ended, or what is not
    there any more, it is what the job has kept. As with cp, a file that is there is overwritten.
    """
    theirs, ours = job_path(source), job_path(destination)
    if bool(theirs) == bool(ours):
        raise BadInput(
            "one of the two is to be JOB:PATH, and the other a path of this machine",
            "headway cp mnist:output/model.pt . copies out, headway cp config.yaml mnist:config.yaml copies in",
        )
    if ours:
        if kept or attempt is not None:
            raise BadInput("--kept and --attempt are for copying out: what a job has kept does not change")
        return _into(connect(output), source, ours, rank, output)
    assert theirs is not None
    client = connect(output)
    if not kept and attempt is None and client.detail(theirs[0])["state"] in ("running", "stopping"):
        done = _out_of(client, theirs, destination, rank, output)
        if done is not None:
            return done
    if rank is not None:
        raise Conflict(f"job {theirs[0]} does not run there: what it has kept has no rank", "leave out --rank")
    return _kept(client, theirs, destination, attempt, output)


def job_path(words: str) -> tuple[str, str] | None:
    """`JOB:PATH`, or None for a path of this machine: one with a slash before the colon, or that is there."""
    job, colon, path = words.partition(":")
    if not colon or "/" in job or not job:
        return None
    if not path:
        raise BadInput(f'"{words[:200]}" names no path', f"headway cp {job}:output/model.pt .")
    return job, path


def _into(client: Any, source: str, to: tuple[str, str], rank: int | None, output: Output) -> int:
    from headway.cli.screen.transfers import Transfer, shown
    from headway.client.job_directory import copy_in, size_of

    job, path = to
    local = os.path.expanduser(source)
    with shown(output, Transfer("sending")) as transfer:
        copy_in(client, local, job, path, rank, transfer.set)
    size = size_of(local)
    output.show({"sent": {"job": job, "path": path, "bytes": size}}, lambda: "", list)
    output.say(f"headway: {show_size(size)} are at {path} in the directory of {job}")
    return exits.OK


def _out_of(client: Any, of: tuple[str, str], destination: str, rank: int | None, output: Output) -> int | None:
    """Out of the directory of a job that runs; None where only what it has kept is to be had."""
    from headway.cli.screen.transfers import Transfer, shown
    from headway.client.artifacts import choose
    from headway.client.job_directory import copy_out

    job, path = of
    try:
        with shown(output, Transfer("fetching")) as transfer:
            placed = copy_out(client, job, path, os.path.expanduser(destination), rank, transfer.set)
    except HeadwayError as error:
        # Not there, no right to go there, or just over: then what it has kept, if that has it.
        try:
            choose(client.artifacts(job), [path])
        except NotFound as neither:
            raise (error if isinstance(error, NotFound | Conflict) else neither) from None
        output.say(f"headway: {error.message}; this is what it has kept")
        return None
    output.show({"fetched": [{"path": path, "at": each} for each in placed]}, lambda: "\n".join(placed), lambda: placed)
    count = len(placed)
    output.say(f"headway: {count:,} {'file' if count == 1 else 'files'} from the directory of {job}, as of now")
    return exits.OK


def _kept(client: Any, of: tuple[str, str], destination: str, attempt: int | None, output: Output) -> int:
    from headway.client.artifacts import choose

    job, path = of
    if not path.strip("/"):
        raise BadInput(f'"{path[:200]}" is not the path of an artifact', f"headway artifact ls {job}")
    chosen = choose(client.artifacts(job), [path], attempt)
    places = kept_places(chosen, path.strip("/"), destination)
    return fetched(client, job, chosen, places, output)


def kept_places(chosen: Sequence[Any], wanted: str, destination: str) -> list[str]:
    """Where each goes: a file to a file or into a directory, a directory into a directory."""
    target = os.path.expanduser(destination)
    places = []
    for each in chosen:
        inner = os.path.relpath(str(each["path"]), wanted)
        if any(sign in wanted for sign in "*?["):
            places.append(os.path.join(target, str(each["path"])))
        elif inner == ".":
            into = os.path.isdir(target) or destination.endswith("/")
            places.append(os.path.join(target, os.path.basename(wanted)) if into else target)
        elif inner.startswith("../"):
            raise BadInput(f"the server names an artifact {each['path']!r}, which is not below {wanted!r}")
        else:
            base = os.path.join(target, os.path.basename(wanted)) if os.path.isdir(target) else target
            places.append(os.path.join(base, inner))
    return places
