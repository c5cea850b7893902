"""Bugs to plant in the limits of arrays: like rules.py, of which they are a part. For tests."""

from __future__ import annotations

from collections.abc import Iterator

from headway.core.scheduling.plan import Trial
from headway.core.scheduling.view import View
from tests.sim.planted.rules import _put, plant


@plant("more of an array run at once than it says", arrays=1.0)
def _no_limit() -> Iterator[None]:
    with _put(Trial, "_within_array", lambda *_: True):
        yield


@plant("a retried element does not count with its array", arrays=1.0)
def _uncounted() -> Iterator[None]:
    counted = View._count

    def count(view: View, job: object, sign: int) -> None:
        counted(view, job, sign)  # type: ignore[arg-type]
        if getattr(job, "retry_of", None):
            view.of_array.pop(job.array_id, None)  # type: ignore[attr-defined]

    with _put(View, "_count", count):
        yield
