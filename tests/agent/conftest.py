"""A packed agent, and a node with a server to call home to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.engines import agent_zip
from tests.agent.home import Node, a_node


@pytest.fixture
def program(headway_home: Path) -> Path:
    path = headway_home / "agent.pyz"
    path.write_bytes(agent_zip.build().data)
    return path


@pytest.fixture
def node(headway_home: Path, program: Path) -> Iterator[Node]:
    with a_node(headway_home, program) as node:
        yield node
