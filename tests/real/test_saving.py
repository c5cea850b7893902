"""A job whose files take longer than itself: it is saving, its place is free, and nothing that it wrote is lost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from headway_agent.node.settled_tasks import SETTLED
from tests.buckets import seaweed
from tests.faults import FaultyProxy
from tests.living import Living
from tests.waiting import wait_until

pytestmark = pytest.mark.real

TRAIN = """
import os, sys, time
print("begins", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
place = os.environ["HEADWAY_CHECKPOINT_DIR"]
with open(f"{place}/step-7.tmp", "wb") as file:
    file.write(b"seven." * 100_000)
os.replace(f"{place}/step-7.tmp", f"{place}/step-7.bin")
with open(os.environ["HEADWAY_OUTPUT_DIR"] + "/model.bin", "wb") as file:
    file.write(b"model." * 200_000)
"""


@pytest.fixture
def bucket(living: Living) -> Iterator[FaultyProxy]:
    """The way to the bucket of a Headway with one processor; it can be closed."""
    at = urlsplit(seaweed().endpoint)
    proxy = FaultyProxy(at.hostname or "", at.port or 0, seed=1, share=1.0)
    proxy.faults, proxy.on = ("503",), False
    living.env.update(seaweed().settings(living.home, living.place.name, f"http://127.0.0.1:{proxy.port}"))
    living.env["HEADWAY_LOCAL_CPUS"] = "1"
    yield proxy
    proxy.close()


def begins(living: Living) -> tuple[str, Path]:
    """A job that waits for a file before it writes anything; and that file."""
    gate = living.place / "gate"
    living.script("train.py", TRAIN)
    job = living.submit("--no-bundle", "train.py", str(gate))
    wait_until(lambda: "begins" in living.run("logs", job).stdout, what="its first line")
    return job, gate


def ends_without_storage(living: Living, bucket: FaultyProxy) -> str:
    """A job that has written all it had to write, and ended, while its bucket was away."""
    job, gate = begins(living)
    bucket.on = True
    gate.touch()
    wait_until(lambda: "saving its files on local-1" in living.job(job)["sentence"], what="its process to be over")
    return job


def kept(living: Living, job: str, place: Path) -> tuple[bytes, list[int]]:
    living.ok("cp", f"{job}:model.bin", str(place / "model.bin"))
    saved = json.loads(living.ok("checkpoints", job, "--json"))["checkpoints"]
    return (place / "model.bin").read_bytes(), [each["step"] for each in saved if each["resumable"]]


def test_what_a_job_wrote_last_is_kept_though_storage_agent_and_server_were_away(
    living: Living, bucket: FaultyProxy, tmp_path: Path
) -> None:
    job = ends_without_storage(living, bucket)
    assert living.job(job)["state"] == "running"
    living.kill(living.agent)
    living.kill(living.server)
    wait_until(lambda: living.run("ps").returncode == 0, what="the server to be back")
    wait_until(lambda: living.agent, what="the agent to be back")
    bucket.on = False
    ended = living.wait(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1), ended["sentence"]
    assert kept(living, job, tmp_path) == (b"model." * 200_000, [7])
    (attempt,) = ended["attempts"]
    assert attempt["started_at"] < attempt["over_at"] < attempt["ended_at"]


def restart_the_machine(living: Living) -> None:
    """Every process of it ends at once, as when the power is gone; what is on its disk is there afterwards."""
    living.end()
    living.env["HEADWAY_AGENT_BOOT_ID"] = f"another-{time.time()}"


def test_a_restart_of_the_machine_loses_nothing_of_what_a_job_had_written_when_it_ended(
    living: Living, bucket: FaultyProxy, tmp_path: Path
) -> None:
    job = ends_without_storage(living, bucket)
    restart_the_machine(living)
    assert living.job(job)["state"] == "running"
    restart_the_machine(living)
    bucket.on = False
    ended = living.wait(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1), ended["sentence"]
    assert kept(living, job, tmp_path) == (b"model." * 200_000, [7])


def test_nor_when_nobody_had_heard_of_its_end_before_the_restart(
    living: Living, bucket: FaultyProxy, tmp_path: Path
) -> None:
    job, gate = begins(living)
    living.kill(living.server)
    bucket.on = True
    gate.touch()
    written = living.home / "state/nodes/local-1/tasks"
    wait_until(lambda: list(written.rglob(SETTLED)), what="its files to be on the disk")
    restart_the_machine(living)
    bucket.on = False
    ended = living.wait(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1), ended["sentence"]
    assert kept(living, job, tmp_path) == (b"model." * 200_000, [7])


def test_what_may_not_have_reached_the_disk_before_the_power_went_is_done_again(
    living: Living, bucket: FaultyProxy, tmp_path: Path
) -> None:
    job = ends_without_storage(living, bucket)
    written = living.home / "state/nodes/local-1/tasks"
    for note in wait_until(lambda: list(written.rglob(SETTLED)), what="its files to be on the disk") or ():
        note.unlink()
    for model in written.rglob("model.bin"):
        model.write_bytes(bytes(model.stat().st_size))  # As a filesystem leaves it that knew of its length only.
    restart_the_machine(living)
    bucket.on = False
    ended = living.wait(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2), ended["sentence"]
    assert kept(living, job, tmp_path) == (b"model." * 200_000, [7])


def test_the_place_of_a_job_that_only_saves_is_free_for_others(living: Living, bucket: FaultyProxy) -> None:
    job = ends_without_storage(living, bucket)
    mark = living.place / "second"
    other = living.submit("--no-bundle", "--", "touch", str(mark))
    wait_until(mark.exists, what="another job on the only processor")
    assert living.job(job)["state"] == "running"
    assert "saving its files" in living.ok("why", job)
    bucket.on = False
    assert living.wait(job)["state"] == "succeeded"
    assert living.wait(other)["state"] == "succeeded"


def test_only_somebody_s_word_drops_files_that_are_being_saved(living: Living, bucket: FaultyProxy) -> None:
    job = ends_without_storage(living, bucket)
    refused = living.run("stop", job)
    assert refused.returncode != 0
    assert "has ended, and its files are being saved" in refused.stderr
    assert f"headway stop {job} --drop-files" in refused.stderr
    assert living.job(job)["state"] == "running"
    living.ok("stop", job, "--drop-files")
    ended = living.wait(job)
    assert ended["state"] == "cancelled"
    assert ended["attempts"][0]["tasks"][0]["outcome"]["unkept"] == "its files were dropped on request"
