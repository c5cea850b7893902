"""What every engine can do: get machines, see them, give them back. It never runs jobs; the agent does.

Four blocking methods; the performer gives each a thread and a time limit. An engine keeps no memory: it finds
everything again by the id that it put on it. Any call may be lost, repeated or answered late. What can be said of an
engine without having one is in kinds.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from headway.core.growth.grow import Order
from headway.core.model import NodeId


@dataclass(frozen=True, slots=True)
class Request:
    """Exactly what would be sent for an order: shown by a dry run, kept in golden files."""

    order: Order
    text: Mapping[str, Any]


class Sight(StrEnum):
    """What an engine sees of one node."""

    WAITING = "waiting"  # Ordered, not there yet; `why` says what the platform says.
    UP = "up"  # The machine is there and its agent was started.
    AGENTLESS = "agentless"  # The machine is there, its agent is not: order it again.
    GONE = "gone"  # Proven gone: nothing of it can run any more.
    RESTARTED = "restarted"  # Proven to have been started anew: nothing runs there, but its disk is as it was.
    SILENT = "silent"  # The machine did not answer: nothing is known of it. `why` says how it failed.
    GONE_CLAIMED = "gone_claimed"  # The platform says so, but processes may have survived.


@dataclass(frozen=True, slots=True)
class Sighting:
    sight: Sight
    why: str = ""
    left_s: float | None = None  # How long the platform leaves it to us, where there is a limit.


@dataclass(frozen=True, slots=True)
class Sightings:
    """All of ours, in one call. A node that is not in it was not there (when `complete`)."""

    nodes: Mapping[NodeId, Sighting] = field(default_factory=dict)
    complete: bool = True
    silent: tuple[str, ...] = ()  # Parts of the platform that did not answer; they prove nothing.


@runtime_checkable
class Examinable(Protocol):
    """An engine whose hosts, or whose platform, can be asked how they are, for `doctor`."""

    def examine(self) -> list[dict[str, Any]]:
        """For each host or platform what it answers, and `checks`: what `doctor` says of that (see checks.py)."""
        ...


class Engine(Protocol):
    def render(self, order: Order) -> Request: ...

    def order(self, request: Request) -> None:
        """Ask for the order's nodes, all or none. Twice is once. A node whose agent is missing gets one."""
        ...

    def sightings(self) -> Sightings: ...

    def release(self, nodes: Sequence[NodeId]) -> None:
        """Afterwards nothing of these nodes is left or billed. Unknown nodes are already released."""
        ...
