"""Visits where several servers are named: through one that follows, and when the first of them is down."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from dataclasses import replace

from tests.living import HEADWAY, Living
from tests.servers.cluster import Cluster
from tests.servers.test_takeover import follower_of
from tests.waiting import PATIENCE_S, wait_until


def test_exec_ssh_and_tunnel_find_a_server_that_answers(cluster: Callable[..., Cluster]) -> None:
    several = cluster(2, local_nodes=1, lead_lease_s=10)
    leader, epoch = several.lead_of()
    follower = follower_of(several, leader)
    user = several.user()
    (user.place / "page.txt").write_text("a page of the job\n" * 10_000)
    far = free_port()
    job = user.submit("--env", "COLOUR=blue", "--", "python3", "-m", "http.server", str(far), "--bind", "127.0.0.1")
    wait_until(lambda: user.job(job)["state"] == "running", what="the job to run")

    follows_first = replace(user, env={**user.env, "HEADWAY_SERVER_URL": f"{follower.url},{leader.url}"})
    assert_visits_work(follows_first, job, far)
    leader_first = replace(user, env={**user.env, "HEADWAY_SERVER_URL": f"{leader.url},{follower.url}"})
    leader.kill()
    assert several.lead_of(epoch)[0] is follower
    assert_visits_work(leader_first, job, far)
    assert user.job(job)["attempt"] == 1


def assert_visits_work(user: Living, job: str, far: int) -> None:
    # An agent that has just lost its server takes a moment to find the next: until then a visit is refused in words.
    done = wait_until(lambda: visited(user, job), what="the agent to be reached")
    assert done is not None
    assert (done.returncode, done.stdout, done.stderr) == (7, f"blue {job}\n", "bad\n")
    big = "x" * 3_000_000
    assert user.run("exec", job, "--", "cat", input=big).stdout == big
    said = user.run("ssh", job, input="echo in the shell; exit 5\n")
    assert (said.returncode, said.stdout) == (5, "in the shell\n")
    near = free_port()
    env = {**os.environ, **user.env}
    tunnel = subprocess.Popen([*HEADWAY, "tunnel", job, f"{near}:{far}"], env=env, stderr=subprocess.DEVNULL)
    try:
        page = wait_until(lambda: fetched(f"http://127.0.0.1:{near}/page.txt"), what="the page")
        assert page == (user.place / "page.txt").read_bytes()
    finally:
        tunnel.send_signal(signal.SIGINT)
        assert tunnel.wait(PATIENCE_S) == 0


def visited(user: Living, job: str) -> subprocess.CompletedProcess[str] | None:
    done = user.run("exec", job, "--", "sh", "-c", "echo $COLOUR $HEADWAY_JOB_ID; echo bad >&2; exit 7")
    return done if "did not answer" not in done.stderr else None


def fetched(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return bytes(answer.read())
    except OSError:
        return None


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
