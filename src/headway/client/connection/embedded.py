"""The server of this machine: where it listens, whether it lives, and how it is started and stopped.

It is found through `server.json` in the home, and started in the background by whoever needs it first. A lock sees to
it that two callers at once start one server. What the server does when it runs is the business of headway.wiring.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from headway.client.connection import logins
from headway.client.connection.http import Address, NobodyWatches, Watch, healthy
from headway.core.errors import OperatorError, Unavailable
from headway.settings import Home, Resolved, is_loopback

if TYPE_CHECKING:
    import subprocess

LOG_BYTES_MAX = 16 * 2**20
LOG_LINES_SHOWN = 15
LOOK_EVERY_S = 0.02
BROUGHT_BACK_S_MAX = 5.0  # So long may a service manager take to start a server again that was killed.

PLATFORM = sys.platform
NAMES = {"darwin": "macOS", "win32": "Windows"}

# Servers that this process started; kept so that one that ends is reaped.
_children: list[subprocess.Popen[bytes]] = []


class Running(NamedTuple):
    """A server process that is alive."""

    url: str
    pid: int
    start: int


def locate(resolved: Resolved, home: Home, env: Mapping[str, str], watch: Watch = NobodyWatches()) -> Address:
    """Return where the server is; the embedded one is started when it does not run."""
    url, ca_file = resolved.settings.server_url, resolved.settings.ca_file
    if url:
        known = env.get("HEADWAY_TOKEN") or logins.token_for(home, url)
        return Address(url, known, ca_file) if known else Address(url, _own_token(home, env, url), ca_file, own=True)
    running = read_running(home)
    if running is None and resolved.settings.accounts == "on":
        # A shared server is somebody's service: one that a command started by the way would stand in its place.
        watch.begin("waiting for the server of this machine to be started again", None)
        try:
            running = _brought_back(home, ca_file)
        finally:
            watch.end()
    if running is None:
        watch.begin(f"starting the server of this machine; its log is {home.server_log}", None)
        try:
            running = start(home, env, resolved.settings.auto_start_s_max, ca_file)
        finally:
            watch.end()
    return Address(running.url, token(home, env), ca_file)


def need_linux() -> None:
    """The server, its agents and their keepers stand on Linux (/proc, signals by handle, control groups)."""
    if not PLATFORM.startswith("linux"):
        here = NAMES.get(PLATFORM, PLATFORM)
        raise OperatorError(
            f"jobs and their server need Linux; on {here} only the command line and the SDK work",
            "work with a server elsewhere: headway login --server URL",
        )


def _brought_back(home: Home, ca_file: str) -> Running:
    """The shared server of this machine, which is down: one that was killed is given the time to be started again."""
    give_up_at = time.monotonic() + (BROUGHT_BACK_S_MAX if home.server_file.exists() else 0.0)
    while (running := read_running(home)) is None or not healthy(running.url, ca_file=ca_file):
        if time.monotonic() >= give_up_at:
            raise Unavailable("the server of this machine does not run", "headway server start, or start its service")
        time.sleep(LOOK_EVERY_S)
    return running


def _own_token(home: Home, env: Mapping[str, str], urls: str) -> str:
    """The private token of this home, for a server on this machine alone: nobody else shall see it."""
    hosts = [urlsplit(url.strip()).hostname or "" for url in urls.split(",")]
    running = read_running(home)
    own = running is not None and running.url == urls.strip().rstrip("/")
    return token(home, env) if own or all(is_loopback(host) for host in hosts) else ""


def token(home: Home, env: Mapping[str, str]) -> str:
    """The token of HEADWAY_TOKEN, else of the private file in the home."""
    if env.get("HEADWAY_TOKEN"):
        return env["HEADWAY_TOKEN"]
    try:
        return home.token_file.read_text().strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise OperatorError(f"{home.token_file} cannot be read: {error.strerror}") from None


def read_running(home: Home) -> Running | None:
    """The server that server.json names, when that very process is alive."""
    try:
        found = json.loads(home.server_file.read_text())
        running = Running(str(found["url"]), int(found["pid"]), int(found["start"]))
    except FileNotFoundError:
        return None
    except PermissionError:
        raise OperatorError(f"{home.server_file} cannot be read", "it belongs to somebody else") from None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return running if process_start(running.pid) == running.start else None


def process_start(pid: int) -> int | None:
    """When a process began, in the kernel's ticks since boot; None when it is gone or only waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command's name may hold spaces and parentheses: the fields begin after the last one.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def start(
    home: Home, env: Mapping[str, str], wait_s_max: float, ca_file: str = "", words: Sequence[str] = ()
) -> Running:
    """Start the server in the background, wait until it answers, and say what its log says when it does not."""
    need_linux()
    give_up_at = time.monotonic() + wait_s_max
    with _one_at_a_time(home, give_up_at):
        running = read_running(home)
        if running is not None:
            return running
        log_from = _rotate(home.server_log)
        child = _spawn(home, env, words)
        while time.monotonic() < give_up_at:
            running = read_running(home)
            if running is not None and healthy(running.url, ca_file=ca_file):
                return running
            # Somebody may have started one by hand at the same moment: then ours gave way, and that one is waited for.
            if child.poll() is not None and not _owned(home):
                raise Unavailable(
                    f"the embedded server ended at once (exit code {child.returncode}){_last_lines(home, log_from)}",
                    "headway doctor looks for what is wrong",
                )
            time.sleep(LOOK_EVERY_S)
    raise Unavailable(
        f"the embedded server did not answer within {wait_s_max:g} s{_last_lines(home, log_from)}",
        "headway doctor looks for what is wrong; auto_start_s_max sets how long to wait",
    )


def stop(home: Home, wait_s_max: float = 30.0) -> Running | None:
    """Ask the server to end and wait until it has; None when none ran. Jobs go on."""
    running = read_running(home)
    if running is None:
        return None
    try:
        handle = os.pidfd_open(running.pid)
    except ProcessLookupError:
        return running
    try:
        # The handle is held, so the number cannot be given to another process between this look and the signal.
        if process_start(running.pid) == running.start:
            signal.pidfd_send_signal(handle, signal.SIGTERM)
    except ProcessLookupError:
        return running
    finally:
        os.close(handle)
    give_up_at = time.monotonic() + wait_s_max
    while process_start(running.pid) == running.start:
        if time.monotonic() >= give_up_at:
            raise Unavailable(f"the server (pid {running.pid}) did not end within {wait_s_max:g} s")
        time.sleep(LOOK_EVERY_S)
    for child in _children:
        child.poll()
    return running


def _spawn(home: Home, env: Mapping[str, str], words: Sequence[str]) -> subprocess.Popen[bytes]:
    import subprocess

    # -v: what goes wrong in it belongs in its log in full.
    command = [sys.executable, "-m", "headway.cli.main", "server", "start", "--foreground", "-v", *words]
    with open(home.server_log, "ab") as log:
        # From "/", so that it holds no directory of the caller and imports nothing from there.
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=_absolute(env),
            start_new_session=True,
        )
    _children.append(child)
    return child


def _absolute(env: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment with its relative paths made absolute, for a process that runs elsewhere."""
    given = dict(env)
    if given.get("HEADWAY_HOME"):
        given["HEADWAY_HOME"] = os.path.abspath(given["HEADWAY_HOME"])
    if given.get("PYTHONPATH"):
        given["PYTHONPATH"] = os.pathsep.join(os.path.abspath(each) for each in given["PYTHONPATH"].split(os.pathsep))
    return given


@contextmanager
def _one_at_a_time(home: Home, give_up_at: float) -> Iterator[None]:
    try:
        home.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = open(home.state / "start.lock", "a")  # noqa: SIM115 (closed below; opening alone can fail)
    except OSError as error:
        raise OperatorError(
            f"cannot write to {home.state}: {(error.strerror or str(error)).lower()}",
            "set HEADWAY_HOME to a directory of yours",
        ) from None
    with lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= give_up_at:
                    raise Unavailable("somebody else has been starting the embedded server for too long") from None
                time.sleep(LOOK_EVERY_S)
        yield


def _owned(home: Home) -> bool:
    """Whether a server holds this home, or is about to serve it."""
    try:
        with open(home.lock_file) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _rotate(log: Path) -> int:
    """Keep the log's size in bounds; return where the lines of this start will begin."""
    try:
        size = log.stat().st_size
    except FileNotFoundError:
        return 0
    if size <= LOG_BYTES_MAX:
        return size
    log.replace(log.with_suffix(".log.1"))
    return 0


def _last_lines(home: Home, log_from: int) -> str:
    try:
        with open(home.server_log, "rb") as log:
            log.seek(log_from)
            lines = log.read(LOG_BYTES_MAX).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    shown = "".join(f"\n  {line}" for line in lines[-LOG_LINES_SHOWN:])
    return f"; the end of {home.server_log}:{shown}" if shown else f"; {home.server_log} says nothing"
