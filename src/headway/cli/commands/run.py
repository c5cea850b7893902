"""`headway run` and `headway submit`: flags, file and words become the description of a job.

Everything after the script belongs to the script. job_flags/job_files.py puts them together; a file with several
documents is a pipeline: pipelines.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.options import connect, output_options
from headway.cli.frame.output import Output, as_yaml
from headway.cli.job_flags.bundle_upload import PACKING, send
from headway.cli.job_flags.flags import set_option, spec_options
from headway.core.errors import BadInput

if TYPE_CHECKING:
    from headway.client.code.prepared_job import PreparedJob

WORDS = "words"
VERBATIM = "verbatim"


class JobCommand(click.Command):
    """A command whose words end its flags, and that knows whether `--` stood before them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        words = ctx.params.get(WORDS) or ()
        before = given[: len(given) - len(words)]
        ctx.params[VERBATIM] = bool(words) and before[-1:] == ["--"]
        return rest


OTHERS = {
    **PACKING,
    "--stdin": click.option(
        "-i",
        "--stdin",
        "give_stdin",
        is_flag=True,
        help="Give the job what is piped to this command; < FILE is anyway.",
    ),
    "--dry-run": click.option("--dry-run", is_flag=True, help="Print the job as YAML without submitting it."),
    "--force": click.option("--force", is_flag=True, help="Accept it even if nothing here can run it yet."),
}


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The flags that describe a job."""
    flags = [
        click.option("-f", "--file", metavar="FILE", help="Read the job from a YAML file (- is stdin); flags win."),
        set_option,
    ]
    command = spec_options(command, OTHERS)
    for flag in reversed(flags):
        command = flag(command)
    return words_argument(command)


def words_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument(WORDS, metavar="SCRIPT [ARGS]... | -- COMMAND...", nargs=-1, type=click.UNPROCESSED)(command)


@click.command(
    cls=JobCommand,
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "headway run train.py --lr 0.1  # what follows the script is the script's",
        "headway run --gpus 2 -- torchrun x.py  # any command, as it stands",
        "headway run -f job.yaml --set retries=3  # several documents are a pipeline",
    ),
)
@job_options
@click.option("-d", "--detach", is_flag=True, help="Submit and return at once.")
@click.option("--exit-code-from-job", is_flag=True, help="Exit with the job's exit code.")
@click.option("--rehearse", is_flag=True, help="Check that it resumes, like headway doctor checkpoint.")
@output_options
def run(
    output: Output, detach: bool, exit_code_from_job: bool, rehearse: bool, dry_run: bool, force: bool, **given: Any
) -> int:
    """Submit a job and follow it until it ends. Ctrl-C detaches; the job keeps running."""
    client = connect(output)
    if rehearse:
        from headway.cli.commands import rehearsal

        return rehearsal.rehearse(client, describe(client, given), output, dry_run=dry_run, force=force)
    found = describe_all(client, given)
    if dry_run:
        return show_dry(output, *(each.raw for each in found))
    if len(found) > 1:
        from headway.cli.commands import pipelines

        return pipelines.run(client, found, output, detach=detach, force=force)
    prepared = found[0]
    send(client, prepared, output)
    made = client.submit_raw(prepared.raw, force=force)
    if made.array:
        return show_array(output, made.array) if detach else followed_array(client, made.array, output)
    job = made.seen
    if detach:
        return show_submitted(output, job)
    return followed(client, job, output, exit_code_from_job=exit_code_from_job)


@click.command(
    cls=JobCommand,
    context_settings={"allow_interspersed_args": False},
    epilog=examples("headway submit --gpus 1 train.py --lr 0.1", "headway submit -f pipeline.yaml"),
)
@job_options
@output_options
def submit(output: Output, dry_run: bool, force: bool, **given: Any) -> int:
    """Submit a job and return at once (the same as run --detach)."""
    client = connect(output)
    found = describe_all(client, given)
    if dry_run:
        return show_dry(output, *(each.raw for each in found))
    if len(found) > 1:
        from headway.cli.commands import pipelines

        return pipelines.run(client, found, output, detach=True, force=force)
    prepared = found[0]
    send(client, prepared, output)
    made = client.submit_raw(prepared.raw, force=force)
    return show_array(output, made.array) if made.array else show_submitted(output, made.seen)


def followed(client: Any, job: dict[str, Any], output: Output, *, exit_code_from_job: bool = False) -> int:
    from headway.cli.screen.follow import follow

    output.say(f"headway: job {job['id']} ({job['name']}) is submitted")
    # A program wants the outcome: what the job itself writes would lie between the braces.
    return follow(client, job["id"], output, exit_code_from_job=exit_code_from_job, silent=output.machine)


def followed_array(client: Any, array: dict[str, Any], output: Output) -> int:
    from headway.cli.screen.follow_array import follow_array

    output.say(f"headway: array {array['id']} ({array['name']}) of {array['count']:,} jobs is submitted")
    return follow_array(client, array["id"], output)


def show_submitted(output: Output, job: dict[str, Any]) -> int:
    output.show(job, lambda: job["id"], lambda: [job["id"]])
    output.say(f"headway: job {job['id']} ({job['name']}) is submitted; follow it: headway logs -f {job['id']}")
    return exits.OK


def show_array(output: Output, array: dict[str, Any]) -> int:
    output.show(array, lambda: array["id"], lambda: [array["id"]])
    said = f"array {array['id']} of {array['count']:,} jobs is submitted"
    output.say(f"headway: {said}; they are {array['id']}-0, {array['id']}-1, …; wait: headway wait {array['id']}")
    return exits.OK


def show_dry(output: Output, *raws: dict[str, Any]) -> int:
    from headway.core.spec.job import read_spec, show_spec

    checked = [show_spec(read_spec(raw)) for raw in raws]
    output.show(
        checked[0] if len(checked) == 1 else {"jobs": checked},
        lambda: "\n---\n".join(as_yaml(each).rstrip("\n") for each in checked),
        lambda: [each["name"] for each in checked],
    )
    return exits.OK


def describe(client: Any, given: dict[str, Any]) -> PreparedJob:
    """The one job that file, flags and words describe."""
    file = given["file"]
    found = describe_all(client, given)
    if len(found) > 1:
        command = click.get_current_context().command_path
        raise BadInput(f"{file} describes {len(found)} jobs; {command} takes one", f"headway submit -f {file}")
    return found[0]


def describe_all(client: Any, given: dict[str, Any]) -> list[PreparedJob]:
    """The jobs that file, flags and words describe: several where the file has several documents."""
    from headway.cli.job_flags.job_files import describe_all

    words, verbatim = given.pop(WORDS), given.pop(VERBATIM)
    return describe_all(client, given, words, verbatim)
