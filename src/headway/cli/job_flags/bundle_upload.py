"""How a job's code comes to the server: the flags that say what is packed, and the sending, with a bar."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from headway.cli.frame.output import Output, on_terminal
from headway.core.units import show_size

if TYPE_CHECKING:
    from headway.client.code.bundle import SentBundle
    from headway.client.code.prepared_job import PreparedJob

REDRAW_EVERY_S = 0.1
BAR_WIDTH = 24


PACKING: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "--bundle": click.option(
        "--bundle/--no-bundle", default=None, help="Send the project directory along, or run in place."
    ),
    "--allow-large": click.option("--allow-large", is_flag=True, help="Bundle more than 2 GB."),
    "--environment": click.option(
        "--environment", metavar="auto|FILE", help="Install the packages a file lists, with uv."
    ),
}


def packing_given(given: dict[str, Any]) -> dict[str, Any]:
    """What these flags say."""
    found = {name: given.pop(name) for name in ("bundle", "environment")}
    found["allow_large"] = given.pop("allow_large") or None
    return {name: value for name, value in found.items() if value is not None}


def send(client: Any, prepared: PreparedJob, output: Output) -> None:
    """Bring the bundle to the server, with a bar on a terminal and one line elsewhere."""
    bundle = prepared.bundle
    if bundle is None:
        return
    from headway.client.code.bundle import WARN_BYTES

    if bundle.size_bytes > WARN_BYTES:
        output.say(
            f"warning: {bundle} is large; .gitignore or .headwayignore leave files out, inputs: brings data to the node"
        )
    bar = Bar(output)
    sent = client.send_bundle(bundle, bar.show)
    bar.end()
    news = f"; sent {sent.files}, {show_size(sent.size_bytes)}" if sent.files else "; all of it is known"
    output.say(f"headway: {bundle}{news}")


class Bar:
    """One line that fills while files go up. Drawn on a terminal only."""

    def __init__(self, output: Output) -> None:
        self.shown = on_terminal(sys.stderr) and not output.quiet and not output.machine
        self.drawn_at = 0.0
        self.drawn = False

    def show(self, sent: SentBundle) -> None:
        now = time.monotonic()
        if not self.shown or sent.files == 0 or now - self.drawn_at < REDRAW_EVERY_S:
            return
        self.drawn_at = now
        self.drawn = True
        share = sent.bytes_sent / sent.size_bytes if sent.size_bytes else sent.files_sent / sent.files
        filled = "█" * int(share * BAR_WIDTH)
        size = f"{show_size(sent.bytes_sent)} of {show_size(sent.size_bytes)}"
        line = f"\rbundle {filled:<{BAR_WIDTH}} {sent.files_sent} of {sent.files} files, {size}"
        print(line[: columns()].ljust(columns()), end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.drawn:
            print("\r" + " " * columns() + "\r", end="", file=sys.stderr, flush=True)


def columns() -> int:
    try:
        return (os.get_terminal_size(2).columns or 80) - 1
    except OSError:
        return 79
