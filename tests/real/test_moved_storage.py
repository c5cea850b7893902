"""storage_url is changed under a running job: to another folder, then to a bucket. Nothing of the job is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.buckets import seaweed
from tests.living import Living
from tests.waiting import wait_until

pytestmark = pytest.mark.real

SCRIPT = """
import os, time
place = os.environ["HEADWAY_CHECKPOINT_DIR"]
number = 0
for gate in ("one", "two", "three"):
    while not os.path.exists(gate):
        print("line", number, flush=True)
        number += 1
        if number % 20 == 0:
            with open(f"{place}/model.tmp", "w") as file:
                file.write(str(number) * 1000)
            os.replace(f"{place}/model.tmp", f"{place}/model.bin")
        time.sleep(0.02)
with open(os.environ["HEADWAY_OUTPUT_DIR"] + "/final.txt", "w") as file:
    file.write(str(number))
"""


def lines_in(living: Living, job: str) -> int:
    return len(living.run("logs", job).stdout.splitlines())


def test_a_job_goes_on_while_its_storage_moves_and_its_log_is_whole(living: Living, tmp_path: Path) -> None:
    living.script("train.py", SCRIPT)
    job = living.submit("--no-bundle", "--name", "moved", "train.py")
    wait_until(lambda: lines_in(living, job) > 30, what="output in the first place")
    agent = living.agent

    living.ok("server", "stop")
    old, new = living.home / "data/storage", tmp_path / "elsewhere"
    living.env["HEADWAY_STORAGE_URL"] = str(new)
    refused = living.run("server", "start")
    assert refused.returncode != 0
    assert "which is not where the objects of this database are: it has no id" in refused.stderr
    shutil.rmtree(new)
    shutil.copytree(old, new)  # The agent goes on writing into the old folder meanwhile.
    stale = {path for path in (old / "logs").rglob("*") if path.is_file()}
    wait_until(
        lambda: {path for path in (old / "logs").rglob("*") if path.is_file()} - stale,
        what="output that comes to the old place too late",
    )
    (living.place / "one").touch()
    living.ok("server", "start")
    seen = lines_in(living, job)
    wait_until(lambda: lines_in(living, job) > seen + 30, what="output in the second place")
    assert living.agent == agent, "the same agent goes on"

    living.ok("server", "stop")
    bucket, below = seaweed(), living.place.name
    storage = bucket.open(below)
    for path in new.rglob("*"):
        if path.is_file() and ".drafts" not in path.parts:
            storage.put(str(path.relative_to(new)), path.read_bytes())
    living.env.update(bucket.settings(living.home, below))
    (living.place / "two").touch()
    living.ok("server", "start")
    seen = lines_in(living, job)
    wait_until(lambda: lines_in(living, job) > seen + 30, what="output in the bucket")
    (living.place / "three").touch()

    ended = living.wait(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1), ended["sentence"]
    living.ok("cp", f"{job}:final.txt", str(living.place / "back.txt"))
    count = int((living.place / "back.txt").read_text())
    assert living.log(job) == "".join(f"line {number}\n" for number in range(count))
    told = living.ok("server", "status")
    assert f"storage is {bucket.url}{below}" in told
    assert "trouble" not in told

    living.ok("server", "stop")  # And not back by mistake: what came since is not there.
    del living.env["HEADWAY_STORAGE_URL"]
    assert "they were moved away from there" in living.run("server", "start").stderr
