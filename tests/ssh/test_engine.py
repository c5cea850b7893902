"""The ssh engine against real sshd processes, each in a network namespace of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.core.model import Pool
from headway.engines import agent_zip
from headway.engines.conformance import EngineConformance
from headway.engines.protocol import Sight
from headway.engines.ssh.client import sockets_dir
from headway.engines.ssh.engine import KIND, SshEngine
from headway.settings import Settings, home_from
from tests.netlab import Lab
from tests.waiting import wait_until

AGENT = agent_zip.build()
NOWHERE = "http://127.0.0.1:9"
SOCKETS: set[Path] = set()


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    lab = Lab(2)
    yield lab
    lab.close()  # With the hosts end the connections to them.
    for place in SOCKETS:
        shutil.rmtree(place, ignore_errors=True)


def an_engine(place: Path, lab: Lab, pool: str = "pool", house: str = "house", **options: str) -> SshEngine:
    words = {"hosts": ["1", "2"], "ssh_config": str(lab.config), "call_home": "direct", **options}
    home = home_from({"HEADWAY_HOME": str(place)})
    SOCKETS.add(sockets_dir(home.state))
    asked = Pool(pool, "ssh", nodes_min=2, nodes_max=2, options=words)
    return SshEngine(home, asked, AGENT, Settings(), NOWHERE, house, lambda node: f"token-of-{node}")


def node_dir(lab: Lab, node: str, house: str = "house") -> Path:
    return lab.hosts[int(node[-1]) - 1].home / ".headway" / house / node


@pytest.mark.real
class TestSshEngine(EngineConformance):
    kind = KIND

    @pytest.fixture(autouse=True)
    def _in_a_lab(self, lab: Lab, headway_home: Path) -> Iterator[None]:
        self.lab = lab
        yield
        an_engine(headway_home, lab).release(["pool-1", "pool-2"])

    def open_engine(self, place: Path) -> SshEngine:
        return an_engine(place, self.lab)

    def agent_of(self, place: Path, node: str) -> str:
        return (node_dir(self.lab, node) / "agent.pid").read_text()

    def end_agent(self, place: Path, node: str) -> None:
        os.kill(json.loads(self.agent_of(place, node))["pid"], signal.SIGKILL)

    def left_over(self, place: Path) -> list[str]:
        files = [str(path) for host in self.lab.hosts for path in host.home.iterdir()]
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for host in self.lab.hosts for pid in host.pids()]
        return files + [str(line) for line in commands if b"agent-" in line]

    def test_a_host_that_does_not_answer_is_silent_and_not_gone(self, place: Path) -> None:
        engine = self.open_engine(place)
        self.have(engine, "pool-1", "pool-2")
        self.lab.hosts[1].cut()
        try:
            other = an_engine(place / "other", self.lab, connect_s_max="2")
            seen = other.sightings()
            assert (seen.nodes["pool-1"].sight, seen.nodes["pool-2"].sight) == (Sight.UP, Sight.SILENT)
            assert seen.silent == ("pool-2",)
            assert "2 cannot be reached" in seen.nodes["pool-2"].why
        finally:
            self.lab.hosts[1].join()
            other.release(["pool-1"])

    def test_another_boot_is_proof_that_the_old_processes_are_dead(self, place: Path) -> None:
        engine = self.open_engine(place)
        self.have(engine, "pool-1")
        self.end_agent(place, "pool-1")
        (node_dir(self.lab, "pool-1") / "boot.id").write_text("another")
        assert engine.sightings().nodes["pool-1"].sight is Sight.RESTARTED
        self.have(engine, "pool-1")

    def test_two_headways_share_a_host(self, place: Path) -> None:
        engine, other = self.open_engine(place), an_engine(place / "b", self.lab, house="other")
        self.have(engine, "pool-1")
        self.have(other, "pool-1")
        other.release(["pool-1"])
        assert self.sight(engine, "pool-1") is Sight.UP
        assert not other.sightings().nodes

    def test_the_token_is_private_and_not_on_a_command_line(self, place: Path) -> None:
        engine = self.open_engine(place)
        self.have(engine, "pool-1")
        token = node_dir(self.lab, "pool-1") / "token"
        wait_until(lambda: not token.exists(), what="the agent to take its token away")
        for pid in self.lab.hosts[0].pids():
            assert b"token-of" not in Path(f"/proc/{pid}/cmdline").read_bytes()
