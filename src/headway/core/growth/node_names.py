"""Which nodes a pool can name, and whether two pools can name the same one.

A node's id is its pool's name and something behind it, so a host `2-1` of pool `lab` is called as the first node of
pool `lab-2`. Whoever has the same id would get the other's token, tasks and end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from headway.core.errors import BadInput
from headway.core.model import NodeId, Pool
from headway.core.spec.engine import Engines, rules_of
from headway.core.spec.hosts import node_of

ORDER = "[0-9a-f]{10}"


def check_node_names(pool: Pool, others: Iterable[Pool], engines: Engines) -> None:
    """Refuse a pool one of whose nodes would be called like one of another pool."""
    for other in others:
        shared = _shared(pool, other, engines) if other.name != pool.name else ""
        if shared:
            raise BadInput(
                f'pools "{pool.name}" and "{other.name}" would both call a node "{shared}"',
                "call one of them otherwise",
            )


def _shared(one: Pool, other: Pool, engines: Engines) -> NodeId:
    """A node that both can name; empty when there is none."""
    for first, second in ((one, other), (other, one)):
        numbered = not first.hosts and not rules_of(first, engines).ordered
        ordered = rules_of(second, engines).ordered
        for node in _hosts(first):
            if node in _hosts(second) or (not second.hosts and re.fullmatch(_pattern(second, ordered), node)):
                return node
        if numbered and ordered and re.fullmatch(f"{re.escape(second.name)}-{ORDER}", first.name):
            return f"{first.name}-1"
    return ""


def _hosts(pool: Pool) -> list[NodeId]:
    return [node_of(pool.name, host) for host in (*pool.hosts, *pool.former_hosts)]


def _pattern(pool: Pool, ordered: bool) -> str:
    """All that a pool without hosts calls its nodes, now or when it has more of them."""
    return rf"{re.escape(pool.name)}-" + (rf"{ORDER}-\d+(-r\d+)?" if ordered else r"\d+")
