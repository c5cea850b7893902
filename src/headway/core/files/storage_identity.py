"""Which storage place the objects of a database are in, and whether what a node tells of lies there.

A place is known by an object at its root, made once and copied with the rest. Each place that a database has had is a
turn; nodes are told its mark. What they told of under another mark is not taken: it lies elsewhere, if at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headway.core.errors import OperatorError
from headway_wire.storage_marks import mark_of


class Identity(NamedTuple):
    """Who a place says it is. Where everything was copied elsewhere, the id is the same and the copy another."""

    id: str
    copy: str


@dataclass(frozen=True, slots=True)
class Place:
    """One place in which the objects are, or were. Turns count from 1; turn 0 is one that could not be asked yet."""

    turn: int
    id: str
    copy: str
    at: str  # As an operator knows it: a path or a URL.
    since: float = 0.0

    @property
    def mark(self) -> str:
        """What nodes call it: see headway_wire/storage_marks.py."""
        return mark_of(self.id, self.turn)


class StrangePlace(OperatorError):
    """storage_url does not lead to where the objects of this database are."""


def recognise(places: Sequence[Place], found: Identity | None, at: str, now: float, accept: bool = False) -> Place:
    """The place that a server works with: the newest of those that are known, or the next turn. Raises StrangePlace.

    `found` is None where the place says nothing of itself. With `accept` anything is taken for the objects' new home.
    """
    known = places[-1] if places else None
    if known is None or accept:
        problem = ""
    elif found is None or found.id != known.id:
        problem = f'it has the id "{found.id}"' if found else "it has no id"
    else:
        left = [each for each in places[:-1] if each.copy == found.copy != known.copy]
        problem = "they were moved away from there" if left else ""
    if problem and known is not None:
        raise StrangePlace(
            f"storage_url leads to {at}, which is not where the objects of this database are: "
            f'{problem}, and they are in "{known.id}" at {known.at}',
            'set storage_url back; or copy all objects there, with the one named "storage-id"; or, where objects may '
            "be missing, start once with: headway server start --accept-storage",
        )
    if found is None:
        raise ValueError("a place that is taken has an identity")
    if known is not None and (known.id, known.copy, known.at) == (found.id, found.copy, at):
        return known
    return Place(known.turn + 1 if known else 1, found.id, found.copy, at, now)


def recognise_silent(places: Sequence[Place], at: str, now: float, fresh: str, why: str) -> Place:
    """The same where storage does not answer: what it was when it was last asked, if it is called the same."""
    known = places[-1] if places else None
    if known is None:
        return Place(0, fresh, "", at, now)  # Nobody else has this id: what is told under it is good for this start.
    if known.at != at:
        raise StrangePlace(
            f"storage_url leads to {at}, which cannot be asked whether the objects of this database are there: {why}",
            f"see that it can be reached, or set storage_url back to {known.at}",
        )
    return known
