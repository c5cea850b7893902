"""The `headway` command, and how every error ends: a sentence, a hint, an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from headway import __version__
from headway.cli.frame import exits
from headway.cli.frame.groups import LazyGroup
from headway.cli.frame.options import voice_options
from headway.cli.frame.output import Output
from headway.cli.table import ALIASES, OLD, SECTIONS
from headway.core.errors import BadInput, HeadwayError


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    aliases=ALIASES,
    old=OLD,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    no_args_is_help=False,
    invoke_without_command=True,
)
@voice_options
@click.version_option(__version__, prog_name="headway")
@click.pass_context
def headway(ctx: click.Context, /, **voice: Any) -> None:
    """Headway runs training jobs that neither their terminal, their server nor their agent can take down.

    `headway COMMAND --help` shows a command's flags and examples. The flags below go before a command or after it.
    """
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
        if isinstance(error, OSError):
            from headway.cli.frame.system_errors import from_system

            of_the_machine = from_system(error)
            if of_the_machine is not None:
                return _failed(output, of_the_machine)
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

        near = difflib.get_close_matches(error.option_name, error.possibilities or (), n=1, cutoff=0.6)
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
