"""How a job's code comes to the server: the flags that say what is packed, and the sending, with how far it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from headway.cli.frame.output import Output, on_terminal
from headway.core.units import show_size

if TYPE_CHECKING:
    from headway.client.code.bundle import SentBundle
    from headway.client.code.prepared_job import PreparedJob

BAR_WIDTH = 24

PACKING: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "--bundle": click.option(
        "--bundle/--no-bundle", default=None, help="Send the project directory along, or run in place."
    ),
    "--allow-large": click.option("--allow-large", is_flag=True, help="Bundle more than 2 GB."),
    "--env-all": click.option(
        "--env-all", is_flag=True, help="Pass on all your variables, not only those of pass_env."
    ),
    "--environment": click.option(
        "--environment", metavar="auto|FILE", help="Install the packages a file lists, with uv."
    ),
}


def packing_given(given: dict[str, Any]) -> dict[str, Any]:
    """What these flags say."""
    found = {name: given.pop(name) for name in ("bundle", "environment")}
    found["allow_large"] = given.pop("allow_large") or None
    found["env_all"] = given.pop("env_all") or None
    return {name: value for name, value in found.items() if value is not None}


def send(client: Any, prepared: PreparedJob, output: Output) -> None:
    """Bring the bundle to the server, with a bar on a terminal and one line elsewhere."""
    bundle = prepared.bundle
    for note in prepared.notes:
        output.say(note)
    if bundle is None:
        return
    from headway.client.code.bundle import WARN_BYTES
    from headway.client.connection.http import WHOLE

    if bundle.size_bytes > WARN_BYTES:
        output.say(
            f"warning: {bundle} is large; .gitignore or .headwayignore leave files out, inputs: brings data to the node"
        )
    bar = Bar()
    with output.watch.over(bar.sentence, weight=WHOLE):
        sent = client.send_bundle(bundle, bar.show)
    news = f"; sent {sent.files}, {show_size(sent.size_bytes)}" if sent.files else "; all of it is known"
    output.say(f"headway: {bundle}{news}")


class Bar:
    """How far an upload is, in words, and on a terminal as a bar that fills."""

    def __init__(self) -> None:
        self.drawn = on_terminal(sys.stderr)
        self.sent: SentBundle | None = None

    def show(self, sent: SentBundle) -> None:
        self.sent = sent

    def sentence(self) -> str:
        sent = self.sent
        if sent is None or not sent.files:
            return "asking the server which files it has"
        share = sent.bytes_gone / sent.size_bytes if sent.size_bytes else sent.files_sent / sent.files
        bar = f"{'█' * int(share * BAR_WIDTH):░<{BAR_WIDTH}} " if self.drawn else ""
        size = f"{show_size(sent.bytes_gone)} of {show_size(sent.size_bytes)}"
        return f"{bar}uploading {size} ({sent.files_sent:,} of {sent.files:,} files)"
