"""Control groups of version 2 against a tree of files that behaves like the kernel's, as far as we use it.

Our test machines have version 1 only, so this is all that is tested of version 2; version 1 is tested with the real
kernel in test_real_limits.py.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from headway_agent import cgroups

FILES = ("cgroup.procs", "memory.max", "memory.swap.max", "memory.oom.group")
OWN = "/system.slice/headway.service"


class Kernel:
    """Makes and removes groups with the files that the kernel puts into them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for path, granted in (
            ("", "cpu memory pids"),
            ("system.slice", "memory pids"),
            ("system.slice/headway.service", ""),
        ):
            (root / path).mkdir(exist_ok=True)
            (root / path / "cgroup.subtree_control").write_text(granted + "\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        Path(path).mkdir()
        for name in FILES:
            Path(path, name).write_text("")
        Path(path, "memory.events").write_text("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n")

    def rmdir(self, path: str) -> None:
        if Path(path, "cgroup.procs").read_text():
            raise OSError(16, "Device or resource busy")
        shutil.rmtree(path)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel(tmp_path)
    plain = cgroups._read
    monkeypatch.setattr(cgroups, "MOUNT", str(tmp_path))
    monkeypatch.setattr(cgroups, "_read", lambda path: f"0::{OWN}\n" if path == "/proc/self/cgroup" else plain(path))
    monkeypatch.setattr(cgroups, "os", made)
    monkeypatch.delenv("HEADWAY_AGENT_CGROUPS", raising=False)
    return made


def test_the_nearest_group_that_grants_memory_gets_one_below_with_the_limit(kernel: Kernel) -> None:
    group = cgroups.make("/node", "job1/2/0", 123_456)
    assert group is not None
    assert Path(group.path).parent == kernel.root / "system.slice"  # Our own grants nothing to those below it.
    assert Path(group.path).name.endswith("-job1-2-0")
    written = {name: Path(group.path, name).read_text() for name in FILES}
    assert written == {"cgroup.procs": "", "memory.max": "123456", "memory.swap.max": "0", "memory.oom.group": "1"}
    assert group.procs == f"{group.path}/cgroup.procs"
    assert group.oom_kills() == 2


def test_a_group_goes_once_nothing_is_in_it(kernel: Kernel) -> None:
    group = cgroups.make("/node", "job1/2/0", 1 << 20)
    other = cgroups.make("/another-node", "job1/2/0", 1 << 20)
    assert group is not None
    assert other is not None
    Path(group.procs).write_text("77\n")
    cgroups.remove_left("/node")
    assert os.path.exists(group.path)
    Path(group.procs).write_text("")
    cgroups.remove_left("/node")
    assert (os.path.exists(group.path), os.path.exists(other.path)) == (False, True)


def test_without_the_right_to_make_groups_there_is_none(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str, mode: int = 0o777) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(kernel, "mkdir", refused)
    assert cgroups.make("/node", "job1/2/0", 1 << 20) is None


def test_version_2_can_be_wished_away(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_AGENT_CGROUPS", "v1")
    assert cgroups.make("/node", "job1/2/0", 1 << 20) is None
