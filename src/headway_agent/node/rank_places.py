"""Where a task's ranks run: environment and directory of one that is alive."""

from __future__ import annotations

import os

from headway_agent.node import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TAG = "HEADWAY_VISIT"


class NoPlace(Exception):
    """The visit cannot be served; the sentence is for the visitor."""


def place_of(task: str, node_path: str, rank: Any = None) -> tuple[dict[str, str], str]:
    """Environment and directory of one of the task's ranks: the one asked for, or the first that is alive."""
    found = []
    for seen in processes.scan():
        if seen.pid != seen.session:
            continue
        tags = processes.tags(seen.pid)
        if tags.get("HEADWAY_TASK") != task or tags.get("HEADWAY_NODE_DIR") != node_path or TAG in tags:
            continue
        number = tags.get("HEADWAY_RANK", "0")
        if rank is None or number == str(rank):
            found.append((int(number) if number.isdigit() else 0, seen.start, seen.pid))
    for _, _, pid in sorted(found):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                pairs = [entry.partition(b"=") for entry in file.read().split(b"\0") if b"=" in entry]
            env = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
            return env, os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            continue  # It ended between the look and the reading.
    which = "no rank of it is" if rank is None else f"rank {rank} is not"
    raise NoPlace(f"{which} alive on this node")
