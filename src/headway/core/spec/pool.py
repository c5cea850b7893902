"""What an operator may say about a pool: its words, checked; and back.

The engine's own words travel as `options` and are checked by the engine. Queues are read in queue.py.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from headway.core.errors import BadInput
from headway.core.fields import check_keys, kind_of, one_of, whole
from headway.core.model import BESIDE_OPTIONS, NodeId, Pool, Resources
from headway.core.spec.engine import Engines
from headway.core.spec.hosts import node_of, read_hosts
from headway.core.spec.queue import ENTRIES_MAX, check_name
from headway.core.spec.scheduling import LABEL
from headway.core.units import duration_s, size_bytes

NODES_MOST = 10_000
OPTIONS_BYTES_MAX = 64 << 10
OPEN, DRAINING, LEAVING = "open", "draining", "leaving"
KEYS = {
    "engine": "how its nodes are got: the name of an engine",
    "hosts": "the machines that it consists of, one each: host, user@host or user@host:port",
    "nodes": "how many nodes it has; the same as min and max",
    "min": "how many nodes it always has",
    "max": "how many nodes it may have",
    "kind": "on-demand or spot",
    "price": "what one node costs in an hour",
    "lease": "how long its nodes go on without contact",
    "idle": "after how long without work a node is given back",
    "cpus": "processors of one node",
    "memory": "memory of one node",
    "gpus": "GPUs of one node",
    "gpu_type": "the type of its GPUs",
    "zone": "the zone in which its nodes are",
    "labels": "labels of its nodes",
    "options": "words for the engine",
    "state": "open; draining: nothing new is placed there",
}


def read_pool(name: str, raw: Mapping[str, Any], engines: Engines) -> Pool:
    """A checked pool, or BadInput naming field, value and a way out."""
    check_name(name, "pool")
    check_keys(raw, KEYS, f"pool {name}")
    engine = one_of(raw.get("engine", next(iter(engines), "")), "engine", tuple(engines))
    options = _options(raw.get("options"))
    if raw.get("hosts") is not None:
        options["hosts"] = read_hosts(raw["hosts"])
    least, most = _size(name, raw, len(options.get("hosts", ())))
    price = raw.get("price", 0.0)
    if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price <= 1e9:
        raise BadInput(f'price: "{str(price)[:80]}" is not a number from 0 on')
    gpu_type = _label(raw.get("gpu_type"), "gpu_type").lower()
    shape = _shape(raw)
    if gpu_type and shape is not None and not shape.gpus:
        raise BadInput(f'pool {name}: gpu_type "{gpu_type}" without GPUs', "add gpus, or leave gpu_type out")
    pool = Pool(
        name=name,
        engine=engine,
        nodes_min=least,
        nodes_max=most,
        kind=one_of(raw.get("kind", "on-demand"), "kind", ("on-demand", "spot")),
        price_per_hour=float(price),
        lease_s=_duration(raw.get("lease"), "lease", engines[engine].lease_s),
        idle_s=_duration(raw.get("idle"), "idle", 600.0),
        options=options,
        shape=shape,
        gpu_type=gpu_type,
        zone=_label(raw.get("zone"), "zone"),
        labels={key: str(value)[:200] for key, value in _pairs(raw.get("labels"), "labels")},
        state=one_of(raw.get("state", OPEN), "state", (OPEN, DRAINING)),
    )
    return engines[engine].read(pool)


def with_leases_of(known: Pool | None, pool: Pool) -> Pool:
    """The pool as it becomes, with the longest lease that nodes may hold from what it was.

    Saved with the pool: a server that starts in between counts that lease too, or a job could be begun elsewhere
    while its ranks still run on a node that is cut off.
    """
    held_s = max(known.lease_s, known.lease_held_s) if known else 0.0
    options = {key: value for key, value in pool.options.items() if key != "lease_held_s"}
    return replace(pool, options={**options, "lease_held_s": held_s} if held_s > pool.lease_s else options)


def taking_over(known: Pool | None, pool: Pool, nodes: Container[NodeId]) -> Pool:
    """The pool as it becomes, with what must not be forgotten of what it was: leases, and hosts with nodes of ours."""
    former = [
        host
        for host in ((*known.hosts, *known.former_hosts) if known else ())
        if host not in pool.hosts and node_of(pool.name, host) in nodes
    ]
    options = {**pool.options, "former_hosts": former} if former else pool.options
    return with_leases_of(known, replace(pool, options=options))


def show_pool(pool: Pool) -> dict[str, Any]:
    """The words of a pool. `state` may be one that nobody can set: leaving."""
    shown: dict[str, Any] = {
        "engine": pool.engine,
        "min": pool.nodes_min,
        "max": pool.nodes_max,
        "kind": pool.kind,
        "price": pool.price_per_hour,
        "lease": pool.lease_s,
        "idle": pool.idle_s,
        "cpus": pool.shape.cpus if pool.shape else None,
        "memory": pool.shape.memory_bytes if pool.shape else None,
        "gpus": pool.shape.gpus if pool.shape else None,
        "gpu_type": pool.gpu_type,
        "zone": pool.zone,
        "labels": dict(pool.labels),
        "hosts": list(pool.hosts) or None,
        "options": {key: value for key, value in pool.options.items() if key not in BESIDE_OPTIONS},
        "state": pool.state,
    }
    if pool.hosts:
        del shown["min"], shown["max"]  # As many as there are hosts.
    return {key: value for key, value in shown.items() if value not in ("", {}, None)}


def without_ways(words: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a pool without how its machines are reached and ordered, which is for admins of the server."""
    return {key: value for key, value in words.items() if key not in ("hosts", "options")}


def _size(name: str, raw: Mapping[str, Any], hosts: int) -> tuple[int, int]:
    """How many nodes there are at least and at most."""
    given = [word for word in ("nodes", "min", "max") if raw.get(word) is not None]
    if hosts and given:
        raise BadInput(f"pool {name}: hosts excludes {given[0]}", "a pool has as many nodes as hosts")
    if hosts:
        return hosts, hosts
    if "nodes" in given and len(given) > 1:
        raise BadInput(f"pool {name}: nodes excludes min and max", "give nodes, or min and max")
    least = whole(raw.get("min", raw.get("nodes", 1)), "min", 0, NODES_MOST)
    most = whole(raw.get("max", raw.get("nodes", max(1, least))), "max", 0, NODES_MOST)
    if most < least:
        raise BadInput(f"pool {name}: at most {most} nodes, but at least {least}", "raise max, or lower min")
    return least, most


def _options(raw: object) -> dict[str, Any]:
    """Plain data for the engine, which knows what it means."""
    options = dict(_pairs(raw, "options"))
    for reserved in BESIDE_OPTIONS:
        if reserved in options:
            word = "lease" if reserved == "lease_held_s" else "hosts"
            raise BadInput(f'options: "{reserved}" is not an option', f'write "{word}" beside "engine"')
    try:
        size = len(json.dumps(options, allow_nan=False))
    except (TypeError, ValueError):
        raise BadInput("options: not plain data (texts, numbers, lists, mappings)") from None
    if size > OPTIONS_BYTES_MAX:
        raise BadInput(f"options: {size:,} bytes, more than {OPTIONS_BYTES_MAX:,}")
    return options


def _shape(raw: Mapping[str, Any]) -> Resources | None:
    """What one node has. Left out wholly, it is what the first node says; left out in part, memory is not limited."""
    cpus, memory, gpus = raw.get("cpus"), raw.get("memory"), raw.get("gpus")
    if cpus is None and memory is None and gpus is None:
        return None
    if cpus is None:
        raise BadInput("cpus: a shape needs them", "add cpus, or leave memory and gpus out")
    if isinstance(cpus, bool) or not isinstance(cpus, int | float) or not 0 < cpus <= 100_000:
        raise BadInput(f'cpus: "{str(cpus)[:80]}" is not a number above 0')
    return Resources(
        float(cpus), size_bytes(0 if memory is None else memory, "memory"), whole(gpus or 0, "gpus", 0, 1024)
    )


def _duration(value: Any, what: str, default_s: float) -> float:
    if value is None:
        return default_s
    seconds = duration_s(value, what)
    if seconds <= 0:
        raise BadInput(f'{what}: "{value}" is not longer than nothing')
    return seconds


def _label(value: object, what: str) -> str:
    if value in (None, ""):
        return ""
    if not isinstance(value, str) or not LABEL.fullmatch(value):
        raise BadInput(f'{what}: "{str(value)[:80]}" is not a name')
    return value


def _pairs(raw: object, what: str) -> list[tuple[str, Any]]:
    if raw is None:
        return []
    if not isinstance(raw, Mapping) or len(raw) > ENTRIES_MAX:
        raise BadInput(f"{what}: expected names and values, found {kind_of(raw)}")
    for key in raw:
        if not isinstance(key, str) or not LABEL.fullmatch(key):
            raise BadInput(f'{what}: "{str(key)[:80]}" is not a name')
    return list(raw.items())
