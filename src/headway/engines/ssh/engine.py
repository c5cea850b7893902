"""Standing nodes on hosts that are reached by ssh: on each an agent, started without root, that calls home.

All of ours on a host lies in one directory per server; the agent's pid file says whether it lives, so an engine that is
made anew finds everything again. What the host itself answers about its processes is proof; silence is none.
How ssh is called is in client.py, what a pool may say in options.py, what is done on the host in the agent's
entrypoints/ssh_host.py.
"""

from __future__ import annotations

import ipaddress
import json
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import structlog

from headway.core.errors import HeadwayError, Unavailable
from headway.core.growth.grow import Order, standing_nodes
from headway.core.model import NodeId, Pool
from headway.engines.agent_zip import AgentZip
from headway.engines.agents import agent_flags, spelled
from headway.engines.kinds import EngineKind, Surroundings
from headway.engines.protocol import Engine, Request, Sight, Sighting, Sightings
from headway.engines.ssh.client import Silent, SshHost, sockets_dir
from headway.engines.ssh.host_checks import host_checks
from headway.engines.ssh.options import ALL, HostOptions, hosts_of, read_options
from headway.settings import Home, Settings

log = structlog.get_logger()
AT_ONCE_MAX = 32
ROOM_BYTES_MIN = 1 << 20
MARK = b"headway-answer: "
NOT_INSTALLED, NOTHING_THERE, NO_PYTHON = 90, 91, 92
PYTHONS = "python3 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 /usr/bin/python3"
OLD_PYTHON = "import sys; sys.exit(sys.version_info < (3, 8))"

Answer = dict[str, Any]


class OnHost(Protocol):
    """A place where a shell script can be run: a host by ssh, or this machine as another user."""

    options: HostOptions

    @property
    def name(self) -> str: ...
    def argv(self) -> list[str]: ...
    def run(self, script: str, given: bytes) -> tuple[int, bytes, str]: ...
    def remedy(self, complaint: str) -> str: ...
    def close(self) -> None: ...


class SshEngine:
    def __init__(
        self,
        home: Home,
        pool: Pool,
        agent: AgentZip,
        settings: Settings,
        url: str,
        house: str,
        token_for: Callable[[NodeId], str],
        listens_at: str = "",
    ) -> None:
        self._pool = pool
        self._agent = agent
        self._settings = settings
        self._ca = Path(settings.ca_file).read_text() if settings.ca_file else ""
        self._url = url
        self._listens_at = listens_at or url  # Where a tunnel ends: at this very server.
        self._house = house
        self._token_for = token_for
        sockets = sockets_dir(home.state)
        self._env: dict[str, str] = {}  # What agents get beyond their login's environment.
        self._hosts: dict[NodeId, OnHost] = {
            node: SshHost(options, sockets) for node, options in self._named(pool).items()
        }

    def render(self, order: Order) -> Request:
        nodes = {node: self._start_of(node, self._host(node)) for node in order.nodes}
        return Request(order, {"agent_version": self._agent.version, "server": self._url, "nodes": nodes})

    def order(self, request: Request) -> None:
        for node, start in request.text["nodes"].items():
            self._start(node, start)

    def sightings(self) -> Sightings:
        with ThreadPoolExecutor(max_workers=AT_ONCE_MAX, thread_name_prefix="ssh") as threads:
            seen = dict(zip(self._hosts, threads.map(self._sight, self._hosts), strict=True))
        silent = tuple(node for node, sighting in seen.items() if sighting and sighting.sight is Sight.SILENT)
        return Sightings({node: sighting for node, sighting in seen.items() if sighting}, silent=silent)

    def release(self, nodes: Sequence[NodeId]) -> None:
        for node in nodes:
            if node in self._hosts:
                host = self._hosts[node]
                self._ask(node, host, {"do": "release"})
                host.close()

    def examine(self) -> list[dict[str, Any]]:
        """What can be said of each host, for `doctor`: what it answers, or why it does not."""
        with ThreadPoolExecutor(max_workers=AT_ONCE_MAX, thread_name_prefix="ssh") as threads:
            found = list(threads.map(self._examine, standing_nodes(self._pool)))
        return [{**each, "checks": list(host_checks(self._pool.name, each))} for each in found]

    def _examine(self, node: NodeId) -> dict[str, Any]:
        host = self._hosts[node]
        found: dict[str, Any] = {"node": node, "host": host.name, "call_home": host.options.call_home}
        began, mono = time.time(), time.monotonic()
        try:
            answer = self._look(node, host)
            took_s = time.monotonic() - mono
            if answer is None:
                return {**found, "error": "nothing of ours is there", "silent": False}
            # The host looked at its clock some time between question and answer.
            off_s = answer["now"] - began
            answer["clock_off_s"] = round(off_s - took_s if off_s > took_s else min(off_s, 0.0), 1)
            return {**found, "took_ms": round(took_s * 1000), **answer}
        except HeadwayError as error:
            silent = isinstance(error, Silent)
            remedy = host.remedy(error.message) if silent else error.hint
            return {**found, "silent": silent, "error": error.message, "remedy": remedy}

    def _named(self, pool: Pool) -> Mapping[NodeId, HostOptions]:
        """The hosts that the pool names."""
        return hosts_of(pool)

    # --- one host ---

    def _host(self, node: NodeId) -> OnHost:
        if node not in self._hosts:
            raise Unavailable(f"{node} is not a host of pool {self._pool.name}")
        return self._hosts[node]

    def _start_of(self, node: NodeId, host: OnHost) -> dict[str, Any]:
        """All that starting a node's agent takes, but for the secrets."""
        options = host.options
        flags = agent_flags(node, self._pool.name, self._settings, options.cpus, options.memory_bytes, options.gpus)
        return {
            "ssh": [*host.argv(), "--", host.name],
            "directory": self._root(options),
            "flags": spelled(flags),
            "address": options.address,
            "call_home": options.call_home,
        }

    def _root(self, options: HostOptions) -> str:
        return f"{options.directory}/{self._house}"

    def _sight(self, node: NodeId) -> Sighting | None:
        """What there is of a node; None when its host has nothing of it."""
        host = self._hosts[node]
        try:
            answer = self._look(node, host)
        except HeadwayError as error:
            return Sighting(Sight.SILENT, error.message)
        if answer is None or "node" not in answer:
            return None
        there = answer["node"]
        if there["boot_id"] and there["boot_id"] != answer["boot_id"]:
            return Sighting(Sight.RESTARTED, f"{host.name} was started anew")
        if not there["agent"]:
            return Sighting(Sight.AGENTLESS, "its agent does not run")
        if not answer.get("calls", {}).get("answers") and host.options.call_home != "direct":
            self._mend(node, host, answer)
        full = f"{host.name} has no room left on its disk" if answer["free_bytes"] < ROOM_BYTES_MIN else ""
        return Sighting(Sight.UP, full or answer.get("trouble", ""))

    def _look(self, node: NodeId, host: OnHost, via: bool | None = None) -> Answer | None:
        asked = {"do": "look", "url": self._url, "token": self._token_for(node), "ca": self._ca, "via": via}
        return self._ask(node, host, asked)

    def _mend(self, node: NodeId, host: OnHost, answer: Answer) -> None:
        """The agent cannot reach us, but we can reach its host: give it a tunnel. What fails is tried at each look."""
        try:
            self._tunnel(node, host, answer["root"])
            self._look(node, host, via=True)
        except HeadwayError as error:
            log.warning("no tunnel", node=node, error=error.message)

    def _tunnel(self, node: NodeId, host: OnHost, root: str) -> None:
        where = urllib.parse.urlsplit(self._listens_at)
        target = where.hostname or "127.0.0.1"
        if target in ("0.0.0.0", "::"):
            target = "127.0.0.1"
        assert isinstance(host, SshHost)
        host.open_tunnel(f"{root}/{node}/home.sock", target, where.port or (443 if where.scheme == "https" else 80))
        log.info("tunnel opened", node=node, host=host.name)

    def _start(self, node: NodeId, start: Mapping[str, Any]) -> None:
        host = self._host(node)
        answer = self._look(node, host)
        if answer is None:
            self._install(host)
            answer = self._look(node, host)
        if answer is None:
            raise Unavailable(f"{host.name} has lost the agent that was just copied there")
        if answer.get("node", {}).get("agent"):
            return
        via = self._needs_tunnel(host.options.call_home, answer)
        asked = {"do": "start", "url": self._url, "token": self._token_for(node), "ca": self._ca, "via": via}
        self._ask(node, host, {**asked, "flags": start["flags"], "address": start["address"], "env": self._env})
        if via:
            self._tunnel(node, host, answer["root"])

    def _needs_tunnel(self, call_home: str, answer: Answer) -> bool:
        if call_home != "auto":
            return call_home == "tunnel"
        # On the host, our loopback address is somebody else's.
        return is_loopback(self._url) or not answer.get("calls", {}).get("answers")

    def _ask(self, node: NodeId, host: OnHost, asked: Mapping[str, Any]) -> Answer | None:
        """One question to the agent's program on the host. None: nothing of ours is there."""
        given = json.dumps({**asked, "node": node}).encode()
        script = (
            f"{_cd(self._root(host.options))} || exit {NOTHING_THERE}; a={self._program}; "
            f"[ -f $a ] && [ -s python ] || exit {NOT_INSTALLED}; "
            'd=$(pwd); p=$(cat python); exec "$p" -I -S "$d/$a" host'
        )
        code, said, complaint = host.run(script, given)
        if code == NOT_INSTALLED:
            self._install(host)
            code, said, complaint = host.run(script, given)
        if code == NOTHING_THERE:
            return None
        lines = [line for line in said.splitlines() if line.startswith(MARK)]
        if code != 0 or not lines:
            raise Unavailable(f"{host.name} failed (exit code {code}): {complaint[-500:] or 'it said nothing'}")
        answer: Answer = json.loads(lines[-1][len(MARK) :])
        if "error" in answer:
            raise Unavailable(f"{host.name} cannot {asked['do']} {node}: {answer['error']}")
        return answer

    @property
    def _program(self) -> str:
        return f"agent-{self._agent.version[:16]}.pyz"

    def _install(self, host: OnHost) -> None:
        """Copy the agent, which is named by its content, and note which Python runs it."""
        pythons = host.options.python or PYTHONS
        root = _quoted(self._root(host.options))
        script = (
            f"umask 077; mkdir -p {root} && cd {root} || exit 1; "
            f"cat > {self._program}.$$ && mv {self._program}.$$ {self._program} || exit 1; "
            f'for p in {pythons}; do if "$p" -c "{OLD_PYTHON}" 2>/dev/null; then '
            f"command -v $p > python.$$ && mv python.$$ python && exit 0; fi; done; exit {NO_PYTHON}"
        )
        code, _, complaint = host.run(script, self._agent.data)
        if code == NO_PYTHON:
            raise Unavailable(
                f"{host.name} has no Python from 3.8 on (looked for {pythons})", "install one, or set options.python"
            )
        if code != 0:
            raise Unavailable(f"the agent could not be copied to {host.name}: {complaint[-500:] or 'no reason given'}")


def _cd(place: str) -> str:
    return f"cd {_quoted(place)} 2>/dev/null"


def _quoted(place: str) -> str:
    """A path for the shell there; ~ is the home of the user that logs in."""
    return f'"$HOME/{place.removeprefix("~/")}"' if place.startswith("~/") else f'"{place}"'


def is_loopback(url: str) -> bool:
    """Whether an address means this machine on every machine, or no machine in particular."""
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified


def make(pool: Pool, around: Surroundings) -> SshEngine:
    words = (around.agent, around.settings, around.urls, around.house, around.token_for)
    return SshEngine(around.home, pool, *words, listens_at=around.listens_at)


KIND = EngineKind(
    name="ssh",
    says="nodes on hosts that the server reaches by ssh",
    options=ALL,
    read=read_options,
    make=make,
    proves_death=True,
)


def _proves_conformance(engine: SshEngine) -> Engine:
    return engine
