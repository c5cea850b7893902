"""Nodes on the machine of another server: a server here can neither see nor start them. They call home all the same."""

from __future__ import annotations

from collections.abc import Sequence

from headway.core.errors import Unavailable
from headway.core.growth.grow import Order
from headway.core.model import NodeId
from headway.engines.protocol import Engine, Request, Sightings
from headway.settings import Home


def place_of(home: Home, hostname: str) -> str:
    """Where the nodes of this home are, in words that another server compares with its own."""
    return f"{hostname}:{home.nodes_dir}"


class ElsewhereEngine:
    def render(self, order: Order) -> Request:
        return Request(order, {})

    def order(self, request: Request) -> None:
        raise Unavailable("these nodes are on another machine", "they are started when the server there leads")

    def sightings(self) -> Sightings:
        return Sightings(complete=False)

    def release(self, nodes: Sequence[NodeId]) -> None:
        raise Unavailable("these nodes are on another machine", "they are released when the server there leads")


def _proves_conformance(engine: ElsewhereEngine) -> Engine:
    return engine
