"""The feature that docs/how-to/add-something.md makes: taken from the page, and run without an edit under src/."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway import features
from headway.cli.table import COMMANDS, with_features
from headway.control.state.feature import Features
from headway.control.state.working_copy import read_book
from headway.features.catalog import load
from headway.sim.run import Simulation
from headway.store.memory.store import MemoryStore
from headway.store.protocol import Store
from headway.store.sql.store import SqlStore
from headway_agent.decide import node_features
from tests.api.serving import TOKEN, Serving
from tests.store import test_postgres
from tests.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs/how-to/add-something.md"
BLOCK = re.compile(r"`(guestbook/\w+\.py)`[^`]*?(?:`[^`]*`[^`]*?)*?```python\n(.*?)```", re.S)
SEEDS = range(24)


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Features]:
    """The features of this version, and the one of the page."""
    place = tmp_path_factory.mktemp("features")
    files = dict(BLOCK.findall(PAGE.read_text()))
    assert len(files) == 8, sorted(files)
    for name, code in files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(code)
    features.__path__.append(str(place))
    yield load((*features.NAMES, "guestbook"))
    features.__path__.remove(str(place))
    for name in [name for name in sys.modules if name.startswith("headway.features.guestbook")]:
        del sys.modules[name]


def part(name: str) -> Any:
    return importlib.import_module(f"headway.features.guestbook.{name}")


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, every: Features, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    url = f"sqlite:///{tmp_path}/headway.db" if request.param == "sqlite" else test_postgres.new_database()
    opened = SqlStore.open(url, layouts=every.layouts)
    yield opened
    opened.close()


@pytest.fixture
def server(store: Store, every: Features, tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path / "storage", store, features=every) as serving:
        yield serving


def test_its_routes_write_and_read(server: Serving) -> None:
    assert server.ok("GET", "/guestbook") == {"signatures": []}
    server.ok("POST", "/guestbook/ada", {"text": "hello"})
    again = server.ok("POST", "/guestbook/ada", {"text": "hello again"})
    assert (again["text"], again["times"]) == ("hello again", 2)
    assert [each["name"] for each in server.ok("GET", "/guestbook")["signatures"]] == ["ada"]
    refused = server.ask("POST", "/api/v1/guestbook/ada", {"text": "x" * 201})
    assert (refused.status, refused.json["detail"]) == (422, "text: expected at most 200 characters")
    assert "GuestSigned" in [each["kind"] for each in server.ok("GET", "/events/page")["events"]]
    paths = server.ask("GET", "/api/v1/openapi.json").json["paths"]
    assert {"/api/v1/guestbook", "/api/v1/guestbook/{name}"} <= paths.keys()


def test_its_words_travel_with_agents_syncs(server: Serving) -> None:
    server.join()
    reply = server.sync(features={"guestbook": "hello from n1"})
    assert reply["guestbook"] == "welcome, n1"
    assert "guestbook" not in server.sync()
    (signature,) = server.ok("GET", "/guestbook")["signatures"]
    assert (signature["name"], signature["text"]) == ("n1", "hello from n1")


def test_it_sees_jobs_end_in_the_same_commit(server: Serving, store: Store) -> None:
    job = server.submit()
    assert store.rows(part("tables").FAREWELLS) == []
    server.ok("POST", f"/jobs/{job}/stop", {})
    (farewell,) = store.rows(part("tables").FAREWELLS)
    assert (farewell.job, farewell.state) == (job, "cancelled")
    server.ok("DELETE", f"/jobs/{job}")
    assert store.rows(part("tables").FAREWELLS) == []


def test_time_alone_makes_it_do_something(server: Serving, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    server.ok("POST", "/guestbook/ada", {"text": "hello"})
    monkeypatch.setattr(part("rules"), "STAYS_S", -1.0)
    wait_until(lambda: not store.rows(part("tables").SIGNATURES), what="the signature to be erased")


def test_its_page_is_a_command_like_any_other(
    server: Serving, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(features, "NAMES", (*features.NAMES, "guestbook"))
    module, attribute, _ = with_features({"Cluster": {"licence": COMMANDS["licence"]}})["Cluster"]["guestbook"]
    monkeypatch.setenv("HEADWAY_SERVER_URL", server.url)
    monkeypatch.setenv("HEADWAY_TOKEN", TOKEN)
    command = getattr(importlib.import_module(module), attribute)
    command.main(["--sign", "hi there", "--as", "ada"], standalone_mode=False)
    assert capsys.readouterr().out.split("\n")[1].split() == ["ada", "hi", "there", "1"]


def test_what_it_held_is_read_again_by_the_next_leader(server: Serving, store: Store, every: Features) -> None:
    server.ok("POST", "/guestbook/ada", {"text": "hello"})
    held = read_book(store, features=every).held(part("tables").SIGNATURES)
    assert [each.name for each in held.values()] == ["ada"]


@pytest.mark.parametrize("first", [0, 8, 16])
def test_it_lives_through_every_fault_of_the_simulator(
    first: int, every: Features, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_features, "MAKERS", [part("node").Hello])
    greeted = 0
    for seed in range(first, first + 8):
        simulation = Simulation(seed, features=every)
        simulation.live()
        ended = {job.id: job.state.value for job in simulation.store.jobs(list(simulation.oracle.jobs))}
        told = {each.job: each.state for each in simulation.store.rows(part("tables").FAREWELLS)}
        assert told == ended, f"seed {seed}"
        agents = [machine.agent for machine in simulation.machines.values() if machine.agent is not None]
        greeted += sum(bool(feature.greeting) for agent in agents for feature in agent.state.features)
        assert {each.name for each in simulation.store.rows(part("tables").SIGNATURES)} <= set(simulation.machines)
    assert greeted, "no node was greeted"
