"""Bugs to plant where tasks begin without a `go` of their own: like rules.py, of which they are a part. For tests."""

from __future__ import annotations

from collections.abc import Iterator

from headway.control.leader import overdue
from headway.core.job import lifecycle
from headway.core.job.signals import ClaimOverdue
from tests.sim.planted.rules import _put, plant


@plant("the place of a job that its node was told of is given away before the node has answered", slow=0.3)
def _given_away() -> Iterator[None]:
    with _put(lifecycle, "begins_alone", lambda job: False):
        yield


@plant("a claim of which a silent node was told is given to another", slow=0.3, late=0.3, long_cut_per_hour=60.0)
def _silence_is_refusal() -> Iterator[None]:
    with (
        _put(overdue, "_heard_at", lambda *_: float("inf")),
        _put(overdue, "ClaimOverdue", lambda attempt: ClaimOverdue(attempt, told=False)),
    ):
        yield
