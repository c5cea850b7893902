"""An engine that stands wholly outside the sources: ordered nodes that are directories, each with an agent.

`python -m tests.engines.toy` is a server that has it beside the engines of the table.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.core.errors import BadInput
from headway.core.growth.grow import Order
from headway.core.growth.node_orders import order_of
from headway.core.model import NodeId, Pool
from headway.engines.agents import agent_flags, spelled
from headway.engines.checks import check
from headway.engines.kinds import EngineKind, Surroundings
from headway.engines.local import alive
from headway.engines.options import check_options, text
from headway.engines.protocol import Engine, Request, Sight, Sighting, Sightings
from headway.engines.table import KINDS
from headway.settings import home_from, load
from headway.wiring import serve

OPTIONS = {"hutch": "the directory in which the nodes are made", "closed": "yes: orders are taken and not filled"}


class ToyEngine:
    def __init__(self, pool: Pool, around: Surroundings) -> None:
        self._pool, self._around = pool, around
        self._hutch = Path(pool.options["hutch"])

    def render(self, order: Order) -> Request:
        return Request(order, {"nodes": {node: self._argv(node) for node in order.nodes}})

    def order(self, request: Request) -> None:
        for node, argv in request.text["nodes"].items():
            try:
                (self._hutch / node).mkdir(parents=True)
            except FileExistsError:
                continue  # Somebody is or was at it.
            if self._pool.options.get("closed") == "yes":
                continue
            (self._hutch / node / "agent.pyz").write_bytes(self._around.agent.data)
            (self._hutch / node / "token").write_text(self._around.token_for(node))
            nothing = subprocess.DEVNULL
            subprocess.run(["sh", "-c", 'setsid "$@" &', "sh", *argv], check=True, stdin=nothing, stderr=nothing)

    def sightings(self) -> Sightings:
        found = sorted(path.name for path in self._hutch.glob(f"{self._pool.name}-*-*"))
        return Sightings({node: self._sighting(node) for node in found})

    def release(self, nodes: Sequence[NodeId]) -> None:
        orders = {order_of(node) for node in nodes}
        for place in sorted(self._hutch.glob("*")):
            if order_of(place.name) in orders:
                if (place / "agent.pyz").exists():
                    words = [sys.executable, "-I", "-S", str(place / "agent.pyz"), "release", "--node-dir", str(place)]
                    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, capture_output=True)
                shutil.rmtree(place)

    def examine(self) -> list[dict[str, Any]]:
        return [{"platform": "toy", "checks": [check(f"hutch of pool {self._pool.name}", "ok", "clean and dry")]}]

    def _sighting(self, node: NodeId) -> Sighting:
        if alive(self._hutch / node / "agent.pid"):
            return Sighting(Sight.UP)
        return Sighting(Sight.WAITING, "the hutch is closed")

    def _argv(self, node: NodeId) -> list[str]:
        place, shape, settings = self._hutch / node, self._pool.shape, self._around.settings
        assert shape is not None
        flags: dict[str, object] = {
            "--node-dir": place,
            "--server-file": self._around.home.server_file,
            "--token-file": place / "token",
        }
        flags |= agent_flags(node, self._pool.name, settings, shape.cpus, shape.memory_bytes, shape.gpus)
        return [sys.executable, "-I", "-S", str(place / "agent.pyz"), "agent", *spelled(flags)]


def read(pool: Pool) -> Pool:
    given = check_options(pool, OPTIONS)
    if not text(given, "hutch") or pool.shape is None:
        raise BadInput(f"pool {pool.name}: a toy pool needs a hutch and a shape")
    return pool


def make(pool: Pool, around: Surroundings) -> Engine:
    return ToyEngine(pool, around)


KIND = EngineKind(
    name="toy",
    says="directories",
    options=OPTIONS,
    read=read,
    make=make,
    ordered=True,
    proves_death=True,
    lease_s=300.0,
)

if __name__ == "__main__":
    serve(load(os.environ), home_from(os.environ), kinds=(*KINDS, KIND))
