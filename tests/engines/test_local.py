"""The local engine keeps the law of all engines, and its agents are nobody's children."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from headway.core.errors import Unavailable
from headway.core.growth.grow import Order
from headway.core.model import Pool
from headway.engines import agent_zip
from headway.engines.agent_zip import AgentZip
from headway.engines.conformance import EngineConformance
from headway.engines.local import LocalEngine, alive
from headway.engines.local_kind import KIND
from headway.engines.protocol import Sight
from headway.settings import Settings, home_from
from tests.agent.sealed_home import HELLO, proven, seal
from tests.waiting import wait_until

PLAIN = agent_zip.pack({"__main__.py": Path(__file__).with_name("plain_agent.py").read_bytes()})
REAL = agent_zip.build()
ENV = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
ORDER = Order("local-1", "local", ("local-1",))


def token_for(node: str) -> str:
    return f"the-token-of-{node}"


def an_engine(
    place: Path, agent: AgentZip = PLAIN, settings: Settings | None = None, env: Mapping[str, str] = ENV
) -> LocalEngine:
    home = home_from({"HEADWAY_HOME": str(place)})
    home.nodes_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return LocalEngine(
        home, Pool("local", "local"), agent, str(place / "objects"), settings or Settings(), token_for, env
    )


def node_dir(place: Path, node: str = "local-1") -> Path:
    return home_from({"HEADWAY_HOME": str(place)}).nodes_dir / node


class LocalConformance(EngineConformance):
    kind = KIND
    pool = "local"

    def agent_of(self, place: Path, node: str) -> str:
        return str(alive(node_dir(place, node) / "agent.pid") or "")

    def end_agent(self, place: Path, node: str) -> None:
        os.kill(alive(node_dir(place, node) / "agent.pid"), signal.SIGKILL)

    def left_over(self, place: Path) -> list[str]:
        nodes = node_dir(place).parent
        files = [entry.name for entry in nodes.iterdir() if not entry.name.startswith(".")] if nodes.is_dir() else []
        return files + [str(pid) for pid in processes_of(place)]


def processes_of(place: Path) -> list[int]:
    """Processes with this place on their command line, or in a tag of their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
            if process.pid != os.getpid() and any(str(place / "state" / "nodes") in word for word in words):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


class TestLocalEngine(LocalConformance):
    def open_engine(self, place: Path) -> LocalEngine:
        return an_engine(place)


@pytest.mark.real
class TestLocalEngineWithRealAgents(LocalConformance):
    """No server is there: an agent stays all the same and goes on calling."""

    def open_engine(self, place: Path) -> LocalEngine:
        return an_engine(place, REAL)


class Answering(BaseHTTPRequestHandler):
    """The least of a server: takes syncs of those who know the token, and has nothing to say."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not proven(token_for("local-1"), "POST", self.path, dict(self.headers)):
            self.send_error(401)
            return
        syncs = self.server.syncs  # type: ignore[attr-defined]
        syncs.append(said | {"path": self.path})
        reply = {
            "leader_epoch": 1,
            "lease_left_s": 60,
            "full": True,
            "duties": [],
            "gone": [],
            "duties_digest": "0" * 16,
        }
        body = json.dumps(reply | {"safe": {}, "resend": False, "agent_version": REAL.version, "follow": []}).encode()
        self._answer(body)

    def do_GET(self) -> None:
        self._answer(HELLO)

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        for name, value in seal(token_for("local-1"), dict(self.headers), 200, body).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.mark.real
def test_a_real_agent_calls_the_server_that_the_files_name(headway_home: Path) -> None:
    engine = an_engine(headway_home, REAL, Settings(local_cpus=3.0, local_memory_bytes=5 << 30, local_gpus=2))
    engine.order(engine.render(ORDER))
    syncs: list[dict[str, Any]] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        server.syncs = syncs  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        home = home_from({"HEADWAY_HOME": str(headway_home)})
        # Only now: the agent must find a server that comes later than itself.
        home.server_file.write_text(json.dumps({"url": f"http://127.0.0.1:{server.server_port}", "pid": 1, "start": 1}))
        sync = wait_until(lambda: syncs[:1])[0]
        assert (sync["path"], sync["node"], sync["pool"]) == ("/agent/sync", "local-1", "local")
        assert sync["agent_version"] == REAL.version
        assert {name: sync["facts"][name] for name in ("cpus", "memory_bytes", "gpus")} == {
            "cpus": 3.0,
            "memory_bytes": 5 << 30,
            "gpus": 2,
        }
        engine.release(["local-1"])
        server.shutdown()
    assert not processes_of(headway_home)


@pytest.fixture
def engine(headway_home: Path) -> Iterator[LocalEngine]:
    engine = an_engine(headway_home)
    yield engine
    engine.release(["local-1"])


def begun(place: Path) -> dict[str, object]:
    """What the plain agent found when it began."""
    path = node_dir(place) / "begun.json"
    found: dict[str, object] = json.loads(wait_until(lambda: path.read_text() if path.exists() else ""))
    return found


def test_the_request_is_the_exact_command(headway_home: Path) -> None:
    settings = Settings(local_cpus=2.0, local_memory_bytes=1 << 30, local_gpus=0, log_flush_every_s=1.5)
    request = an_engine(headway_home, settings=settings, env={"PATH": "/bin", "HEADWAY_TOKEN": "secret"}).render(ORDER)
    state = headway_home / "state"
    expected = f"""{sys.executable} -I -S {state}/nodes/local-1/agent.pyz agent --node-dir {state}/nodes/local-1
        --server-file {state}/server.json --token-file {state}/nodes/local-1/token --storage-dir {headway_home}/objects
        --node local-1 --pool local --ship-every-s 1.5 --ship-follow-every-s 0.2
        --cpus 2.0 --memory-bytes 1073741824 --gpus 0"""
    asked = {"argv": expected.split(), "env": {"PATH": "/bin"}, "cwd": "/"}
    assert request.text == {"agent_version": PLAIN.version, "nodes": {"local-1": asked}}


def test_the_agent_gets_what_was_rendered_and_nothing_of_the_server(
    engine: LocalEngine, headway_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_TOKEN", "secret")
    request = an_engine(headway_home, env={"PATH": "/bin", "LANG": "C.UTF-8", "MARK": "x"}).render(ORDER)
    engine.order(request)
    found = begun(headway_home)
    assert found["argv"] == request.text["nodes"]["local-1"]["argv"][3:]
    assert found["cwd"] == "/"
    assert isinstance(found["env"], dict)
    assert {name: value for name, value in found["env"].items() if name != "LC_CTYPE"} == {
        "PATH": "/bin",
        "LANG": "C.UTF-8",
    }


@pytest.mark.parametrize(
    ("named", "env", "ended"),
    [
        ("AWS_*", {"AWS_REGION": "a"}, False),  # The same as before.
        ("AWS_*", {"AWS_REGION": "a", "PATH": f"/another:{ENV['PATH']}", "UV_X": "1"}, False),  # Another terminal.
        ("AWS_*", {"AWS_REGION": "b"}, True),
        ("AWS_*", {"AWS_REGION": "a", "AWS_PROFILE": "x"}, True),
        ("", {"AWS_REGION": "a"}, True),  # It may no longer have it.
    ],
)
def test_an_agent_that_outlived_a_server_is_started_anew_where_agent_env_says_something_else_now(
    headway_home: Path, named: str, env: dict[str, str], ended: bool
) -> None:
    first = an_engine(headway_home, settings=Settings(agent_env="AWS_*"), env={**ENV, "AWS_REGION": "a"})
    first.order(first.render(ORDER))
    pid_file = node_dir(headway_home) / "agent.pid"
    old = alive(pid_file)
    second = an_engine(headway_home, settings=Settings(agent_env=named), env={**ENV, **env})
    assert second.sightings().nodes["local-1"].sight is (Sight.AGENTLESS if ended else Sight.UP)
    second.order(second.render(ORDER))
    pid = alive(pid_file)
    assert (pid != old) is ended
    has = psutil.Process(pid).environ()
    assert {name: has[name] for name in has if name.startswith("AWS_")} == {
        name: env[name] for name in env if name.startswith("AWS_") and named
    }
    second.release(["local-1"])


def test_the_agent_is_nobodys_child_and_has_a_session_of_its_own(engine: LocalEngine, headway_home: Path) -> None:
    before = {child.pid for child in psutil.Process().children()}
    engine.order(engine.render(ORDER))
    agent = psutil.Process(alive(node_dir(headway_home) / "agent.pid"))
    assert agent.ppid() != os.getpid()
    assert os.getsid(agent.pid) == agent.pid
    assert agent.terminal() is None
    agent.kill()
    wait_until(lambda: engine.sightings().nodes["local-1"].sight is Sight.AGENTLESS)
    wait_until(lambda: not {child.pid for child in psutil.Process().children()} - before, what="no child of ours left")


def test_the_agent_inherits_no_open_file_but_its_output(engine: LocalEngine, headway_home: Path) -> None:
    with open(headway_home / "open", "w") as open_here:
        os.set_inheritable(open_here.fileno(), True)
        engine.order(engine.render(ORDER))
    pid = alive(node_dir(headway_home) / "agent.pid")
    targets = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    assert str(headway_home / "open") not in targets
    assert not [target for target in targets if target.startswith("pipe:")]
    assert str(node_dir(headway_home) / "agent.out") in targets


def test_an_agent_outlives_the_process_that_ordered_it(engine: LocalEngine, headway_home: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from tests.engines.test_local import an_engine, ORDER
engine = an_engine(Path({str(headway_home)!r}))
engine.order(engine.render(ORDER))
os.killpg(os.getpgid(0), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", program], start_new_session=True)
    assert ended.returncode == -signal.SIGKILL
    assert engine.sightings().nodes["local-1"].sight is Sight.UP


def test_the_nodes_directory_is_private(engine: LocalEngine, headway_home: Path) -> None:
    engine.order(engine.render(ORDER))
    assert node_dir(headway_home).stat().st_mode & 0o777 == 0o700


def test_an_agent_that_ends_at_once_is_an_error_with_its_words(engine: LocalEngine, headway_home: Path) -> None:
    node_dir(headway_home).mkdir()
    (node_dir(headway_home) / "fail").touch()
    with pytest.raises(Unavailable, match=r"ended at once: .*made to fail"):
        engine.order(engine.render(ORDER))
    assert engine.sightings().nodes["local-1"].sight is Sight.AGENTLESS


def test_a_pid_that_was_given_to_another_process_is_not_the_agent(engine: LocalEngine, headway_home: Path) -> None:
    node_dir(headway_home).mkdir()
    (node_dir(headway_home) / "agent.pid").write_text(json.dumps({"pid": os.getpid(), "start": 1}))
    assert engine.sightings().nodes["local-1"].sight is Sight.AGENTLESS
    (node_dir(headway_home) / "agent.pid").write_text("half a fi")
    assert engine.sightings().nodes["local-1"].sight is Sight.AGENTLESS


def test_nodes_of_other_pools_are_not_its_own(engine: LocalEngine, headway_home: Path) -> None:
    node_dir(headway_home, "lab-1").mkdir()
    assert not engine.sightings().nodes


def test_a_new_version_of_the_agent_replaces_the_file_and_the_same_one_does_not(
    engine: LocalEngine, headway_home: Path
) -> None:
    engine.order(engine.render(ORDER))
    path = node_dir(headway_home) / "agent.pyz"
    before = path.stat().st_ino
    for agent, replaced in ((PLAIN, False), (agent_zip.pack({"__main__.py": PLAIN.data, "x.py": b""}), True)):
        os.kill(alive(node_dir(headway_home) / "agent.pid"), signal.SIGKILL)
        wait_until(lambda: engine.sightings().nodes["local-1"].sight is Sight.AGENTLESS)
        other = an_engine(headway_home, agent)
        try:
            other.order(other.render(ORDER))
        except Unavailable:
            assert replaced, "only the broken new one may fail"
        assert (path.stat().st_ino != before) is replaced


def test_an_overgrown_output_file_is_set_aside(engine: LocalEngine, headway_home: Path) -> None:
    node_dir(headway_home).mkdir()
    (node_dir(headway_home) / "agent.out").write_bytes(b"x" * (2 << 20))
    engine.order(engine.render(ORDER))
    assert (node_dir(headway_home) / "agent.out").stat().st_size < 1 << 20
