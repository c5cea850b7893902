"""What agents and servers say to each other, for tests: in JSON, as it is written down in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway_agent.decide.decide import POLL_WAIT_S, Answered, CheckpointStored, NodeState, sync_body
from headway_wire.claim import Claim
from headway_wire.reply import Reply
from headway_wire.sync import Facts, StoredCheckpoint


def sync_of(state: NodeState, facts: Mapping[str, Any], now: float, wait_s: float = POLL_WAIT_S) -> dict[str, Any]:
    """The next sync of an agent, as it travels."""
    return sync_body(state, Facts.read(dict(facts)), now, wait_s).show()


def a_reply(**words: Any) -> Reply:
    return Reply.read({"leader_epoch": 1, **words})


def answered(reply: Mapping[str, Any], seq: int = 0) -> Answered:
    return Answered(Reply.read(dict(reply)), seq)


def a_claim(**words: Any) -> Claim:
    return Claim.read({"task": "job1/1/0", "argv": ["true"], **words})


def a_save(task: str, checkpoint: Mapping[str, Any], storage: str = "") -> CheckpointStored:
    """A checkpoint is in storage."""
    return CheckpointStored(task, StoredCheckpoint.read({**checkpoint, "task": task, "storage": storage}))
