"""What this machine is and what was granted of it: processors, memory, GPUs, its address, its boot.

Granted, not present: a container, a service or a Slurm step may use only a part of the machine. Of the limits that our
own control group and the groups above it have, the smallest counts.
"""

from __future__ import annotations

import os
import socket
import sys

from headway_agent.node import cgroups
from headway_wire.sync import Facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

UNLIMITED_BYTES = 1 << 60  # cgroup v1 writes a number of about this size where there is no limit.


def boot_id() -> str:
    """Which life of the machine this is. In a container it is told: there, the kernel's own outlives all processes."""
    return os.environ.get("HEADWAY_AGENT_BOOT_ID", "") or _read("/proc/sys/kernel/random/boot_id").strip()


def facts(cpus: float | None, memory_bytes: int | None, gpus: int | None, address: str) -> Facts:
    """The node's facts for a full sync. What is given as an argument outranks what the machine says."""
    return Facts(
        cpus=cpus if cpus is not None else cpus_granted(),
        memory_bytes=memory_bytes if memory_bytes is not None else memory_granted(),
        gpus=gpus if gpus is not None else gpus_granted(),
        address=address or "127.0.0.1",
        hostname=socket.gethostname(),
        python=".".join(str(part) for part in sys.version_info[:3]),
    )


def cpus_granted() -> float:
    allowed = float(len(os.sched_getaffinity(0)))
    return min([allowed, *map(_cpus_of, cgroups.own_and_above("cpu"))])


def _cpus_of(group: str) -> float:
    quota, period = _read(f"{group}/cpu.max").split() or ["", ""]
    if not quota:
        quota = _read(f"{group}/cpu.cfs_quota_us").strip()
        period = _read(f"{group}/cpu.cfs_period_us").strip()
    if quota.isdigit() and period.isdigit() and int(period):
        return int(quota) / int(period)
    return float("inf")


def memory_granted() -> int:
    total = 0
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            total = int(line.split()[1]) * 1024
    limits = [total or UNLIMITED_BYTES, *map(_memory_of, cgroups.own_and_above("memory"))]
    return min(limits) if min(limits) < UNLIMITED_BYTES else 0


def _memory_of(group: str) -> int:
    limit = (_read(f"{group}/memory.max") or _read(f"{group}/memory.limit_in_bytes")).strip()
    return int(limit) if limit.isdigit() else UNLIMITED_BYTES


def gpus_granted() -> int:
    override = os.environ.get("HEADWAY_AGENT_GPUS", "")
    if override.isdigit():
        return int(override)
    try:
        return len(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        return 0


def free_port() -> int:
    """A TCP port that is free at this moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except (OSError, ValueError):
        return ""
