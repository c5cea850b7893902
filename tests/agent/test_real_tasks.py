"""Real agents, keepers and ranks: what happens to a task from its claim to its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.engines import agent_zip
from tests.agent.home import Node, a_node

pytestmark = pytest.mark.real


@pytest.fixture
def node(headway_home: Path) -> Iterator[Node]:
    (headway_home / "agent.pyz").write_bytes(agent_zip.build().data)
    with a_node(headway_home, headway_home / "agent.pyz") as node:
        yield node


def test_a_task_is_claimed_then_goes_then_ends_with_its_output_exact(node: Node) -> None:
    node.start()
    task = node.server.give("job1/1/0", "sh", "-c", "echo one; echo two >&2; printf three")
    outcome = node.server.outcome(task)
    assert outcome["exit_code"] == 0
    assert outcome["cause"] is None
    assert node.server.output(task) == b"one\ntwo\nthree"
    assert [phase for key, phase in node.server.seen if key == task and phase != "running"] == ["claimed", "ended"]
