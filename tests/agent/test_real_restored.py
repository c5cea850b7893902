"""A real agent whose server comes back with an older database, or says that a number from the future spoke for it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.agent.home import Node
from tests.waiting import wait_until

pytestmark = pytest.mark.real


def test_an_agent_takes_work_again_from_a_server_whose_database_was_restored(node: Node) -> None:
    node.server.leader_epoch = 900
    node.server.lease_left_s = 8.0  # So that an older leader is believed after two seconds.
    node.start()
    wait_until(lambda: any(body["leader_epoch"] == 900 for body in node.server.bodies), every_s=0.01)
    calls = len(node.server.bodies)
    node.server.leader_epoch = 4
    task = node.server.give("job1/1/0", "sh", "-c", "exit 3")
    assert node.server.outcome(task)["exit_code"] == 3
    assert len(node.server.bodies) - calls < 60, "it called 400 times a second, for ever"
    log = (node.path / "agent.log").read_text()
    assert "this server leads with a smaller number than was heard before" in log
    assert "the server's database was restored, or is a copy" in log


def test_a_number_from_the_future_does_not_shut_the_real_agent_out(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = int(time.time()) + 10**8
    take = node.server.sync

    def sync(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if body["agent_epoch"] <= newest:
            return 409, {"stale": True, "newest": newest, "detail": "agent 1 of n1 is older"}
        return take(body)

    monkeypatch.setattr(node.server, "sync", sync)
    node.start()
    task = node.server.give("job1/1/0", "sh", "-c", "exit 3")
    assert node.server.outcome(task)["exit_code"] == 3
    assert int(Path(node.path / "agent.epoch").read_text()) == newest + 1
