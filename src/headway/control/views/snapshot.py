"""What the leader's thread lets the rest of the server see, after each commit: snapshots that never change.

Whoever answers requests reads these and nothing else of the leader's memory: never half of a change, nor one that was
not saved in the end. A new one shares all that is the same with the one before (state/frozen_map.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headway.control.state.frozen_map import FrozenMap
from headway.control.state.working_copy import TaskRef, WorkingCopy
from headway.core.files.checkpoints import Checkpoint
from headway.core.growth.node_orders import NodeOrder
from headway.core.model import Job, JobId, Node, NodeId, Pool, State
from headway.core.records import replace
from headway.core.spec.engine import Engines, rules_of
from headway.store.protocol import LogRange
from headway.store.tables import Key, R, Table

Troubles = Mapping[str, str]


@dataclass
class Published:
    """What a cycle has to tell the rest of the server, after the commit."""

    last_seq: int
    logs: tuple[LogRange, ...] = ()
    loose_keys: tuple[str, ...] = ()  # Storage objects that may be nobody's now.
    jobs: tuple[JobId, ...] = ()  # Jobs that changed.
    dropped: tuple[Checkpoint, ...] = ()  # Checkpoints that retention let go.


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is saved and not over, as it was at one moment."""

    epoch: int = 0
    storage_mark: str = ""
    engines: Engines = field(default_factory=dict)
    jobs: FrozenMap[JobId, Job] = field(default_factory=FrozenMap)  # Those that have not ended.
    nodes: FrozenMap[NodeId, Node] = field(default_factory=FrozenMap)
    tasks: FrozenMap[NodeId, Mapping[str, TaskRef]] = field(
        default_factory=FrozenMap
    )  # That hold a place on a node, by wire key.
    pools: Mapping[str, Pool] = field(default_factory=dict)
    licences: Mapping[str, int] = field(default_factory=dict)
    orders: Mapping[str, NodeOrder] = field(default_factory=dict)
    tables: Mapping[str, Mapping[Key, Any]] = field(default_factory=dict)  # Of features.
    troubles: Troubles = field(default_factory=dict)  # As of the last look at the clock.
    node_troubles: Mapping[NodeId, Troubles] = field(default_factory=dict)  # As they were last told.

    def active(self, job: JobId) -> Job | None:
        """A job that starts, runs or stops."""
        held = self.jobs.get(job)
        return held if held is not None and held.state is not State.QUEUED else None

    def jobs_on(self, node: NodeId) -> dict[JobId, Job]:
        """The jobs with a task that holds a place on this node."""
        ids = {job for job, _ in self.tasks.get(node, {}).values()}
        return {id: job for id in ids if (job := self.jobs.get(id)) is not None}

    def is_ordered(self, pool: Pool) -> bool:
        return rules_of(pool, self.engines).ordered

    def held(self, table: Table[R]) -> Mapping[Key, R]:
        """All rows of a feature's table that the leader holds."""
        return self.tables.get(table.name, {})


class NodeSession(Protocol):
    """What is read here of a node's session."""

    @property
    def troubles(self) -> Mapping[str, str]: ...


def first_snapshot(book: WorkingCopy, epoch: int, storage_mark: str) -> Snapshot:
    """All of a working copy that was just read."""
    snapshot = Snapshot(
        epoch=epoch,
        storage_mark=storage_mark,
        engines=book.house.engines,
        jobs=FrozenMap(book.jobs),
        nodes=FrozenMap(book.nodes),
        tasks=FrozenMap({node: dict(tasks) for node, tasks in book.on_node.items() if tasks}),
    )
    book.changed_jobs.clear()
    book.changed_nodes.clear()
    return _with_rules(snapshot, book)


def next_snapshot(before: Snapshot, book: WorkingCopy) -> Snapshot:
    """The same, with what has changed in the working copy since. All of that must be saved."""
    if book.changed_jobs or book.changed_nodes:
        jobs, nodes = book.changed_jobs, book.changed_nodes
        before = replace(
            before,
            jobs=before.jobs.but({id: book.jobs.get(id) for id in jobs}),
            nodes=before.nodes.but({id: book.nodes.get(id) for id in nodes}),
            tasks=before.tasks.but({id: dict(book.on_node.get(id, ())) or None for id in nodes}),
        )
        jobs.clear()
        nodes.clear()
    return _with_rules(before, book)


def with_troubles(before: Snapshot, troubles: Troubles, sessions: Mapping[NodeId, NodeSession]) -> Snapshot:
    """The same, with what troubles server and nodes now. Others may write into these mappings: they are copied."""
    of_server = dict(troubles)
    of_nodes = {node: dict(session.troubles) for node, session in sessions.items() if session.troubles}
    if of_server == before.troubles and of_nodes == before.node_troubles:
        return before
    return replace(before, troubles=of_server, node_troubles=of_nodes)


def _with_rules(before: Snapshot, book: WorkingCopy) -> Snapshot:
    """The same, with the rules of the house and the features' rows, whose mappings are replaced when they change."""
    house, tables = book.house, book.tables
    same_house = before.pools is house.pools and before.licences is house.licences and before.orders is house.orders
    if same_house and all(before.tables.get(name) is rows for name, rows in tables.items()):
        return before
    return replace(before, pools=house.pools, licences=house.licences, orders=house.orders, tables=dict(tables))
