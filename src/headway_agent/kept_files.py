"""What the facts about kept files make of a node's tasks: checkpoints, artifacts, dumps, steps. Pure."""

from __future__ import annotations

from headway_agent import draining, moving, progress
from headway_agent.nodestate import OVER
from headway_agent.telling import change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway_agent.happenings import (
        Act,
        ArtifactStored,
        CheckpointStored,
        Dumped,
        Salvaged,
        Salvaging,
        Stepped,
        Wrote,
    )
    from headway_agent.nodestate import State


def checkpoint_stored(state: State, fact: CheckpointStored, now: float, acts: list[Act]) -> None:
    if moving.counts(state, fact.task, fact.storage, True, now, acts):
        progress.checkpoint_stored(state, fact)


def artifact_stored(state: State, fact: ArtifactStored, now: float, acts: list[Act]) -> None:
    if moving.counts(state, fact.task, fact.storage, False, now, acts):
        progress.artifact_stored(state, fact)


def salvaged(state: State, fact: Salvaged, now: float, acts: list[Act]) -> None:
    if moving.counts(state, fact.task, fact.storage, True, now, acts):
        progress.of(state, fact.task).salvaging = False
        draining.settle_drained(state, state.tasks[fact.task], now)


def salvaging(state: State, fact: Salvaging, now: float, acts: list[Act]) -> None:
    task = state.tasks.get(fact.task)
    if task is not None:
        progress.of(state, fact.task).saved_bytes = (fact.done, fact.total)
        if task.phase == OVER and task.saves:
            change(state, task.key, False, now)


def stepped(state: State, fact: Stepped, now: float, acts: list[Act]) -> None:
    if fact.task in state.tasks:
        progress.stepped(state, fact.task, fact.step, fact.printed_as)


def wrote(state: State, fact: Wrote, now: float, acts: list[Act]) -> None:
    if fact.task in state.tasks:
        progress.wrote(state, fact.task)


def dumped(state: State, fact: Dumped, now: float, acts: list[Act]) -> None:
    if fact.task in state.tasks and moving.is_here(fact.storage, state.storage):
        progress.dumped(state, fact)
