"""What starts the server of a home when the machine starts: a unit of systemd, or a line of cron.

A user's own systemd, and linger so that it runs without anybody signed in; root's is that of the machine. The server
is started as any command would start it, and only it is stopped with its unit: jobs and their agents go on.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from headway.client.connection import embedded
from headway.core.errors import Conflict, OperatorError
from headway.settings import CONTEXT, LOCAL, Home
from headway.whole_files import write_whole

OURS_ALONE = {"HEADWAY_TOKEN", "HEADWAY_SERVER_URL", CONTEXT}
ALWAYS = ("PATH", "LANG", "SSL_CERT_FILE", "https_proxy", "http_proxy", "no_proxy")
COMMAND_S_MAX = 60
START_S_MAX = 35 * 60  # Longer than the unit allows itself.
USER, SYSTEM = "systemctl --user", "systemctl"

UNIT = """\
# Written by `headway server enable`; `headway server disable` removes it.
[Unit]
Description=Headway server of {home}
StartLimitIntervalSec=0

[Service]
# It says when it answers: only then does `systemctl start` return. Changes of the database may take their time.
Type=notify
NotifyAccess=main
TimeoutStartSec=30min
{environment}
WorkingDirectory=/
ExecStart={command}
# One that is stopped on purpose stays so until the machine starts again; nor does it fight with one started by hand.
Restart=on-failure
RestartPreventExitStatus=2
RestartSec=2
TimeoutStopSec=60
# Jobs and their agents outlive the server: only the server itself is ended.
KillMode=process

[Install]
WantedBy={target}
"""


class Boot(NamedTuple):
    """How a server is started with the machine: by whom, and where that is written."""

    by: str
    place: str
    note: str = ""


def command() -> list[str]:
    return [sys.executable, "-m", "headway.cli.main", "server", "start", "--foreground", "-v"]


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """What the server is given: the settings of whoever enables it, and the way to programs."""
    kept = {name: value for name, value in env.items() if name.startswith("HEADWAY_") and name not in OURS_ALONE}
    kept |= {name: env[name] for name in ALWAYS if env.get(name)}
    if kept.get("HEADWAY_HOME"):
        kept["HEADWAY_HOME"] = os.path.abspath(kept["HEADWAY_HOME"])
    return {**kept, CONTEXT: LOCAL}  # Whatever server its owner works with at the moment.


def name_of(env: Mapping[str, str]) -> str:
    """Of the usual home simply headway; another has a name of its own."""
    home = env.get("HEADWAY_HOME")
    return f"headway-{hashlib.sha256(os.path.abspath(home).encode()).hexdigest()[:8]}" if home else "headway"


def unit(env: Mapping[str, str], home: Home, target: str) -> str:
    lines = "\n".join(f"Environment={_quoted(f'{name}={value}')}" for name, value in sorted(environment(env).items()))
    words = " ".join(_quoted(word).replace("$", "$$") for word in command())
    return UNIT.format(home=_plain(str(home.state.parent)), environment=lines, command=words, target=target)


def enable(env: Mapping[str, str], home: Home, system: bool) -> Boot:
    """Let the machine start the server of this home from now on, and start it so now; a running one gives way."""
    if system and os.geteuid() != 0:
        raise OperatorError(
            "only root can make a service of the whole machine", "headway server enable, without --system"
        )
    for systemd in [Systemd(env, True)] if system else [Systemd(env, False), Systemd(env, True)]:
        if systemd.answers():
            return systemd.enable(home)
    if shutil.which("crontab") and not system:
        return _enable_cron(env)
    raise OperatorError(
        "neither systemd nor cron answers here, so nothing can start the server with the machine",
        f"let whatever starts services here run: {cron_command(env)}",
    )


def disable(env: Mapping[str, str]) -> Boot | None:
    """Take that back; the server goes on until it is stopped. None where nothing was enabled."""
    found = enabled(env)
    if found is None:
        return None
    if found.by == "cron":
        _write_crontab([line for line in _crontab() if not line.endswith(_mark(env))])
    else:
        Systemd(env, found.by == SYSTEM).disable()
    return found


def enabled(env: Mapping[str, str]) -> Boot | None:
    """What starts the server of this home with the machine, if anything does. Asks nobody but crontab."""
    for systemd in (Systemd(env, False), Systemd(env, True)):
        if systemd.file.exists():
            return Boot(systemd.name, str(systemd.file))
    if shutil.which("crontab") and any(line.endswith(_mark(env)) for line in _crontab()):
        return Boot("cron", "crontab")
    return None


def missing_program(found: Boot) -> str:
    """The interpreter that a unit names, if it is gone: an environment that was removed, or moved."""
    if found.by == "cron":
        return ""
    try:
        lines = Path(found.place).read_text().splitlines()
    except OSError:
        return ""
    typed = next((line.partition("=")[2] for line in lines if line.startswith("ExecStart=")), "")
    program = shlex.split(typed)[0].replace("%%", "%").replace("$$", "$") if typed else ""
    return "" if not program or os.path.exists(program) else program


def restart(env: Mapping[str, str], home: Home) -> bool:
    """Let the service manager start the server anew, where it is its; False where it is not."""
    found = enabled(env)
    if found is None or found.by == "cron":
        return False
    systemd = Systemd(env, found.by == SYSTEM)
    if not systemd.answers():
        return False
    systemd.restart(home)
    return True


class Systemd:
    """That of a user, or of the machine, with the one unit that is ours there."""

    def __init__(self, env: Mapping[str, str], system: bool) -> None:
        self._env = env
        self.system = system
        self.name = SYSTEM if system else USER
        self.unit = f"{name_of(env)}.service"

    @property
    def file(self) -> Path:
        if self.system:
            return Path("/etc/systemd/system", self.unit)
        base = self._env.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
        return Path(base, "systemd/user", self.unit)

    def answers(self) -> bool:
        if self.system and os.geteuid() != 0:
            return False
        return bool(shutil.which("systemctl")) and self._ask("show", "--property=Version").returncode == 0

    def enable(self, home: Home) -> Boot:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.file, unit(self._env, home, "multi-user.target" if self.system else "default.target"))
        self._do("daemon-reload")
        self._do("enable", self.unit)
        self.restart(home)
        return Boot(self.name, str(self.file), "" if self.system else _linger())

    def restart(self, home: Home) -> None:
        embedded.stop(home)
        done = self._ask("restart", self.unit)
        if done.returncode:
            journal = f"journalctl {'' if self.system else '--user '}-u {self.unit} shows its log"
            raise OperatorError(f"{self.unit} did not start: {_last(done)}", journal)

    def disable(self) -> None:
        self._ask("disable", self.unit)
        self.file.unlink(missing_ok=True)
        self._ask("daemon-reload")

    def _do(self, *words: str) -> None:
        done = self._ask(*words)
        if done.returncode:
            raise OperatorError(f"{self.name}: {' '.join(words)} failed: {_last(done)}")

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run([*self.name.split(), *words], capture_output=True, text=True, timeout=START_S_MAX)
        except (OSError, subprocess.SubprocessError) as error:
            raise OperatorError(f"{self.name} cannot be run: {error}") from None


def _linger() -> str:
    """Without it a user's services end when they sign out, and none is started with the machine."""
    import getpass

    user = getpass.getuser()
    words = ["loginctl", "enable-linger", user]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_S_MAX)
        said = "" if done.returncode == 0 else _last(done)
    except (OSError, subprocess.SubprocessError) as error:
        said = str(error)
    return (
        f"it starts when {user} signs in, not before ({said}); an admin changes that: {' '.join(words)}" if said else ""
    )


def _quoted(word: str) -> str:
    """A word of a unit file: nothing in it is taken for a specifier, or for the end of it."""
    if "\n" in word or "\r" in word:
        raise Conflict(f"{word.partition('=')[0]}: its value has a line break, which no unit can hold", "unset it")
    return '"' + _plain(word).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _plain(text: str) -> str:
    return text.replace("%", "%%")


def _last(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout or "").strip().splitlines()
    return lines[-1][:300] if lines else f"exit code {done.returncode}"


# --- cron -----------------------------------------------------------------------------------------------------------


def cron_command(env: Mapping[str, str]) -> str:
    """A line of a shell that starts the server in the background."""
    words = [word for word in command() if word != "--foreground"]
    given = [f"{name}={shlex.quote(value)}" for name, value in sorted(environment(env).items())]
    return " ".join(["env", *given, *(shlex.quote(word) for word in words)])


def _enable_cron(env: Mapping[str, str]) -> Boot:
    # A bare % ends a command of cron's.
    line = f"@reboot {cron_command(env)} >/dev/null 2>&1 {_mark(env)}".replace("%", r"\%")
    _write_crontab([*(each for each in _crontab() if not each.endswith(_mark(env))), line])
    return Boot("cron", "crontab", "cron starts it with the machine, and not again when it should fail: systemd would")


def _mark(env: Mapping[str, str]) -> str:
    return f"# {name_of(env)}.service"


def _crontab() -> list[str]:
    done = subprocess.run(["crontab", "-l"], capture_output=True, text=True, timeout=COMMAND_S_MAX)
    return done.stdout.splitlines() if done.returncode == 0 else []


def _write_crontab(lines: Sequence[str]) -> None:
    content = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(["crontab", "-"], input=content, capture_output=True, text=True, timeout=COMMAND_S_MAX)
    if done.returncode:
        raise OperatorError(f"crontab refused the line: {_last(done)}")
