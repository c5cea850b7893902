"""What the facts about kept files make of a node's tasks: checkpoints, artifacts, dumps, steps. Pure."""

from __future__ import annotations

from headway_agent.decide import output_offsets, storage_moved, unconfirmed_files
from headway_agent.decide.state import OVER
from headway_agent.decide.sync_request import change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway_agent.decide.facts_and_acts import (
        Act,
        ArtifactStored,
        CheckpointStored,
        Dumped,
        Salvaged,
        Salvaging,
        Stepped,
        Wrote,
    )
    from headway_agent.decide.state import NodeState


def checkpoint_stored(state: NodeState, fact: CheckpointStored, now: float, acts: list[Act]) -> None:
    if storage_moved.counts(state, fact.task, fact.checkpoint.storage, True, now, acts):
        unconfirmed_files.checkpoint_stored(state, fact)


def artifact_stored(state: NodeState, fact: ArtifactStored, now: float, acts: list[Act]) -> None:
    if storage_moved.counts(state, fact.task, fact.artifact.storage, False, now, acts):
        unconfirmed_files.artifact_stored(state, fact)


def salvaged(state: NodeState, fact: Salvaged, now: float, acts: list[Act]) -> None:
    if storage_moved.counts(state, fact.task, fact.storage, True, now, acts):
        unconfirmed_files.of(state, fact.task).salvaging = False
        output_offsets.settle_drained(state, state.tasks[fact.task], now)


def salvaging(state: NodeState, fact: Salvaging, now: float, acts: list[Act]) -> None:
    task = state.tasks.get(fact.task)
    if task is not None:
        unconfirmed_files.of(state, fact.task).saved_bytes = (fact.done, fact.total)
        if task.phase == OVER and task.saves:
            change(state, task.key, False, now)


def stepped(state: NodeState, fact: Stepped, now: float, acts: list[Act]) -> None:
    if fact.task in state.tasks:
        unconfirmed_files.stepped(state, fact.task, fact.step, fact.printed_as, fact.by_itself)


def wrote(state: NodeState, fact: Wrote, now: float, acts: list[Act]) -> None:
    if fact.task in state.tasks:
        unconfirmed_files.wrote(state, fact.task)


def dumped(state: NodeState, fact: Dumped, now: float, acts: list[Act]) -> None:
    if fact.task in state.tasks and storage_moved.is_here(fact.storage, state.storage):
        unconfirmed_files.dumped(state, fact)
