"""What a simulated agent hears of files, and how it takes that in: into the real
headway_agent/checkpoints/completeness.py.

It mirrors what headway_agent/files/uploader.py does with news, line for line; the kernel that tells it is files.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway_agent.checkpoints import completeness, rounds
from headway_agent.checkpoints.completeness import CLOSED as BY_CLOSE
from headway_agent.checkpoints.completeness import WHOLE
from headway_agent.checkpoints.rounds import Closed

if TYPE_CHECKING:
    from headway_agent.checkpoints.completeness import Inspector, Knowledge, Signature, Tree

# MADE: a directory. FOUND: a file that lay in one before it could be watched; perhaps its close was missed.
MOVED, WRITTEN, CLOSED, APPEARED, FOUND, MADE = "moved", "written", "closed", "appeared", "found", "made"
MISSED = "missed"


@dataclass(frozen=True)
class SimSeen:
    task: str
    what: str
    path: str = ""


@dataclass(frozen=True)
class SimCaught:
    """A file that was closed after writing, and that nobody has open for writing."""

    task: str
    path: str
    signature: Signature
    at_s: float
    verdict: str
    source: str = ""
    source_signature: Signature = (0, 0, 0)
    doubtful: bool = False  # A process of its task ended about then: perhaps in the middle of writing it.
    alive: bool = False  # All of them were alive after it: none has closed it by its death.


def is_as_closed(signature: Signature, now: Signature, copy: Signature) -> bool:
    """Whether a file is still as it was closed, and its copy, if there is one, holds as much."""
    return now == signature and copy[0] in (signature[0], 0)


def saw(known: Knowledge, seen: SimSeen, now: float) -> None:
    if seen.what == MOVED:
        completeness.renamed(known, seen.path)
    elif seen.what in (WRITTEN, APPEARED, FOUND):
        completeness.touched(known, seen.path, now)
    elif seen.what == CLOSED:
        completeness.closed_in_vain(known, seen.path, now)


def caught(known: Knowledge, each: SimCaught, inside: tuple[str, int] | None) -> None:
    if each.verdict == completeness.CUT or each.doubtful:
        completeness.closed_in_vain(known, each.path, each.at_s)
        return
    whole, copy = each.verdict == WHOLE, (each.source, each.source_signature)
    what = Closed(each.signature, each.at_s, BY_CLOSE, whole, *copy, {}, inside, each.alive)
    completeness.closed(known, each.path, what)


def examine(known: Knowledge, tree: Tree, now: float, ended: bool, inspector: Inspector, written: set[str]) -> None:
    """Look into files whose closing nobody may have heard: the agent was dead, or the kernel lost count."""
    for path, signature in sorted(tree.items(), key=lambda each: each[1][1]):
        if completeness.is_known(known, path, signature):
            continue
        verdict, over = inspector.format(path), ended or path not in written
        if verdict == WHOLE and over:
            completeness.closed(known, path, Closed(signature, now, BY_CLOSE, whole=True))
        elif ended:
            completeness.left_open(known, path, now)
        elif verdict == completeness.CUT and over and path in known.kept:
            completeness.closed_in_vain(known, path, now)


def taken_up(known: Knowledge, kept: Mapping[str, Any], tree: Tree) -> None:
    """An agent finds what one before it, or a restore, has noted of this tree."""
    completeness.restored(known, tree, int(kept["step"]), str(kept["how"]))
    known.habits = set(kept["habits"])
    known.rounds.usual = Counter(kept["usual"])
    rounds.starts_after(known.rounds, dict.fromkeys(tree))
    known.steps.unit = str(kept["unit"])
    if kept["report"] is not None:
        known.steps.own = int(kept["step"])
