"""The light copy of the SDK that travels in the agent's file: unpacked once per node, put in the way of every job.

It comes last on PYTHONPATH: what a job brings itself goes first, and an installed headway still has its other parts.
"""

from __future__ import annotations

import os

import headway_agent
from headway_agent.node.digest import sha256_of
from headway_agent.node.directory import NodeDir, remove_tree

FOLDER = "headway_shim"


def put(node_dir: NodeDir) -> str:
    """Unpack the copy and return its directory; nothing, where there is none (an agent that runs from its sources)."""
    files = carried()
    if not files:
        return ""
    content = b"".join(name.encode() + b"\0" + data for name, data in sorted(files.items()))
    place = node_dir.file(f"shim-{sha256_of(content)[:12]}")
    if os.path.isdir(place):
        return place
    fresh = f"{place}.new-{os.getpid()}"
    try:
        for name, data in files.items():
            path = os.path.join(fresh, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(data)
        os.rename(fresh, place)
    except OSError:
        remove_tree(fresh)
        # Another agent of this node may have been first; else a job has no SDK, and runs all the same.
        return place if os.path.isdir(place) else ""
    return place


def carried() -> dict[str, bytes]:
    """The copy's files by their path, as they lie in the agent's own file."""
    loader = headway_agent.__loader__
    archive = getattr(loader, "archive", "")
    if not archive:
        return {}
    read = loader.get_data  # type: ignore[union-attr]
    try:
        names = read(os.path.join(archive, FOLDER, "INDEX")).decode().split("\n")
        return {name: read(os.path.join(archive, FOLDER, name)) for name in names if name}
    except OSError:
        return {}


def search_path(given: str, place: str) -> str:
    """PYTHONPATH with the copy at its end."""
    return f"{given}:{place}" if given else place
