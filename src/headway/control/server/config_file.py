"""What the server's file says of queues, pools and licences, put into the store at each start.

What the file named at the last start and names no longer goes: a pool leaves, a queue is dropped once nothing is in it.
Which names those are stands beside the file's home, not in the store: another server may have another file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog

from headway.core.errors import HeadwayError
from headway.core.model import ENDS, Pool, Queue, State
from headway.core.spec.pool import LEAVING, taking_over
from headway.store.protocol import Batch, JobFilter, Setup, Store
from headway.whole_files import write_whole

log = structlog.get_logger()
UNFINISHED = frozenset(state.value for state in State if state not in ENDS)


@dataclass(frozen=True, slots=True)
class Given:
    """What settings and file say, read and checked."""

    queues: tuple[Queue, ...] = ()
    pools: tuple[Pool, ...] = ()
    licences: Mapping[str, int] = field(default_factory=dict)
    pools_named: frozenset[str] = frozenset()  # Also those that are another server's, and left alone.


def set_up(store: Store, given: Given, epoch: int, remembered: Path) -> None:
    """Let the store have what is given, and let go what was given last time. What commands have set stays."""
    before = _read(remembered)
    known = {pool.name: pool for pool in store.pools()}
    nodes = {node.id for node in store.nodes() if node.gone_at is None}
    pools = [taking_over(known.get(pool.name), pool, nodes) for pool in given.pools]
    setup = Setup(
        queues=[queue for queue in given.queues if queue not in store.queues()],
        pools=[pool for pool in pools if pool != known.get(pool.name)],
    )
    if given.licences or before["licences"]:
        gone = set(before["licences"]) - set(given.licences)
        kept = {name: count for name, count in store.licences().items() if name not in gone}
        if {**kept, **given.licences} != store.licences():
            setup.licences = {**kept, **given.licences}
    names = {pool.name for pool in given.pools}
    named = names | given.pools_named
    setup.pools += [
        replace(pool, state=LEAVING, nodes_min=0, nodes_max=0)
        for pool in store.pools()
        if pool.name in before["pools"] and pool.name not in named and pool.state != LEAVING
    ]
    left = _no_longer(store, before["queues"], {queue.name for queue in given.queues})
    setup.dropped_queues = [name for name in left if not store.page(JobFilter(UNFINISHED, queue=name), None, 1)]
    busy = [name for name in left if name not in setup.dropped_queues]
    for name in busy:
        log.warning("a queue that the file no longer names still has jobs, and stays", queue=name)
    if setup != Setup():
        store.commit(Batch(setup=setup), epoch)
    _write(
        remembered,
        queues=[*(queue.name for queue in given.queues), *busy],
        pools=names,
        licences=given.licences,
    )


def let_go(store: Store, pools: Iterable[Pool], epoch: int, because: HeadwayError) -> None:
    """Let pools leave that may no longer be, whoever has set them."""
    leaving = [replace(pool, state=LEAVING, nodes_min=0, nodes_max=0) for pool in pools if pool.state != LEAVING]
    for pool in leaving:
        log.warning("pool is let go", pool=pool.name, because=because.message, hint=because.hint)
    if leaving:
        store.commit(Batch(setup=Setup(pools=leaving)), epoch)


def _no_longer(store: Store, before: Iterable[str], now: Iterable[str]) -> list[str]:
    known = {queue.name for queue in store.queues()}
    return sorted((set(before) - set(now)) & known)


def _read(path: Path) -> dict[str, list[str]]:
    """The names of last time. Where nobody knows them any more, nothing goes."""
    try:
        said: Any = json.loads(path.read_text())
    except (OSError, ValueError):
        said = {}
    return {what: list(said.get(what, ())) for what in ("queues", "pools", "licences")}


def _write(path: Path, **names: Iterable[str]) -> None:
    write_whole(path, json.dumps({what: sorted(each) for what, each in names.items()}))
