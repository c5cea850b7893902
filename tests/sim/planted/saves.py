"""Bugs to plant in how it is known that a checkpoint is complete: one for each way, and one for each lost word of it.

As rules.py has them, which runs them; never used outside of tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headway.sim.node import file_news
from headway_agent.checkpoints import completeness, rounds
from tests.sim.planted.rules import _put, plant

DYING = {"keeper_dies_per_hour": 400.0}


@plant("a close that came with the death of its writer is taken for a finish", **DYING)
def _any_close() -> Iterator[None]:
    def caught(known: Any, each: Any, *more: Any) -> None:
        what = rounds.Closed(each.signature, each.at_s, "closed", True, each.source, each.source_signature)
        completeness.closed(known, each.path, what)

    with _put(file_news, "caught", caught):
        yield


@plant("a cut file is called whole", **DYING)
def _cut_is_whole() -> Iterator[None]:
    with _put(completeness, "CUT", "never"):
        yield


@plant("what is saved together is taken before its second file")
def _half_a_round() -> Iterator[None]:
    with _put(rounds, "_is_whole", lambda known, now: True):
        yield


@plant("saves are counted from one again after a resume", **DYING)
def _counts_anew() -> Iterator[None]:
    def restored(known: Any, *more: Any) -> None:
        old(known, *more)
        known.steps.last = 0

    old = completeness.restored
    with _put(completeness, "restored", restored):
        yield


@plant("hidden files are left out of a checkpoint")
def _no_hidden_files() -> Iterator[None]:
    def hidden(path: str) -> bool:
        return old(path) or path.rpartition("/")[2].startswith(".")

    old = completeness.is_half_written
    with _put(completeness, "is_half_written", hidden):
        yield


@plant("a file counts as settled when it stands still for a moment")
def _settled_at_once() -> Iterator[None]:
    with _put(completeness, "SETTLE_S", 1.0):
        yield


@plant("what was declared is taken though it is being written anew", agent_dies_per_hour=400.0)
def _declared_before() -> Iterator[None]:
    def declared(known: Any, path: str, step: int, metrics: Any, newest_ns: int | None = None) -> None:
        old(known, path, step, metrics)

    old = completeness.declared
    with _put(completeness, "declared", declared):
        yield


@plant("a marker is not waited for")
def _no_marker() -> Iterator[None]:
    def all_marked(known: Any, tree: Any) -> None:
        known.finished.update((path, (signature, completeness.MARKER)) for path, signature in tree.items())

    with _put(completeness, "_find_markers", all_marked):
        yield


@plant("what was closed while the agent was dead is never looked into", agent_dies_per_hour=400.0, **DYING)
def _never_examined() -> Iterator[None]:
    with _put(file_news, "examine", lambda *_: None):
        yield
