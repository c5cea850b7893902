"""Simulated object storage: it keeps which bytes of whose output lie where, and fails for a while when told to.

It may move: everything is copied to another place, and the old one goes on taking what is put there, for nobody.
Output is never made byte by byte: a piece is its name and its range, which is all that the oracle compares.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headway_wire.sync import LOGGED, LOGS

STREAMS = (LOGS[0], LOGGED)  # What each rank writes: its log, and points.
Piece = tuple[str, int, str, int, int]  # Task, rank, stream, first byte, end.


class StorageBroken(Exception):
    """Nothing was written."""


@dataclass
class SimStorage:
    objects: dict[str, dict[int, Piece]] = field(default_factory=dict)  # Key -> offset in the object -> piece.
    broken: bool = False
    turn: int = 1
    left: dict[str, dict[str, dict[int, Piece]]] = field(default_factory=dict)  # By mark: the places of before.

    @property
    def mark(self) -> str:
        return f"sim.{self.turn}"

    def put(self, key: str, pieces: dict[int, Piece], mark: str) -> None:
        """Put an object into the place that somebody believes to be this storage."""
        if self.broken:
            raise StorageBroken
        objects = self.objects if mark == self.mark else self.left[mark]
        assert key not in objects, f"{key} was written twice"
        objects[key] = pieces

    def move(self) -> None:
        self.left[self.mark] = self.objects
        self.objects = dict(self.objects)
        self.turn += 1
