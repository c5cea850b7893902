"""The leader's working copy: all jobs that have not ended, all nodes, and the scheduler's view of both.

It is rebuilt from the store at every start and holds nothing that could not be. Only the control thread touches it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.control.state.cluster_config import ClusterConfig, read_house
from headway.control.state.feature import NONE, Features
from headway.control.state.forecast_cache import Foresight
from headway.control.state.progress_index import ProgressIndex
from headway.core.model import Job, JobId, Node, NodeId, State
from headway.core.scheduling.scheduler import View
from headway.store.protocol import LogRange, Store, Stream
from headway.store.tables import Key, R, Table
from headway_wire.tasks import task_key

TaskRef = tuple[JobId, int]


@dataclass
class LogEnds:
    """Where the indexed output of running tasks ends: the store's answer, remembered while the task holds its place."""

    ends: dict[tuple[JobId, int, int], dict[tuple[int, str], int]] = field(default_factory=dict)

    def of(self, job: JobId, attempt: int, task: int, store: Store) -> dict[tuple[int, str], int]:
        known = self.ends.get((job, attempt, task))
        if known is None:
            known = self.ends[(job, attempt, task)] = store.log_ends(job, attempt, task)
        return known

    def follows(self, piece: LogRange, store: Store) -> bool:
        """Whether a piece begins where the indexed output ends; if so, the end moves on."""
        known = self.of(piece.job, piece.attempt, piece.task, store)
        if known.get((piece.rank, piece.stream), 0) != piece.start:
            return False
        known[(piece.rank, piece.stream)] = piece.end
        return True

    def set(self, stream: Stream, end: int) -> None:
        """What the store says after a commit: the last word."""
        job, attempt, task, rank, name = stream
        known = self.ends.get((job, attempt, task))
        if known is not None:
            known[(rank, name)] = end


@dataclass
class WorkingCopy:
    jobs: dict[JobId, Job] = field(default_factory=dict)
    nodes: dict[NodeId, Node] = field(default_factory=dict)
    view: View = field(default_factory=View)
    active: dict[JobId, Job] = field(default_factory=dict)  # Starting, running or stopping.
    on_node: dict[NodeId, dict[str, TaskRef]] = field(default_factory=dict)  # Tasks that hold a place, by wire key.
    log_ends: LogEnds = field(default_factory=LogEnds)
    overgrown: set[Stream] = field(default_factory=set)  # Outputs that have outgrown their limit and are to be trimmed.
    trail: ProgressIndex = field(default_factory=ProgressIndex)
    arrays: dict[str, dict[JobId, None]] = field(default_factory=dict)  # Unfinished elements, by array.
    house: ClusterConfig = field(default_factory=ClusterConfig)
    shut: dict[NodeId, str] = field(default_factory=dict)  # Nodes that are closed for a reason of their own: silent, …
    silent: dict[NodeId, tuple[float, float]] = field(default_factory=dict)  # Since when, and when it is given up.
    ordering: Any = None  # What is remembered of ordered pools; see nodes/orders.py.
    foresight: Foresight = field(default_factory=Foresight)
    secret: bytes = b""  # From which the keys of gangs are made.
    untold: set[JobId] = field(default_factory=set)  # Placed by this leader, and in no reply to a node yet.
    behind: dict[str, JobId] = field(default_factory=dict)  # By the key of a task: who takes its place.
    called_back: set[JobId] = field(default_factory=set)  # Their nodes are asked to give them back if not begun.
    touched: set[NodeId] = field(default_factory=set)  # Nodes whose duties may have changed since the last publishing.
    changed_jobs: set[JobId] = field(default_factory=set)  # Since the last snapshot; see views/snapshot.py.
    changed_nodes: set[NodeId] = field(default_factory=set)  # They, or what holds a place there.
    troubled: bool = False  # What nodes complain of has changed since it was last shown.
    features: Features = NONE
    tables: dict[str, Mapping[Key, Any]] = field(default_factory=dict)  # Held rows. Replaced, never changed.
    memories: dict[str, Any] = field(default_factory=dict)  # What features remember beside them, by feature.

    def held(self, table: Table[R]) -> Mapping[Key, R]:
        """All rows of a table that the leader holds. Other threads may read them."""
        return self.tables.get(table.name, {})

    def saw(self, before: Job | None, after: Job | None) -> None:
        """Take over one change of one job, in every index. None of them knows ended jobs: only their tags change."""
        if before is not None and after is not None and before.state.ended and after.state.ended:
            return
        self.view.saw(before, after)
        self.trail.saw(after, before)
        if self.untold and before is not None and (after is None or after.state is not State.STARTING):
            self.untold.discard(before.id)
        if before is not None:
            self._drop(before)
        if after is not None:
            self._add(after)
        if before is not None:
            for task in before.alive:
                if after is None or after.number != before.number or after.state.ended:
                    self.log_ends.ends.pop((before.id, before.number, task.index), None)

    def saw_node(self, node: Node, open_: bool = True, because: str = "") -> None:
        self.nodes[node.id] = node
        self.changed_nodes.add(node.id)
        if open_:
            self.shut.pop(node.id, None)
        else:
            self.shut[node.id] = because
        because = because or self.house.closed_because(node)
        if not because and self.ordering is not None and node.id in self.ordering.strangers:
            because = "no longer seen by its platform"
        self.view.saw_node(node, open_ and not because, because)

    def saw_again(self, node: Node) -> None:
        """A node, or the rules for it, changed; if it was closed for a reason of its own, it stays so."""
        self.saw_node(node, node.id not in self.shut, self.shut.get(node.id, ""))

    def lost_node(self, node: NodeId) -> None:
        self.silent.pop(node, None)
        self.nodes.pop(node, None)
        self.changed_nodes.add(node)
        self.shut.pop(node, None)
        self.view.lost_node(node)

    def jobs_on(self, node: NodeId) -> list[Job]:
        """Jobs with a task that holds a place on this node."""
        ids = dict.fromkeys(job for job, _ in self.on_node.get(node, {}).values())
        return [self.jobs[job] for job in ids]

    def _drop(self, job: Job) -> None:
        self.jobs.pop(job.id, None)
        self.changed_jobs.add(job.id)
        if job.array_id is not None and (elements := self.arrays.get(job.array_id)) is not None:
            elements.pop(job.id, None)
            if not elements:
                del self.arrays[job.array_id]
        self.active.pop(job.id, None)
        for task in job.alive:
            self.on_node.get(task.node, {}).pop(task_key(job.id, job.number, task.index), None)
            self.touched.add(task.node)
            self.changed_nodes.add(task.node)
        if job.lined and job.attempt is not None:
            self.behind.pop(job.attempt.tasks[0].behind, None)
            self.called_back.discard(job.id)

    def _add(self, job: Job) -> None:
        if job.state.ended:
            return
        self.jobs[job.id] = job
        self.changed_jobs.add(job.id)
        if job.array_id is not None:
            self.arrays.setdefault(job.array_id, {})[job.id] = None
        if job.state is not State.QUEUED:
            self.active[job.id] = job
        for task in job.alive:
            key = task_key(job.id, job.number, task.index)
            self.on_node.setdefault(task.node, {})[key] = (job.id, task.index)
            self.touched.add(task.node)
            self.changed_nodes.add(task.node)
        if job.lined and job.attempt is not None:
            self.behind[job.attempt.tasks[0].behind] = job.id


def book_of(
    jobs: Iterable[Job], nodes: Iterable[Node], house: ClusterConfig | None = None, view: View | None = None
) -> WorkingCopy:
    book = WorkingCopy(house=house or ClusterConfig(), view=view or View())
    for node in nodes:
        if node.gone_at is None:
            book.saw_node(node)
    for job in jobs:
        book.saw(None, job)
    return book


def read_book(
    store: Store,
    house: ClusterConfig | None = None,
    view: View | None = None,
    features: Features = NONE,
    older: WorkingCopy | None = None,
) -> WorkingCopy:
    """The working copy, as the store has it; of an older one, what features keep in memory alone."""
    book = book_of(store.unfinished(), store.nodes(), house or read_house(store), view)
    book.trail.store = store
    book.features = features
    memories = older.memories if older is not None else {}
    for feature in features.every:
        for table in feature.layout.tables:
            if table.held:
                book.tables[table.name] = {table.key_of(row): row for row in store.rows(table)}
        book.memories[feature.name] = feature.memory(store, memories.get(feature.name))
    return book
