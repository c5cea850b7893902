"""Local nodes that run as another system user than the server: whose jobs they are can read none of its files.

To the server such a node is a host that it reaches not by ssh but by becoming that user: as root directly, otherwise by
sudo. What is done there is the same as on any host (ssh/engine.py, and the agent's entrypoints/ssh_host.py). Nobody's
storage folder is theirs: files travel through the server.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.core.errors import BadInput, HeadwayError, OperatorError, Unavailable
from headway.core.growth.grow import standing_nodes
from headway.core.model import NodeId, Pool
from headway.core.spec.hosts import Host
from headway.engines.checks import Check, check
from headway.engines.local import FOR_AGENTS, LocalEngine, env_for_agents
from headway.engines.protocol import Engine, Sightings
from headway.engines.ssh.client import Silent
from headway.engines.ssh.engine import SshEngine
from headway.engines.ssh.options import PATH, HostOptions
from headway.settings import Settings

LOGIN = ("LANG", "LC_ALL", "TZ")
READABLE = 'while IFS= read -r f; do if [ -r "$f" ] || [ -w "$f" ]; then echo "$f"; fi; done'
BACKSTAGE = "~/.headway"


def find_user(name: str) -> pwd.struct_passwd:
    """The user whom the setting names, if local nodes may run as that one."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise BadInput(f'local_user: there is no system user "{name}"', f"useradd --create-home {name}") from None
    if found.pw_uid in (0, os.geteuid()):
        whose = "root" if found.pw_uid == 0 else "the user who runs the server"
        raise BadInput(f'local_user: "{name}" is {whose}, who can read all of the server\'s files', "name another one")
    return found


def run_as(user: pwd.struct_passwd, argv: Sequence[str], given: bytes, limit_s: float) -> tuple[int, bytes, str]:
    """Run a command as that user, with nothing of the server's environment: exit code, output, complaints."""
    env = {name: os.environ[name] for name in LOGIN if name in os.environ}
    env |= {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "PATH": os.defpath, "SHELL": "/bin/sh"}
    env["PATH"] = f"/usr/local/bin:{os.defpath}"
    become: dict[str, Any] = {}
    if os.geteuid() == 0:
        groups = os.getgrouplist(user.pw_name, user.pw_gid)
        become = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups, "umask": 0o077}
    else:
        argv = ["sudo", "-n", "-H", "-u", user.pw_name, "--", *argv]
    try:
        done = subprocess.run(argv, input=given, capture_output=True, timeout=limit_s, cwd="/", env=env, **become)
    except subprocess.TimeoutExpired:
        raise Silent(f"nothing was done as {user.pw_name} within {limit_s:g} s") from None
    except OSError as error:
        raise Unavailable(f"cannot become {user.pw_name}: {(error.strerror or str(error)).lower()}") from error
    said = done.stderr.decode("utf-8", "replace").strip()
    if os.geteuid() != 0 and said.startswith("sudo:"):
        raise OperatorError(
            f"the server's user may not become {user.pw_name}: {said.splitlines()[-1]}",
            f"allow it in /etc/sudoers.d: SERVER_USER ALL=({user.pw_name}) NOPASSWD: ALL; or run the server as root",
        )
    return done.returncode, done.stdout, said


def open_to(user: pwd.struct_passwd, files: Sequence[Path]) -> list[str]:
    """Which of these files that user can read or write: tried as that user."""
    given = "".join(f"{path}\n" for path in files if path.exists()).encode()
    code, said, complaint = run_as(user, ["sh", "-c", READABLE], given, 30.0)
    if code != 0:
        raise OperatorError(f"could not try as {user.pw_name} what is readable: {complaint[-300:]}")
    return said.decode().splitlines()


def check_user(settings: Settings, files: Sequence[Path]) -> None:
    """Refuse a user for local nodes who does not exist, or who can read what the server must keep to itself."""
    user = find_user(settings.local_user)
    readable = open_to(user, files)
    if readable:
        raise OperatorError(
            f'local_user: "{user.pw_name}" can read {", ".join(readable[:5])}', "chmod go-rwx, or name another user"
        )


class UserHost:
    """This machine, as another user. Has what ssh/engine.py asks of a host."""

    def __init__(self, options: HostOptions, user: pwd.struct_passwd) -> None:
        self.options, self._user = options, user

    @property
    def name(self) -> str:
        return self.options.host.name

    def argv(self) -> list[str]:
        return ["sudo", "-n", "-u", self._user.pw_name]

    def remedy(self, complaint: str) -> str:
        return f"try it as the server's user: sudo -n -u {self._user.pw_name} true"

    def run(self, script: str, given: bytes) -> tuple[int, bytes, str]:
        return run_as(self._user, ["sh", "-c", script], given, self.options.call_s_max)

    def close(self) -> None:
        pass


class LocalUserEngine(SshEngine):
    """Standing nodes on this machine. Nodes of before, which ran as the server's own user, are released first."""

    def __init__(self, before: LocalEngine, files: Sequence[Path], *words: Any, env: Mapping[str, str]) -> None:
        super().__init__(*words)
        settings: Settings = self._settings
        self._before: LocalEngine | None = before
        self._files = files
        kept = env_for_agents(settings, env)
        self._env = {name: kept[name] for name in kept if name not in (*FOR_AGENTS, "HEADWAY_AGENT_CA_FILE")}
        self._user = find_user(settings.local_user)
        directory = settings.local_dir or BACKSTAGE
        if settings.local_dir and (not PATH.fullmatch(directory) or not directory.startswith("/")):
            raise BadInput(f'local_dir: "{directory[:80]}" is not a plain, whole path')
        self._options = HostOptions(
            Host("this machine"), call_home="direct", directory=directory, cpus=settings.local_cpus,
            memory_bytes=settings.local_memory_bytes, gpus=settings.local_gpus,
        )  # fmt: skip
        if (shape := self._pool.shape) is not None:
            self._options = replace(self._options, cpus=shape.cpus, memory_bytes=shape.memory_bytes, gpus=shape.gpus)
        self._meet(standing_nodes(self._pool))

    def _named(self, pool: Pool) -> Mapping[NodeId, HostOptions]:
        return {}  # There is one, this machine: see _meet.

    def sightings(self) -> Sightings:
        self._make_room()
        self._meet(self._found())
        return super().sightings()

    def examine(self) -> list[dict[str, Any]]:
        """For `doctor`: who runs the nodes, and what of the server that one can read."""
        found: dict[str, Any] = {"platform": "local", "user": self._user.pw_name, "readable": []}
        try:
            found["readable"] = open_to(self._user, self._files)
        except HeadwayError as error:
            found["error"] = error.message
        return [{**found, "checks": [self._check(found)]}]

    def _check(self, found: Mapping[str, Any]) -> Check:
        what, user = f"local nodes of pool {self._pool.name}", self._user.pw_name
        if "error" in found:
            return check(what, "fail", str(found["error"]), "see headway server status")
        if found["readable"]:
            files = ", ".join(found["readable"][:5])
            return check(what, "fail", f"jobs there run as {user}, who can read {files}", "chmod go-rwx what is named")
        return check(what, "ok", f"jobs there run as {user}; nothing of the server's can be read by {user}")

    def _make_room(self) -> None:
        """Release what ran as the server's own user; make the directory of the nodes where we may."""
        if self._before is not None:
            self._before.release_all()
            self._before = None
        place = self._settings.local_dir
        if place and os.geteuid() == 0 and not os.path.isdir(place):
            os.makedirs(place, mode=0o700)
            os.chown(place, self._user.pw_uid, self._user.pw_gid)

    def _found(self) -> list[NodeId]:
        """Nodes of this pool that have a directory there: also such as the pool no longer wants."""
        host = UserHost(self._options, self._user)
        _, said, _ = host.run(f"cd {_quoted(self._root(self._options))} 2>/dev/null && ls -d */ 2>/dev/null", b"")
        names = [line.strip("/ ") for line in said.decode("utf-8", "replace").splitlines()]
        return [name for name in names if re.fullmatch(re.escape(self._pool.name) + r"-\d+", name)]

    def _meet(self, nodes: Sequence[NodeId]) -> None:
        for node in nodes:
            self._hosts.setdefault(node, UserHost(self._options, self._user))


def _quoted(place: str) -> str:
    return f'"$HOME/{place.removeprefix("~/")}"' if place.startswith("~/") else f'"{place}"'


def _proves_conformance(engine: LocalUserEngine) -> Engine:
    return engine
