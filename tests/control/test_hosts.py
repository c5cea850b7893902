"""A pool of hosts in the house: silence orders nothing, and a host that leaves the list is not forgotten too early."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headway.control.cluster.commands import SetPool
from headway.control.jobs.commands import Submit
from headway.control.leader.engine_calls import Released, Saw
from headway.control.server.config_file import Given, set_up
from headway.core.errors import BadInput
from headway.core.growth.grow import Order, Release
from headway.core.job.lifecycle import only_saves
from headway.core.model import Cause, Pool, State
from headway.engines.protocol import Sight, Sighting, Sightings
from headway.store.memory.store import MemoryStore
from headway.store.protocol import Batch, Setup
from tests.builders import a_spec
from tests.control.leading import Leader

RESTARTED = Sighting(Sight.RESTARTED, "h1 was started anew")
UP, SILENT, GONE = Sighting(Sight.UP), Sighting(Sight.SILENT, "no route"), Sighting(Sight.GONE, "h1 was started anew")


def a_house(*hosts: str) -> Leader:
    house = Leader(MemoryStore())
    house.do(SetPool("lab", {"engine": "ssh", "hosts": list(hosts)})).result()
    for host in hosts:
        house.sync(node=f"lab-{host}", pool="lab", full=True, facts={"cpus": 2, "memory_bytes": 2**30})
    return house


def lab(house: Leader) -> Pool:
    return house.cycle.book.house.pools["lab"]


def saw(house: Leader, **seen: Sighting) -> list[Order | Release]:
    nodes = {f"lab-{host}": sighting for host, sighting in seen.items()}
    asks: list[Order | Release] = house.do(Saw(lab(house), Sightings(nodes), dict(house.cycle.book.nodes))).result()
    return asks


def test_a_host_without_an_agent_is_ordered_and_a_silent_one_is_not() -> None:
    house = a_house("h1", "h2", "h3")
    assert saw(house, h1=UP, h2=SILENT) == [Order("lab-h3", "lab", ("lab-h3",))]
    assert "lab-h2" in house.cycle.book.nodes, "silence proves nothing"


def test_another_boot_loses_the_node_and_orders_it_anew() -> None:
    house = a_house("h1")
    assert saw(house, h1=GONE) == [Order("lab-h1", "lab", ("lab-h1",))]
    assert "lab-h1" not in house.cycle.book.nodes


def test_a_host_that_was_started_anew_keeps_what_its_ended_jobs_left_there_until_its_agent_tells() -> None:
    house = a_house("h1")
    for id in ("saves", "runs"):
        house.do(Submit((a_spec(pool="lab"),), "ada", lambda id=id: id)).result()
    house.tick()
    told = [{"task": f"{id}/1/0", "phase": "claimed", "address": "h", "port": 1} for id in ("saves", "runs")]
    h1 = {"node": "lab-h1", "pool": "lab"}
    saving = {"task": "saves/1/0", "phase": "running", "saving": {"outcome": {"exit_code": 0}, "over_ago_s": 1.0}}
    house.sync(**h1, seq=2, reports=told)
    house.sync(**h1, seq=3, reports=[saving])
    jobs = house.cycle.book.jobs
    assert saw(house, h1=RESTARTED) == [Order("lab-h1", "lab", ("lab-h1",))]
    house.tick()
    assert (jobs["saves"].state, jobs["runs"].state) == (State.RUNNING, State.QUEUED)
    assert saw(house, h1=RESTARTED) == [Order("lab-h1", "lab", ("lab-h1",))], "until its agent is there"
    h1 |= {"boot_id": "another", "agent_epoch": 2}
    house.sync(**h1, seq=1, full=True, facts={"cpus": 2, "memory_bytes": 2**30}, reports=[saving])
    house.tick()
    assert jobs["saves"].state is State.RUNNING
    assert jobs["runs"].number == 2, "it is open again"
    house.sync(**h1, seq=2, reports=[{"task": "saves/1/0", "phase": "ended", "outcome": {"exit_code": 0}}])
    (ended,) = house.cycle.store.jobs(["saves"])
    assert (ended.state, ended.number) == (State.SUCCEEDED, 1)


@pytest.mark.parametrize(("word", "goes_on"), [("saving", True), ("lost", False), ("", False)])
def test_a_node_that_was_started_anew_has_what_it_says_to_have(word: str, goes_on: bool) -> None:
    house = a_house("h1")
    house.do(Submit((a_spec(pool="lab"),), "ada", lambda: "j1")).result()
    house.tick()
    h1 = {"node": "lab-h1", "pool": "lab"}
    house.sync(**h1, seq=2, reports=[{"task": "j1/1/0", "phase": "claimed", "address": "h", "port": 1}])
    outcome = {"exit_code": 0} if word == "saving" else {"cause": "outcome_lost"}
    report = {"task": "j1/1/0", "phase": "running", **({"saving": {"outcome": outcome}} if word else {})}
    facts = {"cpus": 2, "memory_bytes": 2**30}
    house.sync(**h1, seq=1, full=True, facts=facts, boot_id="another", agent_epoch=2, reports=[report])
    job = house.cycle.book.jobs["j1"]
    assert (job.number, only_saves(job)) == (1, True) if goes_on else job.cause is Cause.NODE_LOST


def test_a_host_that_leaves_the_list_is_looked_at_until_nothing_of_ours_is_there() -> None:
    house = a_house("h1", "h2")
    house.do(SetPool("lab", {"hosts": ["h1"]})).result()
    assert (lab(house).hosts, lab(house).former_hosts) == (("h1",), ("h2",))
    assert house.cycle.book.house.closed_because(house.cycle.book.nodes["lab-h2"]) == "no longer wanted by its pool"
    assert saw(house, h1=UP, h2=SILENT) == [], "what does not answer is not given back"
    assert saw(house, h1=UP, h2=UP) == [Release("lab", ("lab-h2",))]
    house.do(Released(("lab-h2",))).result()
    assert lab(house).former_hosts == ()
    assert "lab-h2" not in house.cycle.book.nodes


def test_options_change_one_by_one() -> None:
    house = a_house("h1")
    for words in ({"call_home": "tunnel"}, {"directory": "~/x"}, {"call_home": None}):
        house.do(SetPool("lab", {"options": words})).result()
    assert lab(house).options == {"hosts": ["h1"], "directory": "~/x"}


def test_a_pool_that_could_name_a_node_of_another_is_refused_and_changes_nothing() -> None:
    house = a_house("h1")
    house.do(SetPool("lab-2", {"engine": "ssh", "hosts": ["a"]})).result()
    with pytest.raises(BadInput, match='"lab" and "lab-2" would both call a node "lab-2-a"'):
        house.do(SetPool("lab", {"hosts": ["h1", "2.a"]})).result()
    assert lab(house).hosts == ("h1",)


def test_a_host_that_the_file_no_longer_names_is_not_forgotten_at_a_start(tmp_path: Path) -> None:
    before = a_house("h1", "h2")
    store = before.cycle.store
    given = Given(pools=(replace(lab(before), nodes_min=1, nodes_max=1, options={"hosts": ["h1"]}),))
    for _ in range(2):
        set_up(store, given, 0, tmp_path / "from-file.json")
        house = Leader(store)
        assert (lab(house).hosts, lab(house).former_hosts) == (("h1",), ("h2",))
    assert saw(house, h1=UP, h2=UP) == [Release("lab", ("lab-h2",))]
    house.do(Released(("lab-h2",))).result()
    store.commit(Batch(setup=Setup(pools=[lab(before)])))
    set_up(store, given, 0, tmp_path / "from-file.json")
    assert lab(Leader(store)).former_hosts == (), "nothing of ours is there any more"
