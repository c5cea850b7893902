"""The `headway` command: which commands there are, and how every error ends: a sentence, a hint, an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from headway import __version__, features
from headway.cli.frame import exits
from headway.cli.frame.lazy import LazyGroup, Table
from headway.cli.frame.output import Output
from headway.core.errors import BadInput, HeadwayError


def with_features(table: Table) -> Table:
    """These commands with those of features, each of which says after which command its own are listed."""
    rows = list(table.items())
    for name in reversed(features.NAMES):
        of = import_module(f"headway.features.{name}")
        at = next((place + 1 for place, (known, _) in enumerate(rows) if known == of.AFTER), len(rows))
        rows[at:at] = of.COMMANDS.items()
    return dict(rows)


COMMANDS: Table = with_features(
    {
        "run": ("headway.cli.commands.run", "run", "Submit a job and follow it."),
        "submit": ("headway.cli.commands.run", "submit", "Submit a job and return at once."),
        "ps": ("headway.cli.commands.jobs", "ps", "List jobs: unfinished ones, and those that ended lately."),
        "logs": ("headway.cli.commands.logs", "logs", "Show what a job wrote, attempt after attempt."),
        "describe": (
            "headway.cli.commands.jobs",
            "describe",
            "Show all about a job: its description, attempts and outcome.",
        ),
        "events": (
            "headway.cli.commands.events",
            "events",
            "Show what happened to a job, or lately, and the call that each event came of.",
        ),
        "why": ("headway.cli.commands.jobs", "why", "Say in one sentence why a job waits, or why it ended."),
        "stop": ("headway.cli.commands.stop_retry_rm_wait", "stop", "Ask jobs to end, with grace."),
        "retry": (
            "headway.cli.commands.stop_retry_rm_wait",
            "retry",
            "Try again: at once if the job backs off, as a new job if it ended.",
        ),
        "rm": ("headway.cli.commands.stop_retry_rm_wait", "rm", "Delete ended jobs and their logs."),
        "wait": ("headway.cli.commands.stop_retry_rm_wait", "wait", "Wait until jobs have ended."),
        "hold": ("headway.cli.commands.hold_set_plan", "hold", "Hold queued jobs until they are released."),
        "release": ("headway.cli.commands.hold_set_plan", "release", "Release held jobs."),
        "set": ("headway.cli.commands.hold_set_plan", "set_", "Change queued jobs: priority, queue, limits."),
        "plan": (
            "headway.cli.commands.hold_set_plan",
            "plan",
            "Say when a job would start; alone, when each waiting job will.",
        ),
        "preempt": (
            "headway.cli.commands.checkpoints",
            "preempt",
            "Preempt jobs: each gets notice, saves, and restarts later.",
        ),
        "checkpoints": (
            "headway.cli.commands.checkpoints",
            "checkpoints",
            "List the checkpoints of a job; pin those to keep.",
        ),
        "fork": (
            "headway.cli.commands.fork_rerun_diff",
            "fork",
            "Submit a new job that begins from a checkpoint of another.",
        ),
        "rerun": (
            "headway.cli.commands.fork_rerun_diff",
            "rerun",
            "Submit the same job anew: code, packages, parameters and seed.",
        ),
        "diff": ("headway.cli.commands.fork_rerun_diff", "diff", "Show what differs between two jobs."),
        "artifacts": ("headway.cli.commands.artifacts", "artifacts", "List and fetch the files that a job has kept."),
        "cp": ("headway.cli.commands.artifacts", "cp", "Copy a file that a job has kept: JOB:PATH DEST."),
        "queue": (
            "headway.cli.commands.cluster",
            "queue",
            "List, set and remove queues: priority, shares, quotas, pools.",
        ),
        "pool": ("headway.cli.commands.cluster", "pool", "List, set and remove pools: where nodes come from."),
        "licence": ("headway.cli.commands.cluster", "licence", "List and set licences that jobs hold while they run."),
        "nodes": (
            "headway.cli.commands.nodes",
            "nodes",
            "List the nodes that have called home; cordon, drain and release them.",
        ),
        "login": ("headway.cli.commands.login", "login", "Sign in to a shared server."),
        "logout": ("headway.cli.commands.login", "logout", "Forget the token of a server."),
        "whoami": ("headway.cli.commands.login", "whoami", "Show who you are signed in as, and what you may do."),
        "user": ("headway.cli.commands.accounts", "user", "List, make and remove users of a shared server."),
        "project": ("headway.cli.commands.accounts", "project", "List, make and remove projects, and who is in them."),
        "token": ("headway.cli.commands.accounts", "token", "Make, list and revoke tokens."),
        "audit": ("headway.cli.commands.accounts", "audit", "Show who changed what, and what was refused."),
        "server": ("headway.cli.commands.server", "server", "Start, stop and look at the server of this machine."),
        "doctor": ("headway.cli.commands.doctor", "doctor", "Look for what is wrong with this installation."),
        "config": ("headway.cli.commands.config", "config", "Show the settings, and where each value comes from."),
        "completion": ("headway.cli.about", "completion", "Print the completion script for a shell."),
        "version": ("headway.cli.about", "version", "Print the version."),
    }
)
ALIASES = {"ls": "ps", "cancel": "stop", "kill": "stop", "launch": "run"}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    aliases=ALIASES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="headway")
@click.pass_context
def headway(ctx: click.Context) -> None:
    """Headway runs training jobs that neither their terminal, their server nor their agent can take down."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    output = Output("json") if wants_json(words) else Output(colour=not os.environ.get("NO_COLOR"))
    try:
        result = headway.main(words, prog_name="headway", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else exits.OK
    except HeadwayError as error:
        return _failed(output, error)
    except click.exceptions.Exit as asked:
        return asked.exit_code
    except click.ClickException as error:
        return _failed(output, from_click(error))
    except (KeyboardInterrupt, click.Abort):
        return exits.INTERRUPTED
    except BrokenPipeError:
        return exits.reader_gone()
    except Exception as error:
        if {"-v", "--verbose"} & set(words):
            raise
        told = HeadwayError(f"an error in Headway itself: {type(error).__name__}: {error}", "-v shows the full trace")
        return _failed(output, told)


def _failed(output: Output, error: HeadwayError) -> int:
    code = exits.for_error(error)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return exits.reader_gone()
    output.error(error, code)
    return code


def from_click(error: click.ClickException) -> HeadwayError:
    """What click found wrong with the words, in our voice."""
    context = getattr(error, "ctx", None)
    hint = f"{context.command_path} --help" if context else ""
    if isinstance(error, click.NoSuchOption):
        import difflib

        near = difflib.get_close_matches(error.option_name, error.possibilities or (), n=1, cutoff=0.0)
        return BadInput(f'unknown flag "{error.option_name}"', f'did you mean "{near[0]}"?' if near else hint)
    message = error.format_message().rstrip(".")
    message, found, near_miss = message.partition(" (did you mean ")
    if found:
        hint = "did you mean " + near_miss.rstrip(")")
    return BadInput(message[:1].lower() + message[1:], hint)


def wants_json(words: Sequence[str]) -> bool:
    """Whether errors should be JSON, even one in the flags themselves. What follows a script is not ours."""
    for position, word in enumerate(words):
        if word == "--" or word.endswith((".py", ".sh")):
            return False
        if word in ("--json", "-ojson", "--output=json"):
            return True
        if word in ("-o", "--output") and words[position + 1 : position + 2] == ["json"]:
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
