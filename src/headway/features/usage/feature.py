"""What the spine asks of usage: what nodes are to look at, and what they saw. Memory only; see watched_nodes.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.control.state.feature import Feature
from headway.control.state.transaction import Transaction
from headway.control.state.working_copy import WorkingCopy
from headway.core.model import NodeId
from headway.features.usage.watched_nodes import WatchedNodes
from headway.store.protocol import Store


class UsageFeature(Feature):
    name = "usage"
    words = frozenset({"usage"})

    def memory(self, store: Store, older: Any) -> WatchedNodes:
        return older or WatchedNodes()

    def hear(self, node: NodeId, said: Mapping[str, Any], tx: Transaction) -> None:
        WatchedNodes.of(tx.book).hear(node, said["usage"], tx.now)

    def tell(self, node: NodeId, book: WorkingCopy, now: float) -> Mapping[str, Any]:
        for_s = WatchedNodes.of(book).tell(node, now)
        return {} if for_s is None else {"usage": {"for_s": for_s}}

    def web(self) -> Any:
        from headway.features.usage.routes import WEB

        return WEB


FEATURE = UsageFeature()
