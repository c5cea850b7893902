"""Who waits at which node's door; a part of the leader's memory.

Memory only: a visit is between two living processes, and a server that forgets it costs a second try.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headway.control.state.working_copy import WorkingCopy
from headway.core.model import NodeId
from headway_wire.reply import VisitCall

ASKED_S_MAX = 30.0  # How long a visitor waits at the door.
SAY_AGAIN_S = 2.0  # A node that was told and does not come is told again.


@dataclass
class Ring:
    """Somebody at the door: what the node is told, until when, and when it was last told."""

    told: VisitCall
    until: float
    said_at: float = float("-inf")


@dataclass
class PendingVisits:
    """Who waits at which node's door."""

    rings: dict[NodeId, dict[str, Ring]] = field(default_factory=dict)

    @classmethod
    def of(cls, book: WorkingCopy) -> PendingVisits:
        found: PendingVisits = book.memories["visits"]
        return found

    def ring(self, node: NodeId, told: VisitCall, now: float) -> None:
        self.rings.setdefault(node, {})[told.id] = Ring(told, now + ASKED_S_MAX)

    def answered(self, visit: str) -> None:
        """The node has come, or nobody waits any more."""
        for node, waiting in list(self.rings.items()):
            waiting.pop(visit, None)
            if not waiting:
                del self.rings[node]

    def tell(self, node: NodeId, now: float) -> tuple[VisitCall, ...]:
        """What this node is to hear now; noted as said."""
        if not self.rings:
            return ()
        for visit, ring in list(self.rings.get(node, {}).items()):
            if now > ring.until:
                self.answered(visit)
        due = [ring for ring in self.rings.get(node, {}).values() if now - ring.said_at >= SAY_AGAIN_S]
        for ring in due:
            ring.said_at = now
        return tuple(ring.told for ring in due)
