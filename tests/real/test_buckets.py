"""A whole job whose bytes lie in a real object store: its node has no folder and no keys, only signed addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.buckets import Bucket, azurite, seaweed
from tests.living import Living
from tests.real.training import Training
from tests.waiting import wait_until

pytestmark = pytest.mark.real

LARGE = """
import os
for line in range(2000):
    print("line", line)
with open(os.environ["HEADWAY_OUTPUT_DIR"] + "/large.bin", "wb") as file:
    for number in range(20):
        file.write(bytes([number]) * (1 << 20))
"""


@pytest.fixture(params=[seaweed, azurite], ids=["seaweedfs", "azurite"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    made: Bucket = request.param()
    return made


def words_of(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


def test_a_job_keeps_everything_in_a_bucket_and_goes_on_from_there(living: Living, bucket: Bucket) -> None:
    below = living.place.name
    living.env.update(bucket.settings(living.home, below), HEADWAY_BUNDLE="always")
    training = Training(living, steps=150, pace_s=0.02).begin("--max-retries", "5")
    training.began(1)
    wait_until(lambda: len(training.checkpoints()) >= 2, what="two checkpoints")
    secret = list(bucket.keys.values())[1].encode()
    assert secret not in words_of(living.agent, "environ") + words_of(living.agent, "cmdline")
    assert b"--storage-dir" not in words_of(living.agent, "cmdline")
    living.kill(living.keeper)
    assert training.began(2) >= 20, "it began anew"
    ended = training.finished_like_an_undisturbed_one()
    assert ended["attempt"] == 2
    lines = living.log(training.job, "1").splitlines()
    assert lines[:3] == ["from 0 0", "step 1", "step 2"]
    assert not (living.home / "data/storage").exists()
    keys = [kept.key for kept in bucket.open(below).list("")]
    for folder in ("logs/", f"jobs/{training.job}/1/parts/", f"jobs/{training.job}/2/output/final.pkl"):
        assert any(key.startswith(folder) for key in keys), folder
    assert "trouble" not in living.ok("server", "status")


def test_a_large_artifact_of_a_bundled_job_becomes_one_object(living: Living, bucket: Bucket) -> None:
    below = living.place.name
    living.env.update(bucket.settings(living.home, below), HEADWAY_BUNDLE="always")
    living.script("large.py", LARGE)
    job = living.submit("large.py")
    assert living.wait(job)["state"] == "succeeded"
    living.ok("cp", f"{job}:large.bin", str(living.place / "back.bin"))
    content = b"".join(bytes([number]) * (1 << 20) for number in range(20))
    assert (living.place / "back.bin").read_bytes() == content
    storage = bucket.open(below)
    assert storage.size(f"jobs/{job}/1/output/large.bin") == len(content)
    assert not list(storage.list(f"jobs/{job}/1/parts")), "the chunks are left over"
    assert living.log(job).splitlines() == [f"line {line}" for line in range(2000)]
