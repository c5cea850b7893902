"""Where a control group of version 2 is looked for, on a tree of files: what the guest of tests/guest does not have.

That is a machine with both versions, where the second is mounted aside; and the user's own wish. All else about
version 2 is checked there with a real kernel, and version 1 in test_real_limits.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headway_agent.node import cgroup_delegation, cgroups

OWN = "/system.slice/agent.service"


@pytest.fixture
def aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Version 2 as it is mounted beside version 1: its own group grants nothing, the slice above it does."""
    root = tmp_path / "unified"
    for path, granted in (("", "memory"), ("system.slice", "memory"), ("system.slice/agent.service", "")):
        (root / path).mkdir()
        (root / path / "cgroup.controllers").write_text("memory\n")
        (root / path / "cgroup.subtree_control").write_text(f"{granted}\n")
    plain = cgroups._read
    monkeypatch.setattr(cgroups, "MOUNT", str(tmp_path))
    monkeypatch.setattr(cgroups, "_read", lambda path: f"0::{OWN}\n" if path == "/proc/self/cgroup" else plain(path))
    monkeypatch.setattr(cgroup_delegation, "ours", lambda paths: [])
    return root


def test_version_2_is_found_where_it_is_mounted_beside_version_1(aside: Path) -> None:
    group = cgroups.make("/node", "job1/2/0", 123_456)
    assert group is not None
    assert Path(group.path).parent == aside / "system.slice"
    assert Path(group.path).name.endswith("-job1-2-0")
    assert Path(group.path, "memory.max").read_text() == "123456"


@pytest.mark.parametrize("wish", ["v1", "none"])
def test_version_2_can_be_wished_away(aside: Path, wish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_AGENT_CGROUPS", wish)
    assert cgroups.make("/node", "job1/2/0", 1 << 20) is None
    assert not list(aside.rglob("headway-*"))
