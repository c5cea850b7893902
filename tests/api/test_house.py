"""Queues, pools, schedules, arrays and the outlook over HTTP."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.core.scheduling.shares import Use
from headway.features.catalog import load
from headway.store.sql.store import SqlStore
from tests.api.serving import Serving

MANY = 20_000
PAGE_S_MAX = 120.0  # Only a page that walks the whole queue takes so long; bench/queue.py measures the goal.


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path) as serving:
        serving.join()
        yield serving


def refused(server: Serving, method: str, path: str, body: Any = None) -> tuple[int, str, str]:
    answer = server.ask(method, f"/api/v1{path}", body)
    return answer.status, answer.json["detail"], answer.json["hint"]


def job(**words: Any) -> dict[str, Any]:
    return {"job": {"command": ["true"], "resources": {"cpus": 1}, **words}}


def test_a_queue_is_made_changed_listed_and_removed(server: Serving) -> None:
    server.ok("PATCH", "/queues/night", {"priority": 5, "quota": {"gpus": 0}})
    server.ok("PATCH", "/queues/night", {"quota": None, "max_duration": "8h"})
    rules = {each["name"]: each["rules"] for each in server.ok("GET", "/queues")["queues"]}
    assert rules["night"]["priority"] == 5
    assert rules["night"]["max_duration"] == 28800.0
    assert "quota" not in rules["night"]
    server.ok("DELETE", "/queues/night")
    assert [each["name"] for each in server.ok("GET", "/queues")["queues"]] == ["default"]
    assert refused(server, "DELETE", "/queues/night")[0] == 404


def test_a_pool_is_listed_with_what_is_free(server: Serving) -> None:
    server.ok("PATCH", "/pools/lab", {"nodes": 2, "zone": "z1"})
    pools = {each["name"]: each for each in server.ok("GET", "/pools")["pools"]}
    assert (pools["local"]["nodes"], pools["local"]["free"]["cpus"]) == (1, 8.0)
    assert pools["lab"]["rules"]["max"] == 2
    assert server.ok("DELETE", "/pools/lab")["pool"]["state"] == "leaving"


def test_a_node_is_given_back_but_not_under_a_job_unless_forced(server: Serving) -> None:
    given: list[str] = []
    server.services.release = lambda node: given.append(node.id)
    ran = server.submit()
    server.until("n1", lambda duties: any(key.startswith(ran) for key in duties))
    status, said, hint = refused(server, "POST", "/nodes/n1/release", {})
    assert (status, said) == (409, f"n1 is in use by {ran}")
    assert "--force" in hint
    assert refused(server, "POST", "/nodes/n1/release", {"force": "yes"})[0] == 422
    assert refused(server, "POST", "/nodes/n9/release", {})[0] == 404
    assert not given
    assert server.ok("GET", "/nodes")["nodes"][0]["state"] == "up"
    assert server.ok("POST", "/nodes/n1/release", {"force": True})["node"]["released"]
    assert given == ["n1"]
    assert server.ok("GET", "/nodes")["nodes"][0]["state"] == "cordoned"


def test_a_node_is_cordoned_and_drained(server: Serving) -> None:
    assert server.ok("POST", "/nodes/n1/cordon", {})["node"]["cordoned"]
    assert server.ok("GET", "/nodes")["nodes"][0]["state"] == "cordoned"
    assert server.ok("POST", "/nodes/n1/drain", {"stop": True})["node"]["draining"]
    assert not server.ok("POST", "/nodes/n1/uncordon", {})["node"]["cordoned"]
    assert refused(server, "POST", "/nodes/n1/shut", {})[0] == 422
    assert refused(server, "POST", "/nodes/n9/cordon", {}) == (404, 'no node "n9"', 'did you mean "n1"?')


def test_what_can_never_run_is_refused_with_the_largest_node(server: Serving) -> None:
    status, detail, hint = refused(server, "POST", "/jobs", job(resources={"cpus": 64}))
    assert (status, detail) == (422, '64 cpus on one node; the largest node of pool "local" has 8')
    assert hint == "use --cpus 8"
    forced = {**job(resources={"cpus": 64}), "force": True}
    made = server.ok("POST", "/jobs", forced)["job"]
    assert "large enough" in server.ok("GET", f"/jobs/{made['id']}/why")["sentence"]
    server.ok("PATCH", f"/jobs/{made['id']}", {"priority": 9})
    assert refused(server, "PATCH", f"/jobs/{made['id']}", {"resources": {"cpus": 65}})[0] == 422


def test_a_waiting_job_is_held_changed_and_released(server: Serving) -> None:
    made = server.ok("POST", "/jobs", job(hold=True))["job"]["id"]
    assert "held" in server.ok("GET", f"/jobs/{made}/why")["sentence"]
    server.ok("PATCH", f"/jobs/{made}", {"priority": 9})
    assert server.ok("GET", f"/jobs/{made}")["priority"] == 9
    server.ok("POST", f"/jobs/{made}/release")
    server.start(f"{made}/1/0")
    assert refused(server, "POST", f"/jobs/{made}/hold")[0] == 409


def test_a_word_that_is_said_in_two_ways_is_changed_in_both(server: Serving) -> None:
    made = server.ok("POST", "/jobs", job(hold=True, retry={"max": 1, "platform_max": 3}))["job"]["id"]
    server.ok("PATCH", f"/jobs/{made}", {"retries": 4})
    spec = server.ok("GET", f"/jobs/{made}")["spec"]
    assert (spec["retries"], spec["retry"]["max"], spec["retry"]["platform_max"]) == (4, 4, 3)


def test_a_quota_is_part_of_the_evidence(server: Serving) -> None:
    server.ok("PATCH", "/queues/night", {"quota": {"jobs": 1}})
    _, second = (server.ok("POST", "/jobs", job(queue="night"))["job"]["id"] for _ in range(2))
    said = server.ok("GET", f"/jobs/{second}/why")
    assert (said["evidence"]["quota"]["most"], said["evidence"]["quota"]["what"]) == (1, "jobs")
    assert 'queue "night" holds' in said["sentence"]


def test_an_array_is_submitted_listed_and_stopped(server: Serving) -> None:
    answer = server.ok("POST", "/jobs", job(array=20))
    array = answer["array"]
    assert (answer["job"]["id"], array["count"]) == (f"{array['id']}-0", 20)
    assert len(server.ok("GET", f"/jobs?array={array['id']}&limit=100")["jobs"]) == 20
    claim = server.start(f"{array['id']}-3/1/0")
    assert claim["array"] == [array["id"], 3]
    assert server.ok("POST", f"/arrays/{array['id']}/stop", {})["changed"] == 20
    assert server.ok("GET", f"/arrays/{array['id']}")["count"] == 20
    assert refused(server, "GET", "/arrays/nobody")[0] == 404


def test_the_same_key_gives_the_same_array(server: Serving) -> None:
    asked = {**job(array=5), "key": "k"}
    assert server.ok("POST", "/jobs", asked)["array"] == server.ok("POST", "/jobs", asked)["array"]
    assert len(server.ok("GET", "/jobs?limit=100")["jobs"]) == 5


def test_a_schedule_is_made_paused_and_removed(server: Serving) -> None:
    made = server.ok("PUT", "/schedules/nightly", {"cron": "0 3 * * *", **job()})["schedule"]
    assert made["next_at"] > time.time()
    assert server.ok("POST", "/schedules/nightly/pause", {})["schedule"]["next_at"] is None
    assert [each["name"] for each in server.ok("GET", "/schedules")["schedules"]] == ["nightly"]
    status, detail, _ = refused(server, "PUT", "/schedules/never", {"cron": "0 0 30 2 *", **job()})
    assert (status, detail) == (422, 'cron: "0 0 30 2 *" never fires')
    server.ok("DELETE", "/schedules/nightly")
    assert server.ok("GET", "/schedules")["schedules"] == []


def test_the_outlook(server: Serving) -> None:
    server.ok("POST", "/jobs", job(resources={"cpus": 8}, max_duration="1h"))
    said = server.ok("POST", "/plan", job(resources={"cpus": 8}, max_duration="1m"))
    assert 3000 < said["starts_in_s"] <= 3600
    server.ok("POST", "/jobs", job(resources={"cpus": 8}, max_duration="1m"))
    assert [each["exact"] for each in server.ok("GET", "/plan")["jobs"]] == [True]


def test_every_route_is_described(server: Serving) -> None:
    described = server.ok("GET", "/openapi.json")["paths"]
    for path in ("/queues/{name}", "/pools/{name}", "/licences", "/schedules/{name}", "/arrays/{array}", "/plan"):
        assert f"/api/v1{path}" in described


def test_pages_do_not_grow_with_the_queue(tmp_path: Path) -> None:
    store = SqlStore.open(f"sqlite:///{tmp_path}/house.db", layouts=load().layouts)
    with Serving(tmp_path, store) as server:
        server.join()
        array = server.ok("POST", "/jobs", job(array=MANY, resources={"cpus": 6}))["array"]["id"]
        states = "queued,starting,running,stopping"
        for path in (f"/jobs?state={states}&limit=201", f"/jobs/{array}-{MANY - 1}/why", f"/arrays/{array}", "/queues"):
            began = time.monotonic()
            server.ok("GET", path)
            assert time.monotonic() - began < PAGE_S_MAX, path


def test_users_take_turns_and_have_their_own_quotas(tmp_path: Path) -> None:
    with Serving(tmp_path, accounts="on") as serving:
        serving.join()
        signed = {}
        serving.ok("PUT", "/projects/lab")
        for name in ("ada", "bob"):
            serving.ok("POST", "/users", {"name": name})
            serving.ok("PUT", f"/projects/lab/members/{name}", {"role": "member"})
            token = serving.ok("POST", "/tokens", {"user": name, "label": "test"})["token"]
            signed[name] = {"Authorization": f"Bearer {token}"}

        def submit(name: str, **words: Any) -> str:
            job = {"command": ["true"], "resources": {"cpus": 8}, "project": "lab", **words}
            answer = serving.ask("POST", "/api/v1/jobs", {"job": job}, signed[name])
            assert answer.status == 201, answer.data
            assert answer.json["job"]["user"] == name
            return str(answer.json["job"]["id"])

        first, *others = [submit("ada") for _ in range(3)]
        serving.start(f"{first}/1/0")
        bobs = submit("bob")
        used = Use(("default", "lab", "ada"), 1e6, time.time())  # As if it had run for days: seconds count as nothing.
        serving.control.run(lambda cycle: cycle.book.view.add_use(used))
        serving.end(f"{first}/1/0")
        serving.start(f"{bobs}/1/0")
        assert serving.ok("GET", f"/jobs/{others[0]}")["state"] == "queued", "ada has had her turn"
        serving.end(f"{bobs}/1/0")
        serving.start(f"{others[0]}/1/0")
        serving.end(f"{others[0]}/1/0")
        serving.start(f"{others[1]}/1/0")
        serving.end(f"{others[1]}/1/0")
        serving.ok("PATCH", "/queues/shared", {"user_quota": {"jobs": 1}})
        small = {"resources": {"cpus": 1}, "queue": "shared"}
        one, two, hers = submit("ada", **small), submit("ada", **small), submit("bob", **small)
        serving.until("n1", lambda duties: f"{one}/1/0" in duties and f"{hers}/1/0" in duties)
        said = serving.ok("GET", f"/jobs/{two}/why")["sentence"]
        assert 'user "ada"' in said
        assert "of its quota of 1 job" in said
        shown = serving.ok("GET", f"/jobs/{two}")["sentence"]
        listed = [job["sentence"] for job in serving.ok("GET", "/jobs?state=queued")["jobs"] if job["id"] == two]
        # Each says how long it may still take, counted when it was asked.
        same = [re.sub(r"[\d.]+ (ms|s)\b", "a moment", each) for each in (said, shown, *listed)]
        assert same == [same[0]] * 3, "the same in why, ps and the API"
