"""Standing nodes on this machine: each is a directory with an agent that was started there.

An agent is started apart from the server: it is nobody's child, has a session of its own, and outlives the server and
its terminal. Whether it lives is read from its pid file, so an engine that is made anew finds all of them again.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headway.core.errors import Unavailable
from headway.core.growth.grow import Order
from headway.core.model import NodeId, Pool
from headway.engines.agent_zip import AgentZip
from headway.engines.agents import agent_flags, spelled
from headway.engines.options import check_options
from headway.engines.protocol import Engine, Request, Sight, Sighting, Sightings
from headway.settings import Home, Settings
from headway.whole_files import write_durably, write_whole

UP_WITHIN_S = 40.0
RELEASED_WITHIN_S = 50.0
LOOK_EVERY_S = 0.01
OUT_BYTES_MAX = 1 << 20
TAIL_BYTES = 4096

# Runs between server and agent and ends at once, so that the agent is nobody's child: its end leaves no zombie here.
# Signals go back to their defaults, whatever the server's own parent (nohup, a test) had made of them.
STARTER = """import os, signal, sys
signals = [each for each in signal.valid_signals() if each not in (signal.SIGKILL, signal.SIGSTOP)]
print(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, setsid=True, setsigmask=[], setsigdef=signals,
      file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)]))
"""
# All that an agent gets of the server's environment: nothing of the terminal in which the server happened to start.
FOR_AGENTS = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
# And where packages and inputs come from, and how to get there; ranks see none of it. Keys to storage are not among
# them (AWS_ may be the server's own): what else a node shall have is named by the setting `agent_env`.
FOR_FETCHING = (
    "UV_", "PIP_", "CONDA_", "MAMBA_", "RATTLER_", "SSL_CERT_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy", "HEADWAY_AGENT_",
)  # fmt: skip


def read_options(pool: Pool) -> Pool:
    check_options(pool, {})
    return pool


def env_for_agents(settings: Settings, env: Mapping[str, str]) -> dict[str, str]:
    """What an agent on this machine gets of the server's environment."""
    wanted = tuple(word for word in settings.agent_env.replace(",", " ").split() if word != "*")
    exact = {*FOR_AGENTS, *(word for word in wanted if not word.endswith("*"))}
    begins = (*FOR_FETCHING, *(word[:-1] for word in wanted if word.endswith("*")))
    return {name: env[name] for name in env if name in exact or name.startswith(begins)}


class LocalEngine:
    def __init__(
        self,
        home: Home,
        pool: Pool,
        agent: AgentZip,
        storage_dir: str,
        settings: Settings,
        token_for: Callable[[NodeId], str],
        env: Mapping[str, str] = os.environ,
        server_urls: Callable[[], Sequence[str]] | None = None,
    ) -> None:
        # Where there are several servers, a file beside the nodes names all of them; the home's own names one.
        self._server_urls = server_urls
        self._server_file = home.state / "servers.json" if server_urls else home.server_file
        self._told: list[str] = []
        self._pool = pool.name
        self._shape = pool.shape
        self._home = home
        self._settings = settings
        self._storage_dir = storage_dir
        self._agent = agent
        self._token_for = token_for
        self._looked = False
        self._given: dict[NodeId, str] = {}  # The token that each node was handed last.
        self._env = env_for_agents(settings, env)

    def render(self, order: Order) -> Request:
        nodes = {node: {"argv": self._argv(node), "env": self._env, "cwd": "/"} for node in order.nodes}
        return Request(order, {"agent_version": self._agent.version, "nodes": nodes})

    def order(self, request: Request) -> None:
        for node, start in request.text["nodes"].items():
            with _saying(f"start the agent of {node}"), self._alone(node) as node_dir:
                if not alive(node_dir / "agent.pid"):
                    self._write_token(node_dir)
                    self._write_agent(node_dir)
                    _start(node, node_dir, start)

    def sightings(self) -> Sightings:
        with _saying("look at the local nodes"):
            node_dirs = self._node_dirs()
            # Agents may outlive a server, and keys are rotated: who has another token is given the new one.
            for node_dir in node_dirs:
                if self._given.get(node_dir.name) != self._token_for(node_dir.name):
                    self._write_token(node_dir)
            if not self._looked:
                for node_dir in node_dirs:
                    self._end_if_outdated(node_dir)
                self._looked = True
            nodes = {node_dir.name: _look(node_dir) for node_dir in node_dirs}
            self._tell_servers()
        return Sightings(nodes)

    def _end_if_outdated(self, node_dir: Path) -> None:
        """End an agent that outlived a server and has not what `agent_env` names now; it is then started anew.

        Its keeper and its ranks notice nothing. What differs from terminal to terminal, as PATH, is not a reason.
        """
        with self._alone(node_dir.name):
            pid = alive(node_dir / "agent.pid")
            has = _environ(pid) if pid else None
            if has is None or _beyond_the_usual(has) == _beyond_the_usual(self._env):
                return
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            give_up_at = time.monotonic() + UP_WITHIN_S
            while alive(node_dir / "agent.pid") and time.monotonic() < give_up_at:
                time.sleep(LOOK_EVERY_S)

    def _tell_servers(self) -> None:
        urls = list(self._server_urls()) if self._server_urls else []
        if urls != self._told:
            self._home.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._server_file, json.dumps({"url": ",".join(urls)}))
            self._told = urls

    def release(self, nodes: Sequence[NodeId]) -> None:
        for node in nodes:
            if not self._dir(node).is_dir():
                continue
            with _saying(f"release {node}"), self._alone(node) as node_dir:
                self._write_agent(node_dir)
                _end_all(node, node_dir)
                shutil.rmtree(node_dir)

    def _argv(self, node: NodeId) -> list[str]:
        settings, shape, node_dir = self._settings, self._shape, self._dir(node)
        argv = [sys.executable, "-I", "-S", str(node_dir / "agent.pyz"), "agent"]
        flags: dict[str, object] = {
            "--node-dir": node_dir,
            "--server-file": self._server_file,
            "--token-file": node_dir / "token",
        }
        if self._storage_dir:
            flags["--storage-dir"] = self._storage_dir  # Without one, its objects travel through the server.
        granted = (settings.local_cpus, settings.local_memory_bytes, settings.local_gpus)
        if shape is not None:
            granted = (shape.cpus, shape.memory_bytes, shape.gpus)
        return argv + spelled(flags | agent_flags(node, self._pool, settings, *granted))

    def _dir(self, node: NodeId) -> Path:
        return self._home.nodes_dir / node

    def release_all(self) -> None:
        """Release every node of this pool that has a directory here."""
        self.release([node_dir.name for node_dir in self._node_dirs()])

    def _node_dirs(self) -> list[Path]:
        if not self._home.nodes_dir.is_dir():
            return []
        found = self._home.nodes_dir.glob(f"{self._pool}-*")
        # Exactly this pool's: nodes of a pool "lab-2" begin like those of "lab".
        numbered = [entry for entry in found if entry.name.removeprefix(f"{self._pool}-").isdigit()]
        return sorted(entry for entry in numbered if entry.is_dir())

    def _write_agent(self, node_dir: Path) -> None:
        """Put the agent there. The same one is left alone: a keeper may be running from that very file."""
        path = node_dir / "agent.pyz"
        if not path.is_file() or path.read_bytes() != self._agent.data:
            write_durably(path, self._agent.data)

    def _write_token(self, node_dir: Path) -> None:
        """Hand a node the token that is good for it alone, readable by nobody else. Its agent takes the file away."""
        self._given[node_dir.name] = self._token_for(node_dir.name)
        path, token = node_dir / "token", self._given[node_dir.name] + "\n"
        if not path.is_file() or path.read_text() != token:
            write_whole(path, token)

    @contextmanager
    def _alone(self, node: NodeId) -> Iterator[Path]:
        """The node's directory, with nobody else at work on this node: a late call may meet its own repetition."""
        locks = self._home.nodes_dir / ".locks"
        locks.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(locks / node, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            node_dir = self._dir(node)
            node_dir.mkdir(mode=0o700, exist_ok=True)
            node_dir.chmod(0o700)
            yield node_dir


def alive(pid_file: Path) -> int:
    """The pid in the file if that very process is alive, else 0. A number that was given away again does not count."""
    try:
        fact = json.loads(pid_file.read_text())
        pid, start = int(fact["pid"]), int(fact["start"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return pid if _began(pid) == start else 0


def _began(pid: int) -> int | None:
    """When a process began, in the kernel's ticks since boot; None when it is gone or only waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command's name may hold spaces and parentheses: the fields begin after the last one.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _environ(pid: int) -> dict[str, str] | None:
    """The environment with which a process was started; None where it is gone or cannot be read."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    pairs = (os.fsdecode(word).partition("=") for word in words if b"=" in word)
    return {name: value for name, _, value in pairs}


def _beyond_the_usual(env: Mapping[str, str]) -> dict[str, str]:
    """What only `agent_env` can have brought. (LC_CTYPE is Python's own doing where there is no locale.)"""
    usual = {*FOR_AGENTS, "LC_CTYPE"}
    return {name: env[name] for name in env if name not in usual and not name.startswith(FOR_FETCHING)}


def _look(node_dir: Path) -> Sighting:
    if alive(node_dir / "agent.pid"):
        return Sighting(Sight.UP)
    return Sighting(Sight.AGENTLESS, "its agent does not run")


def _start(node: NodeId, node_dir: Path, start: Mapping[str, Any]) -> None:
    """Start an agent that is nobody's child, and wait until it has taken the node."""
    out = node_dir / "agent.out"
    if out.exists() and out.stat().st_size > OUT_BYTES_MAX:
        out.replace(node_dir / "agent.out.1")
    with open(out, "ab") as stderr:
        starter = subprocess.run(
            [sys.executable, "-I", "-S", "-c", STARTER, *start["argv"]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=start["cwd"],
            env=start["env"],
            timeout=UP_WITHIN_S,
            start_new_session=True,
        )
    if starter.returncode != 0:
        raise Unavailable(f"the agent of {node} could not be started: {_tail(out)}")
    pid = int(starter.stdout)
    give_up_at = time.monotonic() + UP_WITHIN_S
    while not alive(node_dir / "agent.pid"):
        if _began(pid) is None and not alive(node_dir / "agent.pid"):
            raise Unavailable(f"the agent of {node} ended at once: {_tail(out) or 'it said nothing'}")
        if time.monotonic() > give_up_at:
            raise Unavailable(f"the agent of {node} did not take its node within {UP_WITHIN_S:g} s")
        time.sleep(LOOK_EVERY_S)


def _end_all(node: NodeId, node_dir: Path) -> None:
    """Have the agent's own `release` end ranks, keeper, guard and agent of this node."""
    argv = [sys.executable, "-I", "-S", str(node_dir / "agent.pyz"), "release", "--node-dir", str(node_dir)]
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, cwd="/", timeout=RELEASED_WITHIN_S, text=True
    )
    left = [name for name in ("agent", "keeper") if alive(node_dir / f"{name}.pid")]
    if done.returncode != 0 or left:
        what = f"{' and '.join(left)} still alive" if left else f"exit code {done.returncode}"
        raise Unavailable(f"{node} could not be released: {what} {done.stderr.strip()[-500:]}".rstrip())


def _tail(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


@contextmanager
def _saying(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f"cannot {what}: {(error.strerror or str(error)).lower()}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"cannot {what}: not done within {error.timeout:g} s") from None


def _proves_conformance(engine: LocalEngine) -> Engine:
    return engine
