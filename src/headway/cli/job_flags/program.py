"""Flags of a job that keep its progress: code, packages, data, parameters, checkpoints, notices. Sends the code."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from headway.cli.frame.options import pair
from headway.cli.frame.output import Output, on_terminal
from headway.core.errors import BadInput
from headway.core.units import show_size

if TYPE_CHECKING:
    from headway.client.code.bundle import SentBundle
    from headway.client.code.prepared_job import PreparedJob

REDRAW_EVERY_S = 0.1
BAR_WIDTH = 24


def keeping_options(command: Callable[..., Any]) -> Callable[..., Any]:
    flags = [
        click.option("--bundle/--no-bundle", default=None, help="Send the project directory along, or run in place."),
        click.option("--allow-large", is_flag=True, help="Bundle more than 2 GB."),
        click.option("--environment", metavar="auto|FILE", help="Install the packages a file lists, with uv."),
        click.option("--param", "params", metavar="K=V", multiple=True, help="Parameter; replaces --K in the command."),
        click.option("--seed", type=int, help="Random seed. [default: one of its own]"),
        click.option("--input", "inputs", metavar="NAME=URL", multiple=True, help="Data to fetch once per node."),
        click.option(
            "--volume", "volumes", metavar="NAME=PATH", multiple=True, help="Directory that is already mounted."
        ),
        click.option("--outputs", metavar="DIR", multiple=True, help="Keep the files written there as artifacts."),
        click.option("--checkpoint-keep", metavar="N", type=int, help="How many checkpoints to keep. [default: 3]"),
        click.option(
            "--checkpoint-dir", metavar="DIR", multiple=True, help="Where it saves, if not in HEADWAY_CHECKPOINT_DIR."
        ),
        click.option(
            "--saved-by", type=click.Choice(["auto", "first", "all"]), help="Which nodes save. [default: auto]"
        ),
        click.option(
            "--max-losses",
            metavar="N",
            type=int,
            help="Give up after so many lost machines without a new step. [default: 20]",
        ),
        click.option(
            "--max-losses-per-day", metavar="N", type=int, help="Give up after so many lost machines in a day."
        ),
        click.option("--notice-signal", metavar="SIGNAL", help="Signal that tells a rank to save. [default: SIGTERM]"),
        click.option("--stalled-after", metavar="TIME", help="End it after so long without output or progress."),
        click.option(
            "--secret", "secrets", metavar="VAR=NAME", multiple=True, help="Secret as an environment variable."
        ),
        click.option("--secret-file", "secret_files", metavar="VAR=NAME", multiple=True, help="The same, as a file."),
        click.option("--hold-on-failure", metavar="TIME", help="Keep its place this long after a failure."),
        click.option("--pending-max", metavar="TIME", help="Time limit in the queue."),
    ]
    for flag in reversed(flags):
        command = flag(command)
    return command


def keeping_given(given: dict[str, Any], base: Mapping[str, Any], cwd: str) -> dict[str, Any]:
    """The keys of a job that these flags set; flags win over the file, entry by entry."""
    found: dict[str, Any] = {}
    inputs = {name: where if "://" in where else path for name, where, path in _places("--input", given, cwd)}
    volumes = {name: path for name, _, path in _places("--volume", given, cwd)}
    for key, pairs in (("inputs", inputs), ("volumes", volumes), ("params", values(given.pop("params"), "--param"))):
        _merge(found, base, key, pairs)
    limits = {"stalled_after": given.pop("stalled_after"), "pending": given.pop("pending_max")}
    _merge(found, base, "limits", {name: value for name, value in limits.items() if value is not None})
    losses = {"platform_max": given.pop("max_losses"), "platform_max_per_day": given.pop("max_losses_per_day")}
    _merge(found, base, "retry", {name: value for name, value in losses.items() if value is not None})
    signal, outputs = given.pop("notice_signal"), given.pop("outputs")
    checkpoint = {"keep_last": given.pop("checkpoint_keep"), "saved_by": given.pop("saved_by")}
    checkpoint["dir"] = list(given.pop("checkpoint_dir")) or None
    _merge(found, base, "checkpoint", {name: value for name, value in checkpoint.items() if value is not None})
    _merge(found, base, "notice", {} if signal is None else {"signal": signal_name(signal)})
    if outputs:
        found["outputs"] = [*(base.get("outputs") or []), *outputs]
    for name in ("seed", "bundle", "environment"):
        value = given.pop(name)
        if value is not None:
            found[name] = value
    secrets: dict[str, Any] = dict(pair(word, "--secret") for word in given.pop("secrets"))
    for variable, name in (pair(word, "--secret-file") for word in given.pop("secret_files")):
        secrets[variable] = {"name": name, "file": True}
    _merge(found, base, "secrets", secrets)
    hold = given.pop("hold_on_failure")
    if hold is not None:
        found["on_failure"] = {"hold": hold}
    if given.pop("allow_large"):
        found["allow_large"] = True
    return found


def _merge(found: dict[str, Any], base: Mapping[str, Any], key: str, pairs: Mapping[str, Any]) -> None:
    of_file = base.get(key) or {}
    if pairs and isinstance(of_file, Mapping):
        found[key] = {**of_file, **pairs}


def values(words: tuple[str, ...], flag: str) -> dict[str, Any]:
    """K=V with V read as in a job file: `3e-5` is a number, `true` a truth value, the rest text."""
    if not words:
        return {}
    from headway.cli.frame.yaml import parse

    return {key: parse(text, f"{flag} {key}") for key, text in (pair(word, flag) for word in words)}


def signal_name(word: str) -> str:
    return word.upper() if word.upper().startswith("SIG") else f"SIG{word.upper()}"


def _places(flag: str, given: dict[str, Any], cwd: str) -> Iterator[tuple[str, str, str]]:
    """The name, the place as it was typed, and the same as a path of the caller, made absolute."""
    for word in given.pop(f"{flag[2:]}s"):
        name, where = pair(word, flag)
        if not where:
            raise BadInput(f'{flag}: "{word[:80]}" names no place', f"{flag} {name[:80]}=PLACE")
        yield name, where, os.path.normpath(os.path.join(cwd, os.path.expanduser(where)))


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


def step_of(word: str, flag: str) -> int:
    if not word.isdecimal():
        raise BadInput(f'{flag}: "{word[:80]}" is not the number of a step')
    return int(word)
