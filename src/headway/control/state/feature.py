"""What the spine asks of a feature. Everything has a default that does nothing: a feature overrides what it needs.

A feature is one folder under headway/features and one line in the list there. The leader's thread calls these methods,
inside the one transaction; nothing here may block. Routes, pages and SDK calls are in the feature's other files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway.core.model import Job, JobId, NodeId
from headway.core.spec.job import JobSpec
from headway.store.protocol import LogRange, Store
from headway.store.tables import NO_TABLES, Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from headway.control.state.transaction import Command, Transaction
    from headway.control.state.working_copy import WorkingCopy


class LeaderPart:
    """Something that works beside a leader for as long as it leads: a thread, as a rule."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def heard(self, output: Sequence[LogRange]) -> None:
        """Output of ranks was indexed, of any stream. Called after every commit that did so: it only takes note."""


@dataclass(frozen=True)
class Beat:
    """One look at the clock: what a feature may see when it says what is due."""

    book: WorkingCopy
    now: float
    new_id: Callable[[], JobId] | None  # For jobs that a feature submits; where there is none, it submits none.


@dataclass(frozen=True)
class LeaderOffice:
    """What a feature may use that works beside the leader."""

    store: Store
    storage: Any
    control: Any  # Has `do`, for commands.
    settings: Any
    parts: Mapping[str, Any]  # What features' routes share, by feature.


class Feature:
    """One feature, as the spine sees it."""

    name = ""
    layout: Layout = NO_TABLES
    events: Mapping[str, str] = {}  # The kinds of events that it writes, each with what it says.
    words: frozenset[str] = frozenset()  # What agents' syncs may carry for it, at their top.

    def memory(self, store: Store, older: Any) -> Any:
        """What the leader remembers of it beyond its held tables; made at each start, and again after a doubt."""
        return older

    def check(self, spec: JobSpec, tx: Transaction) -> None:
        """Refuse a description that it cannot serve. Asked before a job is made, or changed."""

    def take_up(self, job: Job, tx: Transaction) -> None:
        """A new job is about to be added: note what it uses, or refuse it. Asked of all before any is added."""

    def saw(self, before: Job | None, after: Job, tx: Transaction) -> None:
        """A job is made (no `before`), or has changed. What it writes hangs on this change."""

    def leave_project(self, project: str, tx: Transaction) -> None:
        """A project is removed: refuse it where something of it goes on, or let go of what was its."""

    def tick(self, beat: Beat) -> Iterable[Command]:
        """What time alone has made due."""
        return ()

    def hear(self, node: NodeId, said: Mapping[str, Any], tx: Transaction) -> None:
        """An agent has said something in this feature's words."""

    def tell(self, node: NodeId, book: WorkingCopy, now: float) -> Mapping[str, Any]:
        """What an agent is to hear now, in this feature's words. Said once; whoever says it again may."""
        return {}

    def lead(self, office: LeaderOffice) -> Sequence[LeaderPart]:
        """What works for it while this server leads."""
        return ()

    def sweep(self, office: LeaderOffice) -> None:
        """Delete from storage what nobody needs of it any more. Called now and then, on the thread of upkeep."""

    def web(self) -> Any:
        """Its routes, as an api.web.feature_routes.FeatureRoutes; loaded when a server is put together."""
        return None


def overriding(features: Iterable[Feature], method: str) -> tuple[Feature, ...]:
    """Those that have something of their own to say: the others cost nothing."""
    return tuple(each for each in features if getattr(type(each), method) is not getattr(Feature, method))


class Features:
    """All features of a server, and who of them is asked what."""

    def __init__(self, every: Sequence[Feature] = ()) -> None:
        names = [each.name for each in every]
        tables = [table.name for each in every for table in each.layout.tables]
        words = [word for each in every for word in each.words]
        for what, found in (("name", names), ("table", tables), ("word", words)):
            if twice := {name for name in found if found.count(name) > 1}:
                raise ValueError(f"two features have the same {what}: {', '.join(sorted(twice))}")
        self.every = tuple(every)
        self.who_check = overriding(every, "check")
        self.who_take_up = overriding(every, "take_up")
        self.who_saw = overriding(every, "saw")
        self.who_tick = overriding(every, "tick")
        self.who_hear = overriding(every, "hear")
        self.who_tell = overriding(every, "tell")

    def told(self, node: NodeId, book: WorkingCopy, now: float) -> dict[str, Any]:
        """What an agent is to hear of all features; those that have nothing to say are not heard."""
        said: dict[str, Any] = {}
        for feature in self.who_tell:
            said.update(feature.tell(node, book, now))
        return said

    def heard_in(self, said: Mapping[str, Any]) -> bool:
        """Whether a reply says something new in features' words: then it is not held back."""
        return any(said.get(word) for feature in self.who_tell for word in feature.words)

    @property
    def events(self) -> dict[str, str]:
        """All kinds of events that features write, each with what it says."""
        return {kind: says for feature in self.every for kind, says in feature.events.items()}

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return tuple(each.layout for each in self.every if each.layout.tables)


NONE = Features()
