"""Two servers on one PostgreSQL: who follows serves all the same, and takes over; a frozen leader comes to follow."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.servers.cluster import HEADWAY, TOKEN, Cluster, OneServer
from tests.waiting import PATIENCE_S, wait_until

COUNTING = 'for i in $(seq 40); do echo line $i; until [ $i -lt 5 ] || [ -e "$0" ]; do sleep 0.1; done; done'
STEADY = {"lead_lease_s": 60}  # Where nobody is to take over: a busy machine holds a leader up for seconds.


def ask(server: OneServer, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """One request to this very server."""
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, json.dumps(body) if body else None, {"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        connection.close()


def follower_of(cluster: Cluster, leader: OneServer) -> OneServer:
    return next(each for each in cluster.servers if each is not leader)


def test_a_job_goes_on_when_the_leader_is_killed(cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    several = cluster(2, local_nodes=1)
    leader, epoch = several.lead_of()
    follower = follower_of(several, leader)
    seen: list[str] = []

    def listen() -> None:
        with several.client(follower) as client:
            for event in client.events():
                seen.append(f"{event['seq']} {event['kind']}")
                if event["kind"] == "JobSucceeded":
                    return

    listening = threading.Thread(target=listen, daemon=True)
    listening.start()
    with several.client(follower) as client:
        job = client.submit_raw(
            {"command": ["bash", "-c", COUNTING, str(tmp_path / "taken-over")], "name": "counting"}
        ).id
        wait_until(lambda: client.detail(job)["state"] == "running", what="the job to run")
    env = {**several.servers[0].env, **several.env}
    command = [*HEADWAY, "logs", "-f", job]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        first = following.stdout.readline()
        leader.kill()
        new, _ = several.lead_of(epoch)  # 5 s are promised on a machine that does nothing else: the bench measures it.
        (tmp_path / "taken-over").touch()
        rest = following.stdout.read()
        following.wait(PATIENCE_S)
    assert new is follower
    assert following.returncode == 0
    assert (first + rest).splitlines() == [f"line {n}" for n in range(1, 41)]
    listening.join(PATIENCE_S)
    numbers = [int(each.split()[0]) for each in seen]
    assert numbers == list(range(1, len(numbers) + 1)), "the stream of events lost or repeated some"
    assert sum(each.endswith(" LeaderChanged") for each in seen) >= 2
    assert seen[-1].endswith(" JobSucceeded")
    with several.client(follower) as client:
        assert [each["number"] for each in client.detail(job)["attempts"]] == [1]


def test_who_follows_answers_itself_passes_on_or_points_to_the_leader(cluster: Callable[..., Cluster]) -> None:
    several = cluster(2, **STEADY)
    leader, _ = several.lead_of()
    follower = follower_of(several, leader)
    status, told = ask(follower, "POST", "/api/v1/jobs", {"job": {"command": ["true"]}})
    assert status == 201
    job = told["job"]["id"]
    assert ask(follower, "GET", f"/api/v1/jobs/{job}")[1]["sentence"].startswith("waits")
    assert [each["id"] for each in ask(follower, "GET", "/api/v1/jobs")[1]["jobs"]] == [job]
    wait_until(
        lambda: ask(follower, "GET", "/api/v1/events/page")[1]["events"][-1]["kind"] == "JobSubmitted", what="the event"
    )
    assert ask(follower, "POST", "/agent/sync", {"node": "n"})[0] == 421
    assert ask(follower, "POST", "/agent/sync", {"node": "n"})[1]["leader"] == leader.url
    assert ask(follower, "POST", "/api/v1/jobs", {"job": {"command": 7}})[0] == 422
    assert ask(follower, "GET", "/api/v1/jobs/nothing")[0] == 404
    shown = ask(follower, "GET", "/api/v1/server")[1]["servers"]
    assert {each["address"]: each["leads"] for each in shown} == {leader.url: True, follower.url: False}
    status, ended = ask(follower, "POST", f"/api/v1/jobs/{job}/stop", {})
    assert (status, ended["job"]["state"]) == (200, "cancelled")
    assert ask(follower, "GET", f"/api/v1/jobs/{job}/wait?timeout_s=20")[1]["ended"]


def test_a_command_that_finds_no_server_waits_for_the_next_one(cluster: Callable[..., Cluster]) -> None:
    several = cluster(2)
    user = several.user()
    user.ok("ps")  # So it has met them; how long it waits is what anybody gets who sets nothing.
    for server in several.servers:
        server.kill()
    env = {**os.environ, **several.env}
    with subprocess.Popen([*HEADWAY, "submit", "--", "true"], env=env, stderr=subprocess.PIPE, text=True) as submitting:
        assert submitting.stderr is not None
        assert "connection refused; waiting up to" in submitting.stderr.readline()
        several.servers[1].start()
        assert submitting.wait(PATIENCE_S) == 0, submitting.stderr.read()
    assert len(json.loads(user.ok("ps", "--json"))["jobs"]) == 1
    # It took the place of the one that was killed; the other one is listed, for it may be missed.
    again, gone = several.servers[1], several.servers[0]

    def lines() -> list[str]:
        return [each for each in user.ok("server", "status").splitlines() if each.startswith("server:")]

    wait_until(lambda: any("is silent for" in each for each in lines()), what="the silence of the other")
    assert sorted(each.split()[1] for each in lines()) == sorted([again.url, gone.url])
    assert f"pid {again.pid} " in next(each for each in lines() if again.url in each)


def test_a_leader_that_was_frozen_comes_back_as_a_follower(cluster: Callable[..., Cluster]) -> None:
    several = cluster(2)
    leader, epoch = several.lead_of()
    follower = follower_of(several, leader)
    leader.kill(signal.SIGSTOP)
    try:
        wait_until(lambda: follower.log.count("server leads") > 0, what="the other to lead")
    finally:
        leader.kill(signal.SIGCONT)
    assert ask(follower, "POST", "/api/v1/jobs", {"job": {"command": ["true"]}})[0] == 201
    wait_until(lambda: "lead ended" in leader.log, what="the old leader to step down")
    assert several.leader(leader) is follower
    assert ask(leader, "POST", "/agent/sync", {"node": "n"})[1]["leader"] == follower.url
    assert ask(leader, "POST", "/api/v1/jobs", {"job": {"command": ["true"]}})[0] == 201
    assert leader.pid, "the old leader is still there"
    # And back again, at once, when the leader is asked to end.
    follower.kill(signal.SIGTERM)
    assert several.lead_of(epoch + 1)[0] is leader
    happened = [each["kind"] for each in several.told(leader)["happened"]]
    assert happened.count("LeaderChanged") >= 3


def test_who_takes_over_counts_the_lease_that_was_granted_before_it_was_lowered(
    cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    several = cluster(2, lease_margin_s=0.1, lease_s_min=1, tick_every_s=0.2, sync_wait_s=1)
    leader, epoch = several.lead_of()
    follower = follower_of(several, leader)
    pool = "/api/v1/pools/lab"
    assert ask(leader, "PATCH", pool, {"engine": "local", "nodes": 1, "lease": 600})[0] == 200
    gate, where = tmp_path / "gate", tmp_path / "where"
    script = 'echo "$HEADWAY_NODE_DIR" > "$1.new"; mv "$1.new" "$1"; until [ -e "$0" ]; do sleep 0.1; done'
    with several.client(leader, follower) as client:
        job = client.submit_raw({"command": ["bash", "-c", script, str(gate), str(where)], "pool": "lab"}).id
        wait_until(where.exists, what="the job to run")
        agent = int(json.loads(Path(where.read_text().strip(), "agent.pid").read_text())["pid"])
        os.kill(agent, signal.SIGSTOP)
        try:
            assert ask(leader, "PATCH", pool, {"lease": 1})[0] == 200
            leader.kill()
            new, _ = several.lead_of(epoch)

            def heard_s() -> float:
                (node,) = ask(new, "GET", "/api/v1/nodes")[1]["nodes"]
                return float(node["heard_s"])

            wait_until(lambda: heard_s() > 5.0, what="several of the shorter leases to run out")
            assert [each["number"] for each in client.detail(job)["attempts"]] == [1]
            assert ask(new, "PATCH", pool, {"lease": 600})[0] == 200  # On a busy machine a second is soon over.
        finally:
            os.kill(agent, signal.SIGCONT)
        gate.touch()
        wait_until(lambda: client.detail(job)["state"] == "succeeded", what="the end of the job")
        assert [each["number"] for each in client.detail(job)["attempts"]] == [1]
