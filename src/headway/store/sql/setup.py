"""Queues, pools, licences and the account of use in SQL: how a group commit writes and others read them.

They change seldom, so their statements are compiled when they are used. The rest of a commit is in commit.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import sqlalchemy as sa

from headway.core.files.storage_identity import Place
from headway.core.growth.node_orders import NodeOrder
from headway.core.model import Pool, Queue, Resources
from headway.store.protocol import Setup, UseAccount
from headway.store.sql import rows, schema
from headway.store.sql.rows import Row
from headway.store.sql.statements import Statements


def write_setup(connection: sa.Connection, sql: Statements, setup: Setup) -> None:
    """Write what the batch says, drops after the rest: a name that is dropped is gone afterwards."""
    _put(connection, sql, schema.queues, [(each.name, rows.to_json(each)) for each in setup.queues])
    _put(connection, sql, schema.pools, [_pool_row(each) for each in setup.pools])
    _drop(connection, sql, schema.queues, setup.dropped_queues)
    _drop(connection, sql, schema.pools, setup.dropped_pools)
    _put(connection, sql, schema.orders, [_order_row(each) for each in setup.orders])
    _drop(connection, sql, schema.orders, setup.dropped_orders, "id")
    turns = [(each.turn, each.id, each.copy, rows.plain(each.at), each.since) for each in setup.places]
    _put(connection, sql, schema.storages, turns)
    if setup.licences is not None:
        connection.execute(schema.licences.delete())
        _put(connection, sql, schema.licences, list(setup.licences.items()))
    if setup.use is not None:
        connection.execute(schema.use_accounts.delete())
        used = [
            (rows.plain(each.queue), each.project, rows.plain(each.user), each.amount, each.at) for each in setup.use
        ]
        _put(connection, sql, schema.use_accounts, used)


def _put(connection: sa.Connection, sql: Statements, table: sa.Table, many: Sequence[Row]) -> None:
    if many:
        connection.exec_driver_sql(sql.upsert(table), [tuple(row) for row in many])


def _drop(connection: sa.Connection, sql: Statements, table: sa.Table, names: list[str], key: str = "name") -> None:
    if names:
        connection.exec_driver_sql(sql.delete(table, [key]), [(name,) for name in names])


def _pool_row(pool: Pool) -> Row:
    shape = pool.shape
    return (
        pool.name, pool.engine, pool.nodes_min, pool.nodes_max, pool.kind, pool.price_per_hour, pool.lease_s,
        pool.idle_s, rows.to_json(dict(pool.options)), 0, rows.to_json(shape) if shape else None, pool.gpu_type,
        pool.zone, rows.to_json(dict(pool.labels)), pool.state,
    )  # fmt: skip


def _read_pool(row: Row) -> Pool:
    (
        name, engine, nodes_min, nodes_max, kind, price, lease_s, idle_s, options, _, shape, gpu_type, zone, labels,
        state,
    ) = row  # fmt: skip
    return Pool(
        name, engine, nodes_min, nodes_max, kind, price, lease_s, idle_s, json.loads(options),
        Resources(**json.loads(shape)) if shape else None, gpu_type, zone, json.loads(labels), state,
    )  # fmt: skip


def _order_row(order: NodeOrder) -> Row:
    options = rows.to_json({"until": order.until})
    return (
        order.id, order.pool, "", order.state, order.nodes, "{}", options, "", order.asked_at, order.filled_at, None, 0,
    )  # fmt: skip


def _read_order(row: Row) -> NodeOrder:
    id_, pool, _, state, nodes, _, options, _, asked_at, filled_at, _, _ = row
    return NodeOrder(id_, pool, nodes, asked_at, state, filled_at, json.loads(options).get("until"))


class SetupReads:
    """The reading half, for the store to inherit."""

    def _reading(self) -> AbstractContextManager[sa.Connection]:
        raise NotImplementedError

    def queues(self) -> list[Queue]:
        return [rows.read_as(Queue, row[1]) for row in self._all(schema.queues)]

    def pools(self) -> list[Pool]:
        return [_read_pool(row) for row in self._all(schema.pools)]

    def licences(self) -> dict[str, int]:
        return dict(self._all(schema.licences))

    def use(self) -> list[UseAccount]:
        return [UseAccount(*row) for row in self._all(schema.use_accounts)]

    def orders(self) -> list[NodeOrder]:
        return [_read_order(row) for row in self._all(schema.orders)]

    def places(self) -> list[Place]:
        return [Place(*row) for row in self._all(schema.storages)]

    def _all(self, table: sa.Table) -> list[Any]:
        with self._reading() as connection:
            return list(connection.execute(sa.select(table).order_by(*table.primary_key.columns)))
