"""Accounts in SQL: users, projects, tokens, the audit log, and keys that all servers share."""

from __future__ import annotations

from contextlib import AbstractContextManager

import sqlalchemy as sa

from headway.store import schema
from headway.store.statements import Statements


class AccountTables:
    """For the store to inherit."""

    _sql: Statements

    def _reading(self) -> AbstractContextManager[sa.Connection]:
        raise NotImplementedError

    def _writing(self) -> AbstractContextManager[sa.Connection]:
        raise NotImplementedError

    def shared_key(self, name: str, fresh: str) -> str:
        keys = schema.shared_keys
        with self._writing() as connection:
            connection.exec_driver_sql(self._sql.lock)
            connection.exec_driver_sql(self._sql.insert_new(keys), (name, fresh))
            return str(connection.execute(sa.select(keys.c.key).where(keys.c.name == name)).scalar_one())
