"""What people hear of the house itself: admins of the server all, members what a job may need, others nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.accounts.people import Shared
from tests.waiting import wait_until

ADDRESS, HOST, FILE = "10.7.0.9", "gpu9.inner.lab", "/srv/inner/ssh_config"
READS = ("/nodes", "/pools", "/queues", "/licences", "/server", "/events/page?limit=1000")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with Shared(tmp_path_factory.mktemp("shared")) as made:
        made.sync("n1", full=True, facts={"cpus": 8, "memory_bytes": 2**40, "address": ADDRESS})
        made.ok("PATCH", "/pools/lab", {"engine": "ssh", "hosts": [HOST], "options": {"ssh_config": FILE}})
        made.ok("PATCH", "/queues/night", {"priority": 3})
        made.ok("PATCH", "/licences", {"matlab": 3})
        wait_until(lambda: len(made.ok("GET", "/nodes")["nodes"]) == 1, what="the node")
        yield made


def told(house: Shared, who: str) -> dict[str, str]:
    found = {path: house.by(who, "GET", path) for path in READS}
    assert {answer.status for answer in found.values()} == {200}
    return {path: answer.data.decode() for path, answer in found.items()}


def test_admins_of_the_server_are_told_all(house: Shared) -> None:
    said = "".join(told(house, "root1").values())
    for word in (ADDRESS, HOST, FILE, "n1", "lab", "night", "matlab"):
        assert word in said


def test_members_are_told_what_a_job_may_need_and_not_where_it_is(house: Shared) -> None:
    said = told(house, "mel")
    for word in (ADDRESS, HOST, FILE):
        assert not [path for path, text in said.items() if word in text], word
    assert {each["id"] for each in json.loads(said["/nodes"])["nodes"]} == {"n1"}
    assert {"lab", "local"} <= {each["name"] for each in json.loads(said["/pools"])["pools"]}
    assert "PoolChanged" in said["/events/page?limit=1000"]
    assert json.loads(said["/licences"])["licences"] == {"matlab": 3}


def test_who_is_in_no_project_is_told_nothing(house: Shared) -> None:
    said = told(house, "nobody")
    for word in (ADDRESS, HOST, FILE, "n1", "lab", "night", "matlab", "Node", "Pool", "Leader"):
        assert not [path for path, text in said.items() if f'"{word}' in text], word
    assert json.loads(said["/events/page?limit=1000"])["events"] == []
    assert json.loads(said["/server"])["servers"] == []
