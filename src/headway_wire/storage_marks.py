"""The marks of storage places: a node names with each call the place in which all lies that the call tells of.

Which place a server works with, and what follows when it is another one, is in headway/core/files/storage_identity.py
and headway_agent/decide/storage_moved.py.
"""

from __future__ import annotations


def mark_of(place: str, turn: int) -> str:
    """What nodes call a place: another word for each turn, so for a copy of the same objects too."""
    return f"{place}.{turn}"


def is_here(told: str, here: str) -> bool:
    """Whether what was stored under this mark lies in the place of that one.

    An agent or a server of an older version names no mark. Then it means the first place, which was the only one.
    """
    return told == here or (not told and (not here or here.endswith(".1")))
