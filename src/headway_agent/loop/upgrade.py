"""Replacing the agent by another version of itself, under running tasks: keeper and ranks notice nothing."""

from __future__ import annotations

import os
import sys

from headway_agent.node.digest import sha256_of
from headway_agent.node.directory import NodeDir, write_durably
from headway_agent.server_link.http import Connection

FETCH_S_MAX = 120.0


def own_version() -> str:
    """The sha256 of the zipapp that is running; empty where it runs from sources, which are never replaced."""
    try:
        with open(sys.argv[0], "rb") as file:
            content = file.read()
    except OSError:
        return ""
    return sha256_of(content) if b"PK" in content[:64] else ""


def fetch(connection: Connection, node_dir: NodeDir, version: str) -> str:
    """Download the zipapp of this version and return its path. Raises where the content is not what was named."""
    try:
        status, content = connection.request("GET", "/agent.pyz", b"", FETCH_S_MAX)
    finally:
        connection.close()
    if status != 200:
        raise OSError(f"the server answered {status} for the agent's new version")
    found = sha256_of(content)
    if found != version:
        raise OSError(f"the server named version {version[:12]} and sent {found[:12]}")
    path = node_dir.file(f"agent-{version[:16]}.pyz")
    write_durably(path, content)
    return path


def become(program: str) -> None:
    """Go on as the new program, in the same process, with the same flags."""
    os.execv(sys.executable, [sys.executable, "-I", "-S", program, *sys.argv[1:]])
