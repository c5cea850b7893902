"""Bugs to plant where several nodes save: like rules.py, of which they are a part. For tests alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from headway.control.nodes import duties
from headway.core.files import savers
from headway.core.files.checkpoints import Whole
from headway_agent.decide import decide as decisions
from headway_wire.claim import Resume
from headway_wire.kinds import replace
from tests.sim.planted.rules import _put, plant


@plant("the first task alone is counted although others save shares", node_dies_per_hour=60.0)
def _first_alone() -> Iterator[None]:
    with _put(Whole, "needed", property(lambda whole: frozenset({0}))):
        yield


@plant("silence is taken for having written nothing", long_cut_per_hour=60.0, keeper_dies_per_hour=120.0)
def _silence() -> Iterator[None]:
    with _put(savers, "_is_idle", lambda *_: True):
        yield


@plant("who was killed before it could save is taken for one that does not", slow=0.3, keeper_dies_per_hour=240.0)
def _cut_off() -> Iterator[None]:
    telling = sys.modules[decisions.sync_body.__module__]
    with _put(telling, "were_cut_off", lambda exits: False):
        yield


@plant("nobody is asked who saves")
def _never_known() -> Iterator[None]:
    with _put(savers, "settle", lambda *_: []):
        yield


@plant("a node is given the files of another as its own")
def _as_its_own() -> Iterator[None]:
    resume_of = duties.resume_of

    def resume(whole: Any, task: Any) -> Resume:
        return replace(resume_of(whole, task), own=True)

    with _put(duties, "resume_of", resume):
        yield


@plant("a node gets only its own files of what several have saved")
def _without_others() -> Iterator[None]:
    resume_of = duties.resume_of

    def resume(whole: Any, task: Any) -> Resume:
        return replace(resume_of(whole, task), others=())

    with _put(duties, "resume_of", resume):
        yield
