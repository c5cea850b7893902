"""What the spine asks of metrics: where they are kept, who reads them, and their routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.control.state.feature import Feature, LeaderOffice, LeaderPart
from headway.features.metrics.tables import CHUNKS, PARAMETERS, SERIES, STREAMS
from headway.store.tables import Layout


class MetricsFeature(Feature):
    name = "metrics"
    layout = Layout((SERIES, STREAMS, CHUNKS, PARAMETERS))

    def lead(self, office: LeaderOffice) -> Sequence[LeaderPart]:
        from headway.features.metrics.indexer import Indexer

        return (Indexer(office),)

    def web(self) -> Any:
        from headway.features.metrics.routes import ROUTES

        return ROUTES


FEATURE = MetricsFeature()
