"""What cannot be kept, and limits that are near: both are said where people look at the job, and stop nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.living import Living
from tests.real.training import events_of
from tests.waiting import wait_until

pytestmark = pytest.mark.real

ODD = r"""
import os
place = os.environ["HEADWAY_OUTPUT_DIR"]
os.mkfifo(f"{place}/pipe")
os.symlink("/etc/passwd", f"{place}/secrets")
open(f"{place}/two\nlines", "w").close()
open(f"{place}/fine.txt", "w").write("fine")
os.mkfifo(os.environ["HEADWAY_CHECKPOINT_DIR"] + "/odd")
"""

LARGE = """
import os, sys, time
for place in ("HEADWAY_CHECKPOINT_DIR", "HEADWAY_OUTPUT_DIR"):
    with open(os.environ[place] + "/x.tmp", "wb") as file:
        file.write(os.urandom(6_000_000))
    os.rename(os.environ[place] + "/x.tmp", os.environ[place] + "/step-1.bin")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""

SLOWLY_TOO_MUCH = """
import os, sys, time
with open(os.environ["HEADWAY_OUTPUT_DIR"] + "/x.bin", "wb", buffering=0) as file:
    file.write(b"x" * 970_000)
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.02)
    file.write(b"x" * 200_000)
time.sleep(600)
"""


def test_outputs_that_cannot_be_kept_are_named_when_the_job_is_described(living: Living) -> None:
    living.script("odd.py", ODD)
    job = living.submit("--no-bundle", "odd.py")
    ended = living.wait(job)
    assert (ended["state"], ended["artifacts"]["files"]) == ("succeeded", 1)
    unkept = ended["attempts"][0]["tasks"][0]["outcome"]["unkept"]
    for word in ("pipe", "secrets: a link that leaves the directory", "two\\nlines", "odd: neither"):
        assert word in unkept
    said = living.ok("describe", job)
    assert "not kept:" in said
    assert "secrets: a link that leaves the directory" in said


def test_outputs_that_are_not_there_when_a_job_succeeds_are_named(living: Living) -> None:
    living.script("writes.py", "import os; os.makedirs('results'); open('results/a.txt', 'w').write('a')")
    job = living.submit("--no-bundle", "--outputs", "results/", "--outputs", "reslts/*.csv", "writes.py")
    ended = living.wait(job)
    assert (ended["state"], ended["artifacts"]["files"]) == ("succeeded", 1)
    assert ended["attempts"][0]["tasks"][0]["outcome"]["unkept"] == "reslts/*.csv: nothing is there"
    failing = living.submit("--no-bundle", "--outputs", "never/", "--", "false")
    unkept = living.wait(failing)["attempts"][0]["tasks"][0]["outcome"]["unkept"]
    assert not unkept, "it had no time to write any"


@pytest.fixture
def small_storage(living: Living) -> Iterator[Living]:
    """A Headway whose storage lies on a disk of 4 MB."""
    place = living.home / "data/storage"
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here (needs root and tmpfs)")
    yield living
    living.end()
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_store_is_told_of_the_job_while_it_lasts(small_storage: Living, tmp_path: Path) -> None:
    living, gate = small_storage, tmp_path / "gate"
    living.script("large.py", LARGE)
    job = living.submit("--no-bundle", "large.py", str(gate))
    wait_until(lambda: living.job(job)["troubles"], what="the trouble with its checkpoint")
    assert "checkpoints wait on the node" in living.ok("describe", job)
    assert "StorageFailed" in [each["kind"] for each in events_of(living, job)]
    subprocess.run(["mount", "-o", "remount,size=64m", str(living.home / "data/storage")], check=True)
    wait_until(lambda: living.job(job)["checkpoint"], what="the checkpoint, once there is room")
    gate.touch()
    ended = living.wait(job)
    assert (ended["state"], ended["artifacts"]["files"], ended["troubles"]) == ("succeeded", 1, [])
    assert ended["attempts"][0]["tasks"][0]["outcome"]["unkept"] == ""


FIRST_TOO_LARGE = """
import os
place = os.environ["HEADWAY_OUTPUT_DIR"]
open(f"{place}/a-model.bin", "wb").write(os.urandom(6_000_000))
open(f"{place}/b-scores.txt", "w").write("fine")
os.mkfifo(f"{place}/pipe")
"""


def test_a_file_that_finds_no_room_takes_no_smaller_one_with_it_and_is_named(small_storage: Living) -> None:
    living = small_storage
    living.script("first.py", FIRST_TOO_LARGE)
    job = living.submit("--no-bundle", "first.py")
    wait_until(lambda: "saving its files" in living.job(job)["sentence"], what="the end of its process")
    wait_until(lambda: living.job(job)["artifacts"]["files"] == 1, what="the smaller file")
    told = " ".join(each["detail"] for each in living.job(job)["troubles"])
    assert "outputs wait on the node: the storage folder" in told
    assert "no space left on device (a-model.bin)" in told
    subprocess.run(["mount", "-o", "remount,size=64m", str(living.home / "data/storage")], check=True)
    ended = living.wait(job)
    assert (ended["state"], ended["artifacts"]["files"]) == ("succeeded", 2)
    assert ended["attempts"][0]["tasks"][0]["outcome"]["unkept"] == "pipe: neither a file nor a directory"


def test_a_limit_warns_then_stops_and_both_are_in_the_story_of_the_job(living: Living, tmp_path: Path) -> None:
    living.script("slowly.py", SLOWLY_TOO_MUCH)
    gate = tmp_path / "gate"
    asked = f"command: [python3, slowly.py, {gate}]\ngrace: 1s\nlimits: {{output: 1M}}\n"
    job = living.submit("--no-bundle", "--file", str(living.script("job.yaml", asked)))
    wait_until(lambda: "LimitNear" in [each["kind"] for each in events_of(living, job)], what="the warning")
    assert "that it may" in living.ok("describe", job)
    gate.touch()
    assert living.wait(job)["cause"] == "output_limit"
    kinds = [each["kind"] for each in events_of(living, job)]
    assert kinds.index("LimitNear") < kinds.index("LimitReached") < kinds.index("AttemptEnded")
