"""Whether a task that failed can have written what it had to say."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway_agent.decide.outcomes import Exit
from headway_agent.limits.enforce import takes_more, with_room

FAILED = [Exit(0, 1)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], capture_output=True)
    if os.geteuid() != 0 or mounted.returncode:
        pytest.skip("a small disk cannot be mounted here (needs root and tmpfs)")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_full_disk_is_found_by_writing_to_it_and_nothing_is_left_there(disk: Path) -> None:
    assert takes_more(str(disk))
    assert with_room({}, str(disk), FAILED) == {}
    with (disk / "ballast").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(b"\0" * 4096)
    assert not takes_more(str(disk))
    assert with_room({"limit": 1}, str(disk), FAILED) == {"limit": 1, "disk_full": str(disk)}
    assert with_room({}, str(disk), [Exit(0, 0)]) == {}
    assert with_room({}, str(disk), [Exit(0, signal=15, ours="stop")]) == {}
    assert os.listdir(disk) == ["ballast"]


def test_a_directory_that_is_gone_is_not_full(tmp_path: Path) -> None:
    assert takes_more(str(tmp_path / "gone"))
