"""`headway server`: the server of this machine. Jobs go on whether it runs or not.

The only file of the command line that loads the server itself, and only for `start --foreground`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import click

from headway import settings
from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.options import connect, output_options
from headway.cli.frame.output import Output
from headway.client.connection import embedded
from headway.core.errors import Conflict, ServerTaken
from headway.core.units import show_duration

SHOWN = 8  # The newest happenings that fit on a page; --json has more.


@click.group()
def server() -> None:
    """Start, stop and look at the server of this machine."""


@server.command(epilog=examples("headway server start", "headway server start --foreground --port 8080"))
@click.option("--foreground", is_flag=True, help="Stay in this terminal, and log to it.")
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=int, help="Port to listen on; 0 takes a free one.")
@click.option("--accept-storage", is_flag=True, help="Take what storage_url leads to for the objects' new home.")
@output_options
def start(output: Output, foreground: bool, host: str | None, port: int | None, accept_storage: bool) -> int:
    """Start the server (commands that need it start it by themselves)."""
    flags = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    home = settings.home_from(os.environ)
    resolved = settings.load(os.environ, flags)
    _not_elsewhere(resolved)
    running = embedded.read_running(home)
    if foreground:
        embedded.need_linux()
        if running:
            raise ServerTaken(
                f"a server owns {home.state} already: {running.url}, pid {running.pid}", "headway server stop"
            )
        from headway.wiring import serve

        serve(resolved, home, accept_storage)
        return exits.OK
    if running is None:
        env = {**os.environ, **{f"HEADWAY_{name.upper()}": str(value) for name, value in flags.items()}}
        words = ("--accept-storage",) if accept_storage else ()
        chosen = resolved.settings
        with output.watch.over(f"starting the server of this machine; its log is {home.server_log}"):
            running = embedded.start(home, env, chosen.auto_start_s_max, chosen.ca_file, words)
        output.say(f"the server is started; its log is {home.server_log}")
    else:
        output.say("the server runs already")
    return _show(output, running)


@server.command(epilog=examples("headway server stop", "headway server stop --json"))
@output_options
def stop(output: Output) -> int:
    """Stop the server. Jobs keep running; their outcome is recorded when it starts again."""
    with output.watch.over("waiting for the server to end"):
        ended = embedded.stop(settings.home_from(os.environ))
    output.show(
        {"stopped": ended is not None, "pid": ended.pid if ended else None},
        lambda: "the server is stopped; running jobs go on" if ended else "no server runs here",
        list,
    )
    return exits.OK


@server.command(epilog=examples("headway server restart", "headway server restart --json"))
@output_options
def restart(output: Output) -> int:
    """Stop the server and start it again. Running jobs do not notice."""
    home = settings.home_from(os.environ)
    resolved = settings.load(os.environ)
    _not_elsewhere(resolved)
    from headway.client.connection import boot

    with output.watch.over("waiting for the server to end and to start again"):
        if boot.restart(os.environ, home):
            running = embedded.read_running(home)
        else:
            embedded.stop(home)
            running = None
        if running is None:
            chosen = resolved.settings
            running = embedded.start(home, os.environ, chosen.auto_start_s_max, chosen.ca_file)
    return _show(output, running)


@server.command(epilog=examples("headway server enable", "headway server enable --system  # for a machine of its own"))
@click.option("--system", is_flag=True, help="As a service of the whole machine (root alone), not of your user.")
@output_options
def enable(output: Output, system: bool) -> int:
    """Start the server with the machine: after a reboot, jobs go on without a command typed.

    By systemd, of your user (with linger) or, for root, of the machine; where there is none, by cron. The server is
    started so at once; running jobs do not notice.
    """
    from headway.client.connection import boot

    embedded.need_linux()
    _not_elsewhere(settings.load(os.environ))
    home = settings.home_from(os.environ)
    with output.watch.over("waiting for the service manager to start the server"):
        made = boot.enable(os.environ, home, system)
    if made.note:
        output.say(f"warning: {made.note}")
    told = {"enabled": True, "by": made.by, "place": made.place}
    output.show(told, lambda: f"the server starts with the machine ({made.by}: {made.place})", lambda: [made.place])
    return exits.OK


@server.command(epilog=examples("headway server disable", "headway server disable --json"))
@output_options
def disable(output: Output) -> int:
    """Start the server with the machine no more. One that runs goes on."""
    from headway.client.connection import boot

    found = boot.disable(os.environ)
    said = f"it starts with the machine no more ({found.by}: {found.place})" if found else "it was not enabled"
    output.show({"enabled": False, "was": found.by if found else ""}, lambda: said, list)
    return exits.OK


@server.command(epilog=examples("headway server status", "headway server status --json"))
@output_options
def status(output: Output) -> int:
    """Show whether the server runs, and its health. Starts nothing."""
    home = settings.home_from(os.environ)
    resolved = settings.load(os.environ)
    if not resolved.settings.server_url and embedded.read_running(home) is None:
        told = {"running": False, "home": str(home.state)}
        output.show(told, lambda: "no server runs here; commands that need one start it", lambda: ["stopped"])
        return exits.UNREACHABLE
    told = {"running": True, **connect(output).server()}
    output.show(told, lambda: _page(told, time.time()), lambda: ["running"])
    return exits.OK


@server.command(epilog=examples("headway server migrate", "headway server migrate --json"))
@output_options
def migrate(output: Output) -> int:
    """Migrate the database to this version.

    A server on SQLite does that by itself. Servers on PostgreSQL do not: stop all of them, make a backup, run this.
    """
    from headway.upkeep import migrate as bring

    with output.watch.over("migrating the database"):
        at = bring(settings.load(os.environ), settings.home_from(os.environ))
    output.show({"layout": at}, lambda: f'the database has the layout "{at}"', lambda: [at])
    return exits.OK


@server.command(epilog=examples("headway server backup monday", "headway server backup monday --allow-missing"))
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--allow-missing", is_flag=True, help="Count it as done although storage has lost or damaged objects.")
@output_options
def backup(output: Output, directory: Path, allow_missing: bool) -> int:
    """Copy database and files into a new directory, all of one moment. Servers and jobs go on meanwhile.

    Objects that storage has lost or damaged are named; all others are copied, and the exit code is 1.
    """
    from headway.upkeep import back_up

    with output.watch.over(f"copying database and files to {directory}"):
        note = back_up(settings.load(os.environ), settings.home_from(os.environ), directory)
    problems = {key: str(what) for key, what in sorted(note["problems"].items())}
    lines = [f"{directory}: {note['rows']['jobs']} jobs, {note['objects']} objects", *_problems(problems)]
    output.show({"directory": str(directory), **note}, lambda: "\n".join(lines), lambda: [str(directory)])
    return exits.ERROR if problems and not allow_missing else exits.OK


@server.command("rotate-keys", epilog=examples("headway server rotate-keys", "headway server rotate-keys --finish"))
@click.option("--use", "step", flag_value="use", help="Several servers: sign with the new key, which all have by now.")
@click.option("--finish", "step", flag_value="finish", help="Accept only the newest key from now on.")
@click.option("--lost", "step", flag_value="lost", help="The key file is gone for good: make another.")
@click.option("--force", is_flag=True, help="Finish although some nodes have no new token yet.")
@output_options
def rotate_keys(output: Output, step: str | None, force: bool) -> int:
    """Give the server other keys: run it, then again with --finish. Nodes and jobs go on.

    Nodes are given new tokens with their next calls; until you finish, old ones are good as well. With several servers,
    copy the key file to each of them after the first step, then run --use on each.
    """
    from headway.upkeep import rotate_keys as rotate

    resolved, home = settings.load(os.environ), settings.home_from(os.environ)
    step = step or "begin"
    if step == "finish":
        client = connect(output)
        late = [] if force else list(client.server().get("old_tokens") or ())
        if late:
            raise Conflict(f"{', '.join(late[:5])} have no new token yet", "wait a minute; or cut them off: --force")
        client.secrets.rotate()  # What older keys have sealed would not open any more.
    told = rotate(resolved, home, step)
    output.show(told, lambda: _rotated(told, step), lambda: [told["signs"]])
    return exits.OK


def _rotated(told: dict[str, Any], step: str) -> str:
    said = f"the key {told['signs']} of {told['file']} signs; accepted as well: {', '.join(told['accepted']) or 'none'}"
    after = {
        "begin": "copy that file to every server of this database, then on each: headway server rotate-keys --use"
        if told["several"]
        else "once all nodes have called: headway server rotate-keys --finish",
        "use": "on every server; then, once all nodes have called: headway server rotate-keys --finish",
        "lost": "secrets that were set before do not open any more: set them again",
    }
    return f"{said}\n{after[step]}" if step in after else said


@server.command(epilog=examples("headway server restore monday", "headway server restore monday --allow-missing"))
@click.argument("directory", type=click.Path(path_type=Path, exists=True))
@click.option("--allow-missing", is_flag=True, help="Restore a copy that lacks objects, without those.")
@output_options
def restore(output: Output, directory: Path, allow_missing: bool) -> int:
    """Fill an empty database and storage from a backup, of SQLite or PostgreSQL alike. No server may run."""
    from headway.upkeep import restore as put_back

    with output.watch.over(f"restoring database and files from {directory}"):
        done = put_back(settings.load(os.environ), settings.home_from(os.environ), directory, allow_missing)
    lines = [f"{done['jobs']} jobs and {done['objects']} objects are back"]
    lines += _problems(dict.fromkeys(done["missing"], "missing"))
    output.show(done, lambda: "\n".join(lines), lambda: [str(directory)])
    return exits.OK


def _problems(problems: dict[str, str]) -> list[str]:
    """Objects that are missing or damaged, as an operator reads them: the first of them, and how many more."""
    lines = [f"{what}: {key}" for key, what in list(problems.items())[:SHOWN]]
    more = len(problems) - len(lines)
    lines += [f"… and {more} more; --json has all"] if more > 0 else []
    return [f"{len(problems)} objects that the database names are missing or damaged:", *lines] if problems else []


def _show(output: Output, running: embedded.Running) -> int:
    told = {"url": running.url, "pid": running.pid}
    output.show(told, lambda: f"{running.url} (pid {running.pid})", lambda: [running.url])
    return exits.OK


def _page(told: dict[str, Any], now: float) -> str:
    counted = ", ".join(f"{count} {state}" for state, count in dict(told.get("jobs") or {}).items() if count)
    facts = [
        ("version", told.get("version")),
        ("pid", told.get("pid")),
        ("up for", show_duration(now - told["started_at"]) if told.get("started_at") else ""),
        ("epoch", told.get("leader_epoch")),
        ("jobs", counted or "none"),
        ("store", told.get("store")),
        ("storage", " ".join(filter(None, (told.get("storage"), told.get("storage_id"))))),
    ]
    lines = [f"{name + ':':<9} {value}" for name, value in facts if value not in (None, "")]
    lines += [f"trouble:  {sentence}" for sentence in told.get("troubles") or ()]
    for each in told.get("servers") or ():
        stands = "leads" if each["leads"] else "follows" if each["there"] else silence(each)
        lines.append(f"server:   {each['address']} {stands} (pid {each['pid']} on {each['host']}, {each['version']})")
    happened = list(told.get("happened") or ())[:SHOWN]
    return "\n".join(lines + [f"happened: {happening(event, now)}" for event in happened])


def silence(server: dict[str, Any]) -> str:
    """Of a server that has not been seen: since when. One of an older version does not say."""
    return f"is silent for {show_duration(server['silent_s'])}" if server.get("silent_s") else "is silent"


def happening(event: dict[str, Any], now: float) -> str:
    """An event that belongs to no job, as an operator reads it."""
    data = {name: value for name, value in event["data"].items() if value not in ("", None, 0)}
    if event["kind"] == "LeaderChanged":
        said = f"{data.get('address')} leads, epoch {data.get('epoch')}"
        said += f", after {data['before']}" if data.get("before") else ""
    elif event["kind"] == "DatabaseBack":
        said = f"the database was away for {show_duration(data.get('away_s', 0))}, since {_clock(data['since'])}"
    elif event["kind"] == "StorageChanged":
        said = f"storage is {data.get('at')} now, not {data.get('before')}"
    else:
        said = " ".join([event["kind"], *(f"{name}={value}" for name, value in data.items())])
    return f"{_clock(event['at'])}, {show_duration(max(0.0, now - event['at']))} ago: {said}"


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _not_elsewhere(resolved: settings.Resolved) -> None:
    url, source = resolved.settings.server_url, resolved.sources["server_url"]
    if url:
        hint = "headway context use local" if source.startswith("context ") else f"take it out of {source}"
        hint = f"unset {source}" if source.startswith("HEADWAY_") else hint
        raise Conflict(f"server_url is set to {url}: that server is used, not one of this machine", hint)
