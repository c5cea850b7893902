"""Faults under several servers: leaders killed again and again, PostgreSQL restarted, every server away for a while."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Thread

from headway.core.model import State
from headway.storage.folder import FolderStorage
from headway.store.protocol import JobFilter
from headway.store.sql.store import SqlStore
from tests.servers.cluster import Cluster, Postgres
from tests.waiting import PATIENCE_S, wait_until

JOBS = 500
KILLS = 4
LINES = 3

# A directory is made by one process only: whoever finds it there overlaps with another attempt of the same job.
SCRIPT = """
mkdir "$0/$HEADWAY_JOB_ID.alive" || echo "$HEADWAY_JOB_ID" >> "$0/overlaps"
echo begun >> "$0/$HEADWAY_JOB_ID"
for i in 1 2 3; do echo "$HEADWAY_JOB_ID line $i"; sleep 0.1; done
rmdir "$0/$HEADWAY_JOB_ID.alive"
"""


def kill_the_leader(cluster: Cluster, led: int) -> None:
    """Kill who leads, and start it again once another does. `led` terms have begun before."""

    def begun() -> int:
        return sum(each.log.count("server leads") for each in cluster.servers)

    wait_until(lambda: begun() > led, what="a leader")
    newest = max(cluster.servers, key=lambda each: _last_led(each.log))
    newest.kill()
    cluster.lead_of()
    newest.start()
    wait_until(newest.up, what="the killed server")


def _last_led(log: str) -> str:
    """When a server last began to lead, as it says in its log; these sort as text."""
    return max((line[:19] + _epoch(line) for line in log.splitlines() if "server leads" in line), default="")


def _epoch(line: str) -> str:
    return line.rpartition("epoch=")[2].strip().zfill(9)


def output_of(store: SqlStore, storage: FolderStorage, job: str) -> str:
    pieces = store.logs(job)
    assert all(one.end == two.start for one, two in pairwise(pieces)), pieces
    found = (storage.get(each.key, each.key_offset, each.key_offset + each.end - each.start) for each in pieces)
    return b"".join(found).decode()


def test_every_job_ends_once_while_leaders_are_killed(cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    several = cluster(3, local_nodes=4, local_cpus=4, local_memory_bytes="8GiB")
    job = {"command": ["bash", "-c", SCRIPT, str(tmp_path)], "name": "many", "resources": {"cpus": 1, "memory": "1MiB"}}
    with several.client() as client:
        ids = client.submit_many([job] * JOBS)
    for led in range(KILLS):
        kill_the_leader(several, led)
    store = SqlStore.open(several.store_url, migrating=False)
    try:
        done = JobFilter(frozenset({"queued", "starting", "running", "stopping"}))
        wait_until(lambda: not store.page(done, None, 1), limit_s=600, every_s=0.5, what="the end of all jobs")
        assert len(ids) == len(set(ids)) == JOBS
        assert {each.state for each in store.jobs(ids)} == {State.SUCCEEDED}
        assert {each.number for each in store.jobs(ids)} == {1}, "an attempt was made twice"
        ends = Counter(each.job for each in store.events(0, 10**6) if each.kind == "JobSucceeded")
        assert ends == dict.fromkeys(ids, 1)
        storage = FolderStorage(several.root / "storage")
        for each in ids:
            assert output_of(store, storage, each) == "".join(f"{each} line {n}\n" for n in range(1, LINES + 1))
            assert (tmp_path / each).read_text() == "begun\n"
        assert not (tmp_path / "overlaps").exists()
        changes = [each for each in store.happenings(1000) if each.kind == "LeaderChanged"]
        assert len(changes) >= KILLS + 1
    finally:
        store.close()


def test_nothing_acknowledged_is_lost_when_postgresql_is_restarted(
    cluster: Callable[..., Cluster], postgres: Postgres
) -> None:
    several = cluster(2, local_nodes=1, local_cpus=4)
    several.lead_of()
    acknowledged: list[str] = []

    def submit() -> None:
        with several.client() as client:
            for _ in range(40):
                acknowledged.append(client.submit_raw({"command": ["bash", "-c", "echo one; sleep 0.3; echo two"]}).id)

    submitting = Thread(target=submit, daemon=True)
    submitting.start()
    for much in (5, 20):
        wait_until(partial(lambda much: len(acknowledged) > much, much), what="submitted jobs")
        postgres.control("restart", "-m", "immediate")
    submitting.join(PATIENCE_S)
    assert len(acknowledged) == len(set(acknowledged)) == 40
    with several.client() as client:
        ended = [client.wait(each, PATIENCE_S)[0] for each in acknowledged]
        assert {each["state"] for each in ended} == {"succeeded"}
        assert {len(each["attempts"]) for each in ended} == {1}
        assert client.jobs(limit=1000)[-1]["id"] == acknowledged[0], "a job that nobody was told of"
        assert len(client.jobs(limit=1000)) == 40
        happened = {each["kind"] for each in client.server()["happened"]}
    assert happened & {"DatabaseBack", "LeaderChanged"}
    store, storage = SqlStore.open(several.store_url, migrating=False), FolderStorage(several.root / "storage")
    assert {output_of(store, storage, each) for each in acknowledged} == {"one\ntwo\n"}
    store.close()


def test_jobs_train_on_while_every_server_is_away(cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    # On a busy machine a server takes its time to start: the lease leaves room for that.
    away_s = 600 if os.environ.get("HEADWAY_TEST_LONG") else 5
    several = cluster(2, local_nodes=1, local_cpus=4, local_lease_s=1800)
    steps = away_s * 2 + 10
    note = f"echo $i > {tmp_path}/draft; mv {tmp_path}/draft {tmp_path}/step"  # Whoever looks sees a whole number.
    training = f"for i in $(seq {steps}); do echo step $i; {note}; sleep 0.5; done"
    ending = f"until [ -e {tmp_path}/away ]; do sleep 0.2; done; echo ended; exit 3"
    with several.client() as client:
        long = client.submit_raw({"command": ["bash", "-c", training], "resources": {"cpus": 1}}).id
        short = client.submit_raw({"command": ["bash", "-c", ending], "resources": {"cpus": 1}}).id
        both = {long, short}
        wait_until(lambda: both <= {each["id"] for each in client.jobs(state="running")}, what="the jobs to run")
    for server in several.servers:
        server.kill()
    left_step = int((tmp_path / "step").read_text() or 0)
    (tmp_path / "away").touch()
    done = lambda: int((tmp_path / "step").read_text() or 0) >= min(steps, left_step + 2 * away_s)  # noqa: E731
    wait_until(done, limit_s=away_s * 10 + PATIENCE_S, what="steps that are done while every server is away")
    for server in several.servers:
        server.start()
    for server in several.servers:
        wait_until(server.up, what="a server")
    with several.client() as client:
        ended = {each: client.wait(each, PATIENCE_S)[0] for each in (long, short)}
    assert (ended[long]["state"], ended[short]["state"]) == ("succeeded", "failed")
    assert ended[short]["attempts"][0]["exit_code"] == 3
    tries = [(each["number"], each["cause"], each["detail"]) for job in ended.values() for each in job["attempts"]]
    assert [number for number, _, _ in tries] == [1, 1], tries
    assert several.user().log(long).splitlines() == [f"step {n}" for n in range(1, steps + 1)]
    assert several.user().log(short) == "ended\n"
