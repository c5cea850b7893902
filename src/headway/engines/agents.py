"""How an agent is started, wherever: what it is told on its command line. Shared by all engines that start one."""

from __future__ import annotations

from headway.core.model import NodeId
from headway.settings import Settings


def agent_flags(
    node: NodeId, pool: str, settings: Settings, cpus: float = 0.0, memory_bytes: int = 0, gpus: int = -1
) -> dict[str, object]:
    """What every agent is told. Resources that are not given are what it finds granted to itself."""
    flags: dict[str, object] = {
        "--node": node,
        "--pool": pool,
        "--ship-every-s": settings.log_flush_every_s,
        "--ship-follow-every-s": settings.log_follow_every_s,
    }
    if cpus > 0:
        flags["--cpus"] = cpus
    if memory_bytes > 0:
        flags["--memory-bytes"] = memory_bytes
    if gpus >= 0:
        flags["--gpus"] = gpus
    return flags


def spelled(flags: dict[str, object]) -> list[str]:
    return [str(word) for flag in flags.items() for word in flag]
