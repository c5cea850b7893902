"""What the spine asks of Prometheus' figures: to be told of each job that ends, so that ends can be counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

from headway.control.state.feature import Feature
from headway.control.state.transaction import Transaction
from headway.core.model import Job
from headway.store.protocol import Store


class PrometheusFeature(Feature):
    name = "prometheus"

    def memory(self, store: Store, older: Any) -> Counter[tuple[str, str]]:
        """How many jobs ended, by state and cause; from zero where another server led before, as counters may."""
        return older if isinstance(older, Counter) else Counter()

    def saw(self, before: Job | None, after: Job, tx: Transaction) -> None:
        if after.state.ended and (before is None or not before.state.ended):
            ends, what = tx.book.memories[self.name], (after.state.value, str(after.cause or ""))
            ends[what] += 1
            tx.undo_with(lambda: ends.subtract({what: 1}))

    def web(self) -> Any:
        from headway.features.prometheus.routes import WEB

        return WEB


FEATURE = PrometheusFeature()
