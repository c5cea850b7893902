"""Simulated object storage: it keeps which bytes of whose output lie where, and fails for a while when told to.

Output is never made byte by byte: a piece is its name and its range, which is all that the oracle compares.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Piece = tuple[str, int, int, int]  # Task, rank, first byte, end.


class StorageBroken(Exception):
    """Nothing was written."""


@dataclass
class SimStorage:
    objects: dict[str, dict[int, Piece]] = field(default_factory=dict)  # Key -> offset in the object -> piece.
    broken: bool = False

    def put(self, key: str, pieces: dict[int, Piece]) -> None:
        if self.broken:
            raise StorageBroken
        assert key not in self.objects, f"{key} was written twice"
        self.objects[key] = pieces
