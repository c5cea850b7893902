"""One curve where several sources tell the same metric: which of them is shown. Touches nothing.

What a script logs on purpose is exact and complete, and goes first. What is found beside that is rounded (output), now
and then (posts), or late (reports): of these the finest is shown that has nearly all of the points.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headway.features.metrics.tables import Series

ON_PURPOSE = ("log", "mlflow", "regex", "tensorboard", "csv", "hypertune")
BESIDE = ("trainer_state", "huggingface", "stdout")
"""From the finest to the coarsest. A source that neither of them names comes between the two."""

NEARLY_ALL = 0.8

_VALIDATION = re.compile(r"(?:validation|valid|val|dev)(?=[\s/_.-])")
_BETWEEN = re.compile(r"[\s/_.:-]+")


def same_name(name: str) -> str:
    """The form in which names are compared: `train/loss`, `Loss` and `loss` are one, `val/loss` and `val_loss` too."""
    plain = name.strip().lower()
    if plain.startswith("train/") and len(plain) > len("train/"):
        plain = plain[len("train/") :]
    return _BETWEEN.sub("_", _VALIDATION.sub("val", plain, count=1))


def shown(rows: Sequence[Series]) -> list[Series]:
    """The rows that are shown, of all sources: in order of name, attempt and rank."""
    curves: dict[tuple[int, int, int, str], dict[str, list[Series]]] = {}
    for row in rows:
        sources = curves.setdefault((row.attempt, row.task, row.rank, same_name(row.name)), {})
        sources.setdefault(row.source, []).append(row)
    found = [row for sources in curves.values() for row in sources[_best(sources)]]
    return sorted(found, key=lambda row: (row.name, row.attempt, row.task, row.rank, row.source))


def _best(sources: dict[str, list[Series]]) -> str:
    counts = {source: max(row.count for row in rows) for source, rows in sources.items()}
    on_purpose = [source for source in sources if source not in BESIDE]
    if on_purpose:
        return min(on_purpose, key=_fineness)
    most = max(counts.values())
    return min((source for source in counts if counts[source] >= NEARLY_ALL * most), key=_fineness)


def _fineness(source: str) -> tuple[int, str]:
    order = (*ON_PURPOSE, "", *BESIDE)
    return (order.index(source) if source in order else len(ON_PURPOSE), source)
