"""Hosts by ssh under two servers and an authority of their own: the one who takes over adopts what runs there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway.engines.ssh.client import sockets_dir
from headway.settings import home_from
from tests.certificates import certified
from tests.netlab import Lab
from tests.servers.cluster import Cluster
from tests.servers.test_takeover import follower_of
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.real

# h1 calls the servers under their address; h2 through a tunnel that whoever leads gives it.
POOLS = """
look_every_s = 1
log_flush_every_s = 0.3
[pool.near]
engine = "ssh"
hosts = ["h1"]
lease = 900
[pool.near.options]
{options}
[pool.far]
engine = "ssh"
hosts = ["h2"]
lease = 900
[pool.far.options]
call_home = "tunnel"
{options}
"""
COUNTING = "for i in $(seq 100000); do echo line $i; sleep 0.1; done"


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = Lab(2)
    yield made
    made.close()


def end_ssh(several: Cluster) -> None:
    """End the ssh connections that the servers keep; they outlive a server that is killed."""
    for server in several.servers:
        place = sockets_dir(home_from({"HEADWAY_HOME": str(server.home)}).state)
        for entry in list(Path("/proc").iterdir()):
            try:
                if entry.name.isdigit() and os.fsencode(place) in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), 9)
            except OSError:
                continue
        shutil.rmtree(place, ignore_errors=True)


def test_the_server_that_takes_over_adopts_the_hosts_and_their_jobs(
    lab: Lab, cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    ours = certified(tmp_path, f"IP:{lab.address}")
    options = f"ssh_config = {json.dumps(str(lab.config))}\nconnect_s_max = 10\ncall_s_max = 60"
    several = cluster(
        2, config=POOLS.format(options=options), accounts="on", host=lab.address,
        tls_cert_file=ours.cert, tls_key_file=ours.key, ca_file=ours.ca,
    )  # fmt: skip
    try:
        leader, epoch = several.lead_of()
        user = several.user()
        nodes = ("near-h1", "far-h2")

        def up() -> bool:
            known = {node["id"]: node["state"] for node in json.loads(user.ok("nodes", "--json"))["nodes"]}
            return all(known.get(node) == "up" for node in nodes)

        wait_until(up, PATIENCE_S, 0.5, "the hosts to call home by https", lambda: leader.log[-3000:])
        jobs = [user.submit("--pool", pool, "--", "bash", "-c", COUNTING) for pool in ("near", "far")]
        for job in jobs:
            wait_until(lambda each=job: "line 5\n" in user.log(each), PATIENCE_S, what="its output")
        leader.kill()
        follower = follower_of(several, leader)
        new, _ = several.lead_of(epoch)
        assert new is follower
        seen = {job: user.log(job).count("\n") for job in jobs}
        for job in jobs:
            wait_until(lambda each=job: user.log(each).count("\n") > seen[each] + 20, PATIENCE_S, what="more output")
            lines = user.log(job).splitlines()
            assert lines == [f"line {number}" for number in range(1, len(lines) + 1)]
            user.ok("stop", job, "--grace", "0")
            ended = user.wait(job)
            assert (ended["state"], len(user.job(job)["attempts"])) == ("cancelled", 1)
        # Nobody started a second agent beside the one that was there.
        for host in lab.hosts:
            agents = [pid for pid in host.pids() if b"--node-dir" in _words(pid) and b"\0agent\0" in _words(pid)]
            assert len(agents) == 1, [_words(pid) for pid in agents]
    finally:
        end_ssh(several)


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
