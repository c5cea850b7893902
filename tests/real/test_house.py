"""Queues, pools, arrays and schedules through the command line, with real nodes."""

from __future__ import annotations

import json

import pytest

from tests.living import Living
from tests.waiting import wait_until

pytestmark = pytest.mark.real

CONFIG = """
[queue.night]
priority = 5
[queue.night.quota]
jobs = 1
[pool.local]
nodes = 1
cpus = 4
memory = "2G"
[pool.lab]
nodes = 2
cpus = 1
memory = "1G"
zone = "z1"
[licences]
matlab = 1
"""


@pytest.fixture
def house(living: Living) -> Living:
    config = living.home / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.toml").write_text(CONFIG)
    return living


def nodes(living: Living) -> dict[str, str]:
    return {node["id"]: node["state"] for node in json.loads(living.ok("nodes", "--json"))["nodes"]}


def test_the_file_sets_up_pools_and_queues_and_a_pool_leaves_when_its_job_has_ended(house: Living) -> None:
    wait_until(lambda: sorted(nodes(house)) == ["lab-1", "lab-2", "local-1"], what="three nodes")
    job = house.submit("--pool", "lab", "--", "sleep", "300")
    wait_until(lambda: house.job(job)["state"] == "running", what="its start")
    house.ok("pool", "rm", "lab")
    wait_until(lambda: len(nodes(house)) == 2, what="the end of the idle node")
    assert house.job(job)["state"] == "running", "nothing ends under a job"
    refused = house.run("run", "-d", "--pool", "lab", "--", "true")
    assert refused.returncode == 2
    house.ok("stop", "--force", job)
    wait_until(lambda: sorted(nodes(house)) == ["local-1"], what="the end of the pool")
    wait_until(lambda: "lab" not in house.ok("pool", "ls", "-q").split(), what="its name to go")
    assert house.ok("queue", "ls", "-q").split() == ["default", "night"]
    assert json.loads(house.ok("licence", "ls", "--json")) == {"matlab": 1}


def test_an_array_runs_and_what_comes_after_it_waits_for_all(house: Living) -> None:
    array = house.submit(
        "--array", "5", "--cpus", "0.1", "--", "sh", "-c", "echo $HEADWAY_ARRAY_INDEX of $HEADWAY_ARRAY_COUNT"
    )
    last = house.submit("--after", array, "--cpus", "0.1", "--", "true")
    assert house.wait(last)["state"] == "succeeded"
    assert "5 succeeded" in house.ok("wait", array)
    assert house.log(f"{array}-3") == "3 of 5\n"


def test_a_drained_node_is_left_and_its_job_goes_on_elsewhere(house: Living) -> None:
    wait_until(lambda: len(nodes(house)) == 3, what="three nodes")
    job = house.submit("--cpus", "1", "--pool", "lab", "--", "sh", "-c", "trap 'exit 0' TERM; sleep 300 & wait")
    wait_until(lambda: house.job(job)["state"] == "running", what="its start")
    (first,) = [task["node"] for task in house.job(job)["attempts"][0]["tasks"]]
    house.ok("nodes", "drain", first, "--stop")
    wait_until(lambda: (now := house.job(job))["state"] == "running" and now["attempt"] == 2, what="its second start")
    (second,) = [task["node"] for task in house.job(job)["attempts"][1]["tasks"]]
    assert {first, second} == {"lab-1", "lab-2"}
    assert nodes(house)[first] == "draining"
    house.ok("stop", "--force", job)


def test_a_quota_holds_back_and_a_hold_is_released(house: Living) -> None:
    held = house.submit("--queue", "night", "--hold", "--", "true")
    first = house.submit("--queue", "night", "--", "sleep", "300")
    wait_until(lambda: house.job(first)["state"] == "running", what="its start")
    house.ok("release", held)
    assert 'queue "night" holds 1 job of its quota of 1 job' in house.ok("why", held)
    house.ok("set", held, "--queue", "default", "--priority", "3")
    assert house.wait(held)["state"] == "succeeded"
    house.ok("stop", "--force", first)


def test_a_schedule_fires_by_itself(house: Living) -> None:
    house.ok("schedule", "create", "minutely", "--cron", "* * * * *", "--cpus", "0.1", "--", "echo", "tick")
    found = wait_until(lambda: json.loads(house.ok("ps", "-a", "--json"))["jobs"], what="its first job")
    assert found[0]["tags"] == {"schedule": "minutely"}
    assert house.wait(found[0]["id"])["state"] == "succeeded"
    house.ok("schedule", "rm", "minutely")


def test_what_the_file_no_longer_names_goes_and_what_commands_set_stays(house: Living) -> None:
    wait_until(lambda: sorted(nodes(house)) == ["lab-1", "lab-2", "local-1"], what="three nodes")
    house.ok("queue", "set", "mine", "priority=1")
    file = house.home / "config/config.toml"
    held = house.submit("--queue", "night", "--hold", "--", "true")
    without_lab = CONFIG.replace(CONFIG[CONFIG.index("[pool.lab]") : CONFIG.index("[licences]")], "")
    file.write_text(without_lab.replace(CONFIG[: CONFIG.index("[pool.local]")], "").replace("matlab = 1", "other = 2"))
    house.ok("server", "restart")
    wait_until(lambda: sorted(nodes(house)) == ["local-1"], what="the end of the pool")
    wait_until(lambda: house.ok("pool", "ls", "-q").split() == ["local"], what="its name to go")
    assert json.loads(house.ok("licence", "ls", "--json")) == {"other": 2}
    assert house.ok("queue", "ls", "-q").split() == ["default", "mine", "night"], "it has a job"
    house.ok("stop", held)
    house.ok("server", "restart")
    assert house.ok("queue", "ls", "-q").split() == ["default", "mine"]
