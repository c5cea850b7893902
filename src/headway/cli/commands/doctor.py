"""`headway doctor`: looks at everything that a job needs on this machine, and says how to repair what is wrong."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from headway import __version__, settings
from headway.cli.commands.rehearsal import checkpoint
from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.options import connect, output_options
from headway.cli.frame.output import Output
from headway.client.connection import embedded
from headway.core.errors import HeadwayError
from headway.core.units import show_size

DISK_WARN_BYTES = 5 * 2**30
DISK_FAIL_BYTES = 200 * 2**20


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    what: str
    verdict: str  # ok, warn or fail
    found: str
    remedy: str = ""


@click.group(
    invoke_without_command=True,
    epilog=examples("headway doctor", "headway doctor --json", "headway doctor checkpoint train.py  # does it resume?"),
)
@output_options
@click.pass_context
def doctor(ctx: click.Context, output: Output) -> int:
    """Look for what is wrong with this installation. Starts the embedded server if none runs."""
    if ctx.invoked_subcommand is not None:
        return exits.OK
    checks: list[Check] = []
    for look in (python, home, disk, clock, servers, hosts, neighbours):
        try:
            checks += look(output)
        except HeadwayError as error:
            checks.append(Check(look.__name__, "fail", error.message, error.hint))
        except OSError as error:
            from headway.cli.frame.system_errors import from_system

            told = from_system(error)
            if told is None:
                raise
            checks.append(Check(look.__name__, "fail", told.message, told.hint))
    output.show([asdict(check) for check in checks], lambda: page(output, checks), lambda: [c.verdict for c in checks])
    return exits.ERROR if any(check.verdict == "fail" for check in checks) else exits.OK


doctor.add_command(checkpoint)


def page(output: Output, checks: list[Check]) -> str:
    lines = []
    for check in checks:
        lines.append(f"{output.paint(check.verdict.ljust(4))}  {check.what}: {check.found}")
        if check.remedy and check.verdict != "ok":
            lines.append(f"      {check.remedy}")
    return "\n".join(lines)


def python(output: Output) -> Iterator[Check]:
    from headway.cli.frame.system_errors import here
    from headway.client.code.script import interpreter

    if not here():
        yield Check("directory", "warn", "the one that this command runs in is gone", "cd to one that exists")

    version = platform.python_version()
    good = sys.version_info >= (3, 11)
    yield Check("python", "ok" if good else "fail", f"{version} at {sys.executable}", "install Python 3.11 or newer")
    yield Check("scripts run with", "ok", interpreter(os.environ))


def home(output: Output) -> Iterator[Check]:
    places = settings.home_from(os.environ)
    for name, place in (("state", places.state), ("data", places.data)):
        yield _writable(name, place)
    yield from _private("token", places.token_file)


def _writable(name: str, place: Path) -> Check:
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = place / f".doctor-{os.getpid()}"
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        return Check(
            name, "fail", f"{place}: {error.strerror}", "make it writable, or set HEADWAY_HOME to another place"
        )
    if place.stat().st_mode & 0o022:
        return Check(name, "warn", f"{place} can be written by others", f"chmod go-w {place}")
    return Check(name, "ok", f"{place} is writable")


def _private(name: str, file: Path) -> Iterator[Check]:
    if file.exists():
        private = not file.stat().st_mode & 0o077
        yield Check(
            name,
            "ok" if private else "fail",
            f"{file} is {'private' if private else 'open to others'}",
            f"chmod 600 {file}",
        )


def neighbours(output: Output) -> Iterator[Check]:
    """Whether people who share a server share a system user as well."""
    client = connect(output)
    if not client.accounts.whoami()["accounts"]:
        return
    facts = client.server().get("engines", {})
    pools = [
        pool["name"]
        for pool in client.house.pools()
        if facts.get(pool["rules"]["engine"], {}).get("one_system_user", True)
    ]
    if pools:
        yield Check(
            "neighbours",
            "warn",
            f"in {', '.join(pools)}, jobs of all users run as one system user: they can read and stop each other's",
            "projects keep people apart in Headway, not on such a machine; use it among people who trust each other",
        )


def disk(output: Output) -> Iterator[Check]:
    place = settings.home_from(os.environ).data
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    verdict = "fail" if free < DISK_FAIL_BYTES else "warn" if free < DISK_WARN_BYTES else "ok"
    yield Check("disk", verdict, f"{show_size(free)} are free at {place}", "make room, or move HEADWAY_HOME")


def clock(output: Output) -> Iterator[Check]:
    # Leases and limits count on a monotonic clock; a wrong time of day spoils only what is shown.
    good = time.time() > 1_700_000_000
    shown = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    yield Check("clock", "ok" if good else "warn", shown, "set the machine's clock; times are shown wrongly")


def servers(output: Output) -> Iterator[Check]:
    client = connect(output)
    elsewhere = client.resolved.settings.server_url
    began = time.monotonic()
    told = client.server()
    took_ms = (time.monotonic() - began) * 1000
    running = None if elsewhere else embedded.read_running(client.home)
    where = elsewhere or (running.url if running else "")
    yield Check("server", "ok", f"{where} answers in {took_ms:.0f} ms (version {told['version']})")
    if told["version"] != __version__:
        remedy = "upgrade the older one" if elsewhere else "headway server restart"
        yield Check("versions", "warn", f"the server has {told['version']}, this command {__version__}", remedy)
    if not elsewhere:
        yield _boot()
    for trouble in told.get("troubles") or ():
        yield Check("server", "warn", trouble, "see headway server status")
    yield from _nodes(output, client.nodes, client.house.pools, told.get("engines", {}))


def _boot() -> Check:
    """Whether the server starts with the machine, and whether what starts it is still there."""
    from headway.client.connection import boot

    found = boot.enabled(os.environ)
    if found is None:
        return Check(
            "after a reboot", "ok", "it starts with the first command; with the machine: headway server enable"
        )
    gone = boot.missing_program(found)
    said = f"it starts with the machine ({found.by}: {found.place})"
    if gone:
        return Check("after a reboot", "warn", f"{said}, by {gone}, which is gone", "headway server enable, anew")
    return Check("after a reboot", "ok", said)


def hosts(output: Output) -> Iterator[Check]:
    """What the server's engines say of the hosts and platforms that they reach by themselves."""
    found = connect(output).house.hosts()
    for each in found:
        yield from (Check(**said) for said in each.get("checks", ()))
    for pool in sorted({str(each["pool"]) for each in found}):
        users = sorted({str(each["user"]) for each in found if each["pool"] == pool and "user" in each})
        if users:
            said = (
                f"everybody's jobs run there as one system user ({', '.join(users)}), and can read each other's files"
            )
            yield Check(f"pool {pool}", "warn", said, "let only those use it who may see each other's work")


def _only_ordered(rules: dict[str, Any], engines: dict[str, Any]) -> bool:
    ordered = engines.get(rules["engine"], {}).get("ordered", False)
    return ordered and not rules.get("min") and bool(rules.get("max"))


def _nodes(
    output: Output,
    ask: Callable[[], list[dict[str, Any]]],
    pools: Callable[[], list[dict[str, Any]]],
    engines: dict[str, Any],
) -> Iterator[Check]:
    give_up_at = time.monotonic() + 10.0
    found = ask()
    known = pools() if not found else []
    if not found and not known:
        yield Check("nodes", "fail", "there is no pool, so no node", "headway pool set local engine=local nodes=1")
        return
    if known and all(_only_ordered(each["rules"], engines) for each in known):
        names = ", ".join(str(each["name"]) for each in known)
        yield Check("nodes", "ok", f"none now; they are ordered from {names} when jobs need them")
        return
    # A server that has only just started has its first agent still on the way.
    with output.watch.over("waiting for a node to call home"):
        while not any(node["state"] == "up" for node in found) and time.monotonic() < give_up_at:
            time.sleep(0.1)
            found = ask()
    if not found:
        yield Check("nodes", "fail", "no node has called home", "look at the server's log: headway server status")
    for node in found:
        verdict = {"up": "ok", "silent": "warn"}.get(str(node["state"]), "fail")
        yield Check(
            f"node {node['id']}",
            verdict,
            f"{node['state']}, agent {node['agent_version']}",
            "headway server restart starts its agent again",
        )
