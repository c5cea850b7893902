"""What the spine asks of visits: whom a node is to let in. Memory only; see doors.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.control.state.feature import Feature
from headway.control.state.working_copy import WorkingCopy
from headway.core.model import NodeId
from headway.features.visits.doors import PendingVisits
from headway.store.protocol import Store


class VisitsFeature(Feature):
    name = "visits"
    words = frozenset({"visits"})
    events = {"JobVisited": "somebody asked for a command, a shell or a port where the job runs"}

    def memory(self, store: Store, older: Any) -> PendingVisits:
        return older or PendingVisits()

    def tell(self, node: NodeId, book: WorkingCopy, now: float) -> Mapping[str, Any]:
        visits = PendingVisits.of(book).tell(node, now)
        return {"visits": [each.show() for each in visits]} if visits else {}

    def web(self) -> Any:
        from headway.features.visits.routes import ROUTES

        return ROUTES


FEATURE = VisitsFeature()
