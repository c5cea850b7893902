"""What `headway metrics` says beside its tables and curves."""

from __future__ import annotations

from headway.features.metrics.pages import thinned

WHERE = {"name": "loss", "attempt": 1, "rank": 0, "source": "log"}


def test_a_table_that_lacks_points_says_so() -> None:
    rows = [{**WHERE, "count": 3}]
    assert thinned([{**WHERE, "values": [1.0, 2.0]}], rows) == ["loss: 2 of 3 points, with every spike among them"]


def test_a_whole_one_says_nothing() -> None:
    assert thinned([{**WHERE, "values": [1.0, 2.0, 3.0]}], [{**WHERE, "count": 3}]) == []
