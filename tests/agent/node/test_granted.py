"""What a machine grants, by control groups as a tree of files; real ones: test_real_limits.py and tests/guest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headway_agent.node import cgroups
from headway_agent.node import granted as node_granted

GB = 1 << 30
UNLIMITED = "9223372036854771712"  # As version 1 writes it.
OWN = {
    "v2": "0::/batch.slice/agent.service/part\n",
    "v1": "5:cpu,cpuacct:/batch.slice/agent.service/part\n4:memory:/batch.slice/agent.service/part\n0::/\n",
    "v1 of a container": "5:cpu,cpuacct:/docker/0123\n4:memory:/docker/0123\n0::/\n",
}


class Tree:
    """The mounted groups; the agent is in batch.slice/agent.service/part."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.monkeypatch = root, monkeypatch
        monkeypatch.setattr(cgroups, "MOUNT", str(root))
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
        plain = node_granted._read
        memory = f"MemTotal:       {16 * GB // 1024} kB\n"
        monkeypatch.setattr(node_granted, "_read", lambda path: memory if path == "/proc/meminfo" else plain(path))

    def own(self, kind: str) -> None:
        plain = cgroups._read
        read = lambda path: OWN[kind] if path == "/proc/self/cgroup" else plain(path)  # noqa: E731
        self.monkeypatch.setattr(cgroups, "_read", read)

    def says(self, group: str, **files: str) -> None:
        (self.root / group).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (self.root / group / name.replace("_", ".", 1)).write_text(f"{text}\n")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    return Tree(tmp_path, monkeypatch)


def granted() -> tuple[float, int]:
    return node_granted.cpus_granted(), node_granted.memory_granted()


def test_without_limits_all_of_the_machine_is_granted(tree: Tree) -> None:
    tree.own("v2")
    assert granted() == (8.0, 16 * GB)
    tree.says("batch.slice/agent.service/part", memory_max="max", cpu_max="max 100000")
    assert granted() == (8.0, 16 * GB)


def test_of_version_2_the_smallest_limit_on_the_way_up_counts(tree: Tree) -> None:
    tree.own("v2")
    tree.says("batch.slice", memory_max=str(4 * GB), cpu_max="400000 100000")
    tree.says("batch.slice/agent.service", memory_max=str(2 * GB), cpu_max="max 100000")
    tree.says("batch.slice/agent.service/part", memory_max="max", cpu_max="600000 100000")
    tree.says("other.slice", memory_max=str(GB), cpu_max="100000 100000")
    assert granted() == (4.0, 2 * GB)


def test_of_a_container_that_sees_its_own_group_as_the_root_that_one_counts(tree: Tree) -> None:
    tree.own("v1 of a container")
    tree.says("memory", memory_limit_in_bytes=str(3 * GB))
    tree.says("cpu", cpu_cfs_quota_us="150000", cpu_cfs_period_us="100000")
    assert granted() == (1.5, 3 * GB)


def test_of_version_1_the_smallest_limit_on_the_way_up_counts(tree: Tree) -> None:
    tree.own("v1")
    tree.says("memory", memory_limit_in_bytes=UNLIMITED)
    tree.says("memory/batch.slice", memory_limit_in_bytes=str(4 * GB))
    tree.says("memory/batch.slice/agent.service/part", memory_limit_in_bytes=str(5 * GB))
    tree.says("cpu", cpu_cfs_quota_us="-1", cpu_cfs_period_us="100000")
    tree.says("cpu/batch.slice/agent.service", cpu_cfs_quota_us="250000", cpu_cfs_period_us="100000")
    assert granted() == (2.5, 4 * GB)


def test_a_limit_above_what_the_machine_has_grants_no_more(tree: Tree) -> None:
    tree.own("v2")
    tree.says("batch.slice", memory_max=str(64 * GB), cpu_max="3200000 100000")
    assert granted() == (8.0, 16 * GB)
