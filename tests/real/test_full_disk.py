"""A full disk while a job runs: the server survives, says so, and loses nothing that it had acknowledged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.living import Living
from tests.waiting import wait_until

pytestmark = pytest.mark.real

TALKS = """
import sys, time
for number in range(40):
    print("line", number, "x" * 200, flush=True)
    time.sleep(0.05)
"""


def can_mount(place: Path) -> bool:
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)], capture_output=True)
    return done.returncode == 0


@pytest.fixture
def small(headway_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Living]:
    """A Headway whose home lies on a disk of 24 MB."""
    disk = headway_home / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or not can_mount(disk):
        pytest.skip("a small disk cannot be mounted here (needs root and tmpfs)")
    monkeypatch.setenv("HEADWAY_HOME", str(disk / "home"))
    place = tmp_path / "place"
    place.mkdir()
    made = Living(disk / "home", place, {"HEADWAY_AUTO_START_S_MAX": "10"})  # Who is refused does not try for long.
    yield made
    made.end()
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Take all space that is left, to the last page."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    assert shutil.disk_usage(disk).free < 4096
    return ballast


def test_a_full_disk_ends_nothing_and_loses_nothing_acknowledged(small: Living) -> None:
    before = small.submit("--name", "before", "--", "echo", "early words")
    assert small.wait(before)["state"] == "succeeded"
    small.script("talks.py", TALKS)
    long = small.submit("--name", "long", "talks.py")
    wait_until(lambda: small.job(long)["log_bytes"] > 0, what="the first output")
    server = small.server
    ballast = fill(small.home.parent)

    refused = wait_until(
        lambda: (done := small.run("submit", "--", "true")).returncode and done, what="a refused submission"
    )
    assert "Traceback" not in refused.stderr
    said = wait_until(
        lambda: json.loads(small.ok("server", "status", "--json")).get("troubles"), what="the server's complaint"
    )
    assert any("full" in sentence or "space" in sentence for sentence in said), said
    assert small.server == server, "the server did not survive"
    assert small.log(before) == "early words\n"

    ballast.unlink()
    assert small.wait(long)["state"] in ("succeeded", "failed")
    # The rank's own writes fail on a full disk, so its output may break off; what there is, is exact.
    whole = "".join(f"line {number} {'x' * 200}\n" for number in range(40))
    assert whole.startswith(kept := small.log(long))
    assert kept
    after = small.submit("--name", "after", "--", "echo", "late words")
    assert small.wait(after)["state"] == "succeeded"
    names = {job["name"] for job in json.loads(small.ok("ps", "-a", "--json"))["jobs"]}
    assert {"before", "long", "after"} <= names
    assert small.server == server
