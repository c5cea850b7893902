"""An engine is its own files and a line in a table: one that is in no source keeps the law and runs a job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headway.core.errors import BadInput
from headway.core.growth.grow import Order
from headway.core.model import Pool, Resources
from headway.core.spec.engine import rules_of
from headway.core.spec.pool import read_pool
from headway.engines import agent_zip
from headway.engines.conformance import OrderedEngineConformance
from headway.engines.kinds import Surroundings, kinds_for
from headway.engines.protocol import Engine
from headway.engines.table import KINDS
from headway.settings import Settings, home_from
from tests.engines import toy
from tests.living import Living
from tests.waiting import wait_until

PLAIN = agent_zip.pack({"__main__.py": Path(__file__).with_name("plain_agent.py").read_bytes()})
ROOT = Path(__file__).parents[2]
SHAPE = Resources(1.0, 1 << 30, 0)


def surroundings(place: Path) -> Surroundings:
    home = home_from({"HEADWAY_HOME": str(place)})
    return Surroundings(
        settings=Settings(),
        home=home,
        home_of_nodes=home,
        house="k7m2",
        agent=PLAIN,
        storage_dir="",
        own_files=(),
        token_for=lambda node: f"secret-{node}",
        code_for=lambda node: f"secret-{node}",
        listens_at="http://127.0.0.1:1",
        addresses=lambda: ("http://127.0.0.1:1",),
        several=False,
        env={},
    )


class TestToyEngine(OrderedEngineConformance):
    kind = toy.KIND

    def _engine(self, place: Path, **options: str) -> Engine:
        pool = Pool(self.pool, "toy", 0, 4, shape=SHAPE, options={"hutch": str(place / "hutch"), **options})
        return toy.KIND.make(toy.KIND.read(pool), surroundings(place))

    def open_engine(self, place: Path) -> Engine:
        return self._engine(place)

    def open_waiting_engine(self, place: Path) -> Engine:
        return self._engine(place, closed="yes")

    def take_away(self, place: Path, order: Order) -> None:
        self.open_engine(place).release(order.nodes)

    def left_over(self, place: Path) -> list[str]:
        return [path.name for path in (place / "hutch").glob("*")]


def test_a_pool_that_names_no_engine_has_the_first_of_the_table() -> None:
    assert read_pool("lab", {}, kinds_for(Settings(), KINDS)).engine == KINDS[0].name
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_a_lease_that_a_pool_does_not_say_is_its_engines() -> None:
    kinds = kinds_for(Settings(), (toy.KIND,))
    words = {"engine": "toy", "cpus": 1, "options": {"hutch": "/x"}}
    assert read_pool("lab", words, kinds).lease_s == 300.0


def test_an_engine_that_the_settings_refuse_takes_no_pool_and_says_why() -> None:
    refused = replace(toy.KIND, refusal=lambda settings: BadInput("no toys here", "use another engine"))
    with pytest.raises(BadInput, match="pool lab: no toys here"):
        read_pool("lab", {}, kinds_for(Settings(), (refused,)))


def test_a_pool_of_an_engine_that_is_no_longer_there_stands_and_proves_nothing() -> None:
    rules = rules_of(Pool("lab", "gone"), kinds_for(Settings(), KINDS))
    assert (rules.ordered, rules.proves_death, rules.one_system_user) == (False, False, True)


@pytest.fixture
def server(headway_home: Path, tmp_path: Path) -> Iterator[Living]:
    living = Living(headway_home, tmp_path)
    env = {**os.environ, "HEADWAY_LOCAL_NODES": "0", "HEADWAY_LOOK_EVERY_S": "0.2"}
    said = open(tmp_path / "server.log", "w")  # noqa: SIM115 (the server writes to it until the end)
    process = subprocess.Popen([sys.executable, "-m", "tests.engines.toy"], cwd=ROOT, env=env, stdout=said, stderr=said)
    reaper = threading.Thread(target=process.wait)
    reaper.start()
    wait_until(lambda: living.server == process.pid or not reaper.is_alive(), what="the server")
    yield living
    process.send_signal(signal.SIGTERM)
    reaper.join()
    said.close()


@pytest.mark.real
def test_a_server_with_an_engine_of_its_own_orders_nodes_runs_a_job_and_gives_them_back(server: Living) -> None:
    hutch = server.place / "hutch"
    facts = json.loads(server.ok("server", "status", "--json"))
    assert facts["engines"]["toy"] == {"ordered": True, "one_system_user": True}
    assert "unknown key" in server.run("pool", "set", "pets", "engine=toy", "options.hutsch=x").stderr
    words = ("engine=toy", "min=0", "max=1", "cpus=1", "memory=1G", "idle=1s", f"options.hutch={hutch}")
    server.ok("pool", "set", "pets", *words)
    said = server.run("doctor").stdout
    assert "ordered from pets when jobs need them" in said
    assert "clean and dry" in said
    assert "agent.pyz" in server.ok("pool", "render", "pets")
    job = server.submit("--", "sh", "-c", "echo hello from $HEADWAY_NODE")
    assert server.wait(job)["state"] == "succeeded"
    assert "hello from" in server.log(job)
    wait_until(lambda: not list(hutch.glob("*")), what="the nodes to be given back")
    server.ok("pool", "rm", "pets")
