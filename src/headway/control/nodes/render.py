"""What an engine would be asked for an order, shown without asking it; secrets are left out.

Engines put no token into what they render. What a machine's own settings hold (keys of clouds, passwords in addresses)
is nobody's to read either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headway.core.errors import BadInput
from headway.core.growth.grow import Order, standing_nodes
from headway.core.growth.node_orders import NodeOrder
from headway.core.model import Pool
from headway.engines.protocol import Engine

HIDDEN = "…"
SECRET_NAME = re.compile(r"KEY|SECRET|TOKEN|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
USER_IN_URL = re.compile(r"(\w://)[^/@\s]+@")


def example_order(pool: Pool, nodes: int, ordered: bool) -> Order:
    """An order like those that are made, with an id that none ever has by chance."""
    if not 1 <= nodes <= pool.nodes_max:
        raise BadInput(f'nodes: pool "{pool.name}" has at most {pool.nodes_max}, not {nodes}')
    if ordered:
        made = NodeOrder(f"{pool.name}-{'0' * 10}", pool.name, nodes, 0.0)
        return Order(made.id, pool.name, made.node_ids)
    names = standing_nodes(pool) if pool.hosts else tuple(f"{pool.name}-{each}" for each in range(1, nodes + 1))
    return Order(names[0], pool.name, names[:nodes])


def rendered(pool: Pool, engine: Engine, nodes: int, ordered: bool) -> dict[str, Any]:
    """Exactly what would be sent for an order of so many nodes, but for what is secret."""
    order = example_order(pool, nodes, ordered)
    request = engine.render(order)
    shown = {"pool": pool.name, "engine": pool.engine, "order": order.id, "nodes": list(order.nodes)}
    return {**shown, "request": _without_secrets(dict(request.text))}


def _without_secrets(said: Any, name: str = "") -> Any:
    if isinstance(said, Mapping):
        return {key: _without_secrets(value, f"{name}.{key}") for key, value in said.items()}
    if isinstance(said, list | tuple):
        return [_without_secrets(each) for each in said]
    if not isinstance(said, str):
        return said
    if ".env." in name and SECRET_NAME.search(name):
        return HIDDEN
    return USER_IN_URL.sub(rf"\1{HIDDEN}@", said)
