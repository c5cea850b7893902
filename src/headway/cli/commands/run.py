"""`headway run` and `headway submit`: flags, file and words become the description of one job.

Everything after the script belongs to the script. core/spec/job.py checks the description before anything is sent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from headway.cli.frame import exits
from headway.cli.frame.options import connect, output_options, pair
from headway.cli.frame.output import Output, as_yaml
from headway.cli.job_flags.program import keeping_given, keeping_options, send
from headway.cli.job_flags.scheduling import wish_options, wishes_given
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


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The flags that describe a job."""
    flags = [
        click.option("-f", "--file", metavar="FILE", help="Read the job from a YAML file (- is stdin); flags win."),
        click.option(
            "--set", "sets", metavar="KEY=VALUE", multiple=True, help="Set one key, such as resources.gpus=2."
        ),
        click.option("-n", "--name", help="Job name."),
        click.option("--cpus", type=float, help="Processors per node; may be a fraction. [default: 1]"),
        click.option("--mem", "memory", metavar="SIZE", help="Memory per node, such as 16G."),
        click.option("--gpus", type=int, help="GPUs per node."),
        click.option("--nodes", type=int, help="Number of nodes, all or none. [default: 1]"),
        click.option("--ranks-per-node", type=int, help="Processes on each node. [default: 1]"),
        click.option(
            "--env", "envs", metavar="K[=V]", multiple=True, help="Environment variable; K alone copies yours."
        ),
        click.option(
            "--env-file", "env_files", metavar="FILE", multiple=True, help="Environment variables, one K=V per line."
        ),
        click.option("--max-duration", metavar="TIME", help="Time limit of an attempt, such as 6h."),
        click.option("--max-retries", "retries", type=int, help="Retries after its own failure. [default: 0]"),
        click.option("--priority", type=int, help="Larger numbers go first. [default: 0]"),
        click.option("--queue", help="Queue to submit to."),
        click.option("--project", help="Project it belongs to."),
        click.option("--pool", help="Use only this pool."),
        click.option("--tag", "tags", metavar="K=V", multiple=True, help="Label, for finding it again."),
        click.option("--grace", metavar="TIME", help="Time between SIGTERM and SIGKILL. [default: 30s]"),
        click.option("--split-streams", is_flag=True, help="Keep stdout and stderr in two logs."),
        click.option("--workdir", metavar="DIR", help="Where it runs. [default: here]"),
        click.option("--dry-run", is_flag=True, help="Print the job as YAML without submitting it."),
    ]
    command = keeping_options(wish_options(command))
    for flag in reversed(flags):
        command = flag(command)
    return click.argument(WORDS, metavar="SCRIPT [ARGS]... | -- COMMAND...", nargs=-1, type=click.UNPROCESSED)(command)


@click.command(cls=JobCommand, context_settings={"allow_interspersed_args": False})
@job_options
@click.option("-d", "--detach", is_flag=True, help="Submit and return at once.")
@click.option("--exit-code-from-job", is_flag=True, help="Exit with the job's exit code.")
@click.option("--rehearse", is_flag=True, help="Check that it resumes, like headway doctor checkpoint.")
@output_options
def run(
    output: Output, detach: bool, exit_code_from_job: bool, rehearse: bool, dry_run: bool, force: bool, **given: Any
) -> int:
    """Submit a job and follow it until it ends. Ctrl-C detaches; the job keeps running.

    \b
    headway run train.py --lr 0.1           what follows the script is the script's
    headway run --gpus 2 -- torchrun x.py   any command, as it stands
    headway run -f job.yaml --set retries=3
    """
    client = connect(output)
    prepared = describe(client, given)
    if rehearse:
        from headway.cli.commands import rehearsal

        return rehearsal.rehearse(client, prepared, output, dry_run=dry_run, force=force)
    if dry_run:
        return show_dry(output, prepared.raw)
    send(client, prepared, output)
    made = client.submit(prepared.raw, force=force)
    if made.array:
        return show_array(output, made.array)
    job = made.seen
    if detach:
        return show_submitted(output, job)
    return followed(client, job, output, exit_code_from_job=exit_code_from_job)


@click.command(cls=JobCommand, context_settings={"allow_interspersed_args": False})
@job_options
@output_options
def submit(output: Output, dry_run: bool, force: bool, **given: Any) -> int:
    """Submit a job and return at once (the same as run --detach)."""
    client = connect(output)
    prepared = describe(client, given)
    if dry_run:
        return show_dry(output, prepared.raw)
    send(client, prepared, output)
    made = client.submit(prepared.raw, force=force)
    return show_array(output, made.array) if made.array else show_submitted(output, made.seen)


def followed(client: Any, job: dict[str, Any], output: Output, *, exit_code_from_job: bool = False) -> int:
    from headway.cli.screen.follow import follow

    output.say(f"headway: job {job['id']} ({job['name']}) is submitted")
    return follow(client, job["id"], output, exit_code_from_job=exit_code_from_job)


def show_submitted(output: Output, job: dict[str, Any]) -> int:
    output.show(job, lambda: job["id"], lambda: [job["id"]])
    if output.form == "table":
        output.say(f"headway: job {job['id']} ({job['name']}) is submitted; follow it: headway logs -f {job['id']}")
    return exits.OK


def show_array(output: Output, array: dict[str, Any]) -> int:
    output.show(array, lambda: array["id"], lambda: [array["id"]])
    if output.form == "table":
        said = f"array {array['id']} of {array['count']:,} jobs is submitted"
        output.say(f"headway: {said}; they are {array['id']}-0, {array['id']}-1, …; wait: headway wait {array['id']}")
    return exits.OK


def show_dry(output: Output, raw: dict[str, Any]) -> int:
    from headway.core.spec.job import read_spec, show_spec

    checked = show_spec(read_spec(raw))
    output.show(checked, lambda: as_yaml(checked).rstrip("\n"), lambda: [checked["name"]])
    return exits.OK


def describe(client: Any, given: dict[str, Any]) -> PreparedJob:
    """Put file, flags and words together, and check the whole: flags win over the file."""
    from headway.client.code.prepared_job import take_packing
    from headway.client.code.script import describe_job
    from headway.core.spec.job import KEYS, check_keys, read_spec

    words, verbatim = given.pop(WORDS), given.pop(VERBATIM)
    file = given.pop("file")
    base: dict[str, Any] = {}
    if file:
        from headway.cli.frame.yaml import read_job

        base = read_job(file)
    for word in given.pop("sets"):
        from headway.cli.frame.yaml import set_value

        set_value(base, *pair(word, "--set"))
    check_keys(base, KEYS, "job")
    wished = {**keeping_given(given, base, os.getcwd()), **wishes_given(given, base)}
    wishes = {**base, **wished, **flags_given(given, base)}
    packing = take_packing(wishes)
    if not words and not wishes.get("command"):
        raise BadInput("no script and no command", "headway run train.py, headway run -- COMMAND, or -f job.yaml")
    raw = describe_job(words, wishes, os.environ, os.getcwd(), verbatim=verbatim)
    read_spec(raw)
    prepared: PreparedJob = client.prepare(raw, packing)
    read_spec(prepared.raw)
    return prepared


def flags_given(given: dict[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a job that the flags set."""
    envs = env_from(given.pop("env_files"), given.pop("envs"))
    tags = dict(pair(word, "--tag") for word in given.pop("tags"))
    flags = {key: value for key, value in given.items() if value is not None and key != "split_streams"}
    if given["split_streams"]:
        flags["streams"] = "split"
    for key, pairs in (("env", envs), ("tags", tags)):
        of_file = base.get(key) or {}
        if pairs and isinstance(of_file, Mapping):
            flags[key] = {**of_file, **pairs}
    return flags


def env_from(files: tuple[str, ...], words: tuple[str, ...]) -> dict[str, str]:
    env: dict[str, str] = {}
    for path in files:
        env |= read_env_file(path)
    for word in words:
        if "=" in word:
            env.update([pair(word, "--env")])
        elif word in os.environ:
            env[word] = os.environ[word]
        else:
            raise BadInput(f'--env: "{word[:80]}" is not set here', f"give it a value: --env {word[:80]}=…")
    return env


def read_env_file(path: str) -> dict[str, str]:
    """Lines of K=V; empty ones and those that begin with # are passed over; quotes around a value are taken off."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read(1 << 20).splitlines()
    except (OSError, ValueError) as error:
        raise BadInput(f'--env-file: "{path}" cannot be read: {getattr(error, "strerror", None) or error}') from None
    env = {}
    for number, line in enumerate(lines, start=1):
        line = line.strip().removeprefix("export ")
        if line and not line.startswith("#"):
            key, value = pair(line, f"--env-file {path}, line {number}")
            value = value.strip()
            quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
            env[key.strip()] = value[1:-1] if quoted else value
    return env
