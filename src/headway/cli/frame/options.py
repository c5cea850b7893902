"""Flags that every command has, the connection that most need, and how words on the command line become values."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from headway.cli.frame.output import FORMS, Output
from headway.core.errors import BadInput
from headway.core.units import duration_s

Command = TypeVar("Command", bound=Callable[..., Any])


VOICE = (
    click.option(
        "-o", "--output", "form", metavar="FORM", type=click.Choice(FORMS), help=f"One of {', '.join(FORMS)}."
    ),
    click.option("--json", "as_json", is_flag=True, help="Same as -o json; errors are JSON too."),
    click.option("-q", "--quiet", is_flag=True, help="Print names only."),
    click.option("-v", "--verbose", is_flag=True, help="Say more: retries, and the full trace of an internal error."),
    click.option("--no-color", is_flag=True, help="Disable colours (as NO_COLOR does)."),
)


def voice_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add -o, --json, -q, -v and --no-color."""
    for option in reversed(VOICE):
        command = option(command)
    return command


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of every command, which may stand before it too, and hand it an Output."""

    @voice_options
    @functools.wraps(command)
    def with_output(
        *args: Any, form: str | None, as_json: bool, quiet: bool, verbose: bool, no_color: bool, **kwargs: Any
    ) -> Any:
        before = click.get_current_context().find_root().params
        as_json = as_json or bool(form is None and before.get("as_json"))
        form = "json" if as_json else form or before.get("form") or "table"
        plain = no_color or before.get("no_color") or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        output = Output(form, quiet or before.get("quiet", False), verbose or before.get("verbose", False), not plain)
        return command(*args, output=output, **kwargs)

    return with_output


def connect(output: Output) -> Any:
    """A client of the configured server, or of the embedded one."""
    from headway.client.sdk import Client

    client = Client()
    click.get_current_context().call_on_close(client.close)
    client.link.watch = output.watch
    client.link.on_version = functools.partial(_say_version, client, output)
    _say_where(client, output)
    if output.verbose:
        client.on_trouble(lambda sentence: output.say(f"headway: {sentence}; trying again"))
    return client


def _say_version(client: Any, output: Output, url: str, version: str) -> None:
    """Say once that a server is of another version, and what to do about it."""
    from headway import __version__

    if not version or version == __version__ or output.quiet or output.machine:
        return
    from headway.client.connection.patience import first_told

    if first_told(client.home, url, version, __version__):
        ours = not client.resolved.settings.server_url
        remedy = "headway server restart; running jobs go on" if ours else "upgrade the older one"
        output.say(f"headway: the server has version {version}, this command {__version__}: {remedy}")


def _say_where(client: Any, output: Output) -> None:
    """Name the server when a variable leads to another one than the usual."""
    from headway import settings

    source = client.resolved.sources["server_url"]
    if source not in (settings.CONTEXT, "HEADWAY_SERVER_URL"):
        return
    url = client.resolved.settings.server_url
    usual, chosen = settings.usual_url(os.environ)
    if chosen and usual != url:
        output.say(f"headway: on {url or 'the server of this machine'} ({source}), not on {usual or 'this machine'}")


class Duration(click.ParamType[float]):
    """`30s`, `10m`, `6h`, `2d`, or a number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        return duration_s(str(value), param.opts[-1] if param else "duration")


DURATION = Duration()


def pair(word: str, flag: str) -> tuple[str, str]:
    """Split K=V."""
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise BadInput(f'{flag}: "{word[:80]}" is not of the form KEY=VALUE')
    return key, value


def step_of(word: str, flag: str) -> int:
    if not word.isdecimal():
        raise BadInput(f'{flag}: "{word[:80]}" is not the number of a step')
    return int(word)


def job_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("job", metavar="JOB")(command)


def jobs_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("jobs", metavar="JOB...", nargs=-1, required=True)(command)
