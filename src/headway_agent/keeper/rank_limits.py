"""What the keeper does for a rank that is limited: its control group, its open files, its processors.

Group and open files are set by a few words of shell in the rank's own process, before its program begins, so that there
is not a moment without them; processors right after the start, while that shell still runs.
"""

from __future__ import annotations

import math
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping, Sequence

    from headway_agent.node.cgroups import ControlGroup

SHELL = "/bin/sh"


def group_for(node_path: str, task: str, limits: Mapping[str, Any]) -> ControlGroup | None:
    memory_bytes = int(limits.get("memory_bytes") or 0)
    if not memory_bytes:
        return None
    from headway_agent.node import cgroups

    return cgroups.make(node_path, task, memory_bytes)


def words_before(group: ControlGroup | None, limits: Mapping[str, Any]) -> list[str]:
    """The shell before the program, which follows as `$0` with its arguments; nothing where none is needed."""
    script = ""
    if group is not None:
        script += f"echo $$ > '{group.procs}' && "
    open_files = int(limits.get("open_files") or 0)
    if open_files:
        script += f"ulimit -n {min(open_files, _open_files_max())} && "
    return [SHELL, "-c", script + 'exec "$0" "$@"'] if script else []


def _open_files_max() -> int:
    """No more than we may grant: without a privilege, the hard limit cannot be raised."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 1 << 30 if hard == resource.RLIM_INFINITY else hard


def choose_cpus(limits: Mapping[str, Any], taken: Iterable[int], allowed: Sequence[int]) -> tuple[int, ...]:
    """Processors that no other task is pinned to; none where there are not enough."""
    if not limits.get("pin_cpus"):
        return ()
    wanted = max(1, math.ceil(float(limits.get("cpus") or 1)))
    free = sorted(set(allowed) - set(taken))
    return tuple(free[:wanted]) if len(free) >= wanted else ()


def pin(pid: int, cpus: Sequence[int]) -> None:
    try:
        os.sched_setaffinity(pid, cpus)
    except OSError:
        pass  # It has ended already.


def show_bytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
