"""A pool of hosts in the house: silence orders nothing, and a host that leaves the list is not forgotten too early."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headway.control.from_file import Given, set_up
from headway.control.performer import Released, Saw
from headway.control.setting_up import SetPool
from headway.core.errors import BadInput
from headway.core.grow import Order, Release
from headway.core.model import Pool
from headway.core.pool_spec import Engines
from headway.engines.protocol import Sight, Sighting, Sightings
from headway.engines.ssh_options import read_options
from headway.store.memory import MemoryStore
from headway.store.protocol import Batch, Setup
from tests.control.leading import Leader

ENGINES: Engines = {"ssh": read_options}
UP, SILENT, GONE = Sighting(Sight.UP), Sighting(Sight.SILENT, "no route"), Sighting(Sight.GONE, "h1 was started anew")


def a_house(*hosts: str) -> Leader:
    house = Leader(MemoryStore())
    house.do(SetPool("lab", {"engine": "ssh", "hosts": list(hosts)}, engines=ENGINES)).result()
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


def test_a_host_that_leaves_the_list_is_looked_at_until_nothing_of_ours_is_there() -> None:
    house = a_house("h1", "h2")
    house.do(SetPool("lab", {"hosts": ["h1"]}, engines=ENGINES)).result()
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
        house.do(SetPool("lab", {"options": words}, engines=ENGINES)).result()
    assert lab(house).options == {"hosts": ["h1"], "directory": "~/x"}


def test_a_pool_that_could_name_a_node_of_another_is_refused_and_changes_nothing() -> None:
    house = a_house("h1")
    house.do(SetPool("lab-2", {"engine": "ssh", "hosts": ["a"]}, engines=ENGINES)).result()
    with pytest.raises(BadInput, match='"lab" and "lab-2" would both call a node "lab-2-a"'):
        house.do(SetPool("lab", {"hosts": ["h1", "2.a"]}, engines=ENGINES)).result()
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
