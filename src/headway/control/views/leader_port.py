"""What whoever answers requests may ask of the leader: commands, calls of agents, a look, and what it has published.

Where this server leads, its control thread stands behind it; where it follows, nobody, and all of it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from headway.control.state.working_copy import WorkingCopy
from headway.control.views.measures import Measures
from headway.control.views.snapshot import Snapshot
from headway.core.model import JobId, NodeId
from headway_wire.sync import SyncRequest

Found = TypeVar("Found")


class Asked(Protocol):
    """A command: done on the leader's thread, inside a transaction, and saved with its neighbours."""

    def apply(self, tx: Any) -> Any: ...


class SessionSeen(Protocol):
    """What is shown of a node's session."""

    heard_at: float
    silent: bool


class LeaderMemory(Protocol):
    """What a view may look at, on the thread that owns it."""

    book: WorkingCopy

    def session(self, node: NodeId, mono: float) -> SessionSeen: ...


class LeaderPort(Protocol):
    leads: bool
    measures: Measures

    @property
    def alive(self) -> bool: ...

    @property
    def snapshot(self) -> Snapshot:
        """What is saved. It never changes; the next one takes its place."""
        ...

    def do(self, command: Asked) -> Future[Any]:
        """Have a command done and saved."""
        ...

    def sync(self, request: SyncRequest) -> Future[Any]:
        """An agent's call; its reply."""
        ...

    def look(self, view: Callable[[LeaderMemory], Found]) -> Future[Found]:
        """What a view finds in the leader's memory, between two turns. For what a snapshot does not hold."""
        ...

    def run(self, work: Callable[[Any], None], failed: Callable[[BaseException], None] | None = None) -> None:
        """Run something on the leader's thread, between two turns."""
        ...

    def follow_log(self, job: JobId, for_s: float) -> None:
        """Have the nodes of a job ship its output at once for so long."""
        ...

    def let_all_go(self) -> None:
        """The server is ending: no agent's call is held any longer."""
        ...
