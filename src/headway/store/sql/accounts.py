"""Accounts in SQL: users, projects, tokens, the audit log, and keys that all servers share.

They change seldom, so their statements are compiled when they are used; only the audit log grows with use.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple
from typing import Any

import sqlalchemy as sa

from headway.core.access.accounts import Accounts, AuditEntry, Membership, Project, Token, User
from headway.store.sql import rows, schema
from headway.store.sql.databases import Database
from headway.store.sql.rows import Row
from headway.store.sql.statements import Statements

AUDIT = ("seq", "at", "actor", "kind", "token", "what", "target", "project", "outcome", "detail")


def write_accounts(connection: sa.Connection, sql: Statements, accounts: Accounts) -> None:
    """Write what the batch says, drops after the rest."""
    users = [(u.name, rows.plain(u.email), u.subject, int(u.admin), u.created_by, u.created_at) for u in accounts.users]
    for table, many in (
        (schema.users, users),
        (schema.projects, [(p.name, p.created_by, p.created_at, "\n".join(p.allowed)) for p in accounts.projects]),
        (schema.memberships, list(map(astuple, accounts.members))),
        (schema.tokens, list(map(astuple, accounts.tokens))),
    ):
        if many:
            connection.exec_driver_sql(sql.upsert(table), many)
    members = schema.memberships.c
    for name in accounts.dropped_users:
        connection.execute(schema.users.delete().where(schema.users.c.name == name))
        connection.execute(schema.memberships.delete().where(members.user == name))
    for name in accounts.dropped_projects:
        connection.execute(schema.projects.delete().where(schema.projects.c.name == name))
        connection.execute(schema.memberships.delete().where(members.project == name))
    for project, user in accounts.dropped_members:
        connection.execute(schema.memberships.delete().where(members.project == project, members.user == user))


def write_audit(connection: sa.Connection, sql: Statements, entries: Sequence[AuditEntry]) -> None:
    """Add entries. The caller holds the lock that every writer takes, so their numbers have no gaps."""
    if not entries:
        return
    last = connection.execute(sa.select(sa.func.max(schema.audit.c.seq))).scalar() or 0
    connection.exec_driver_sql(
        sql.insert(schema.audit, AUDIT), [_audit_row(each, last + 1 + at) for at, each in enumerate(entries)]
    )


def _audit_row(entry: AuditEntry, seq: int) -> Row:
    said = (entry.actor, entry.kind, entry.token, entry.what, entry.target, entry.project, entry.outcome, entry.detail)
    return (seq, entry.at, *map(rows.plain, said))


class AccountTables:
    """For the store to inherit."""

    _sql: Statements
    _database: Database

    def _reading(self) -> AbstractContextManager[sa.Connection]:
        raise NotImplementedError

    def _writing(self) -> AbstractContextManager[sa.Connection]:
        raise NotImplementedError

    def user_accounts(self) -> list[User]:
        return [User(row[0], row[1], row[2], bool(row[3]), *row[4:]) for row in self._every(schema.users)]

    def projects(self) -> list[Project]:
        return [Project(row[0], row[1], row[2], tuple(row[3].splitlines())) for row in self._every(schema.projects)]

    def members(self, project: str = "", user: str = "") -> list[Membership]:
        table = schema.memberships
        wanted = [column == rows.plain(word) for column, word in ((table.c.project, project), (table.c.user, user))]
        where = [each for each, word in zip(wanted, (project, user), strict=True) if word]
        return [Membership(*row) for row in self._every(table, *where)]

    def tokens(self) -> list[Token]:
        return [Token(*row) for row in self._every(schema.tokens)]

    def token(self, prefix: str) -> Token | None:
        found = self._every(schema.tokens, schema.tokens.c.prefix == rows.plain(prefix))
        return Token(*found[0]) if found else None

    def note_use(self, prefix: str, at: float) -> None:
        with self._writing() as connection:
            table = schema.tokens
            connection.execute(table.update().where(table.c.prefix == prefix).values(used_at=at))

    def add_audit(self, entries: Sequence[AuditEntry]) -> None:
        with self._writing() as connection:
            connection.exec_driver_sql(self._sql.lock)
            write_audit(connection, self._sql, entries)

    def audit(self, since: float, actor: str, limit: int) -> list[AuditEntry]:
        table = schema.audit
        query = sa.select(table).where(table.c.at >= since).order_by(table.c.seq.desc()).limit(limit)
        if actor:
            query = query.where(table.c.actor == rows.plain(actor))
        with self._reading() as connection:
            found = connection.execute(query).mappings().fetchall()
        return [AuditEntry(**row) for row in reversed(found)]

    def shared_key(self, name: str, fresh: str) -> str:
        keys = schema.shared_keys
        with self._writing() as connection:
            connection.exec_driver_sql(self._sql.lock)
            connection.exec_driver_sql(self._sql.insert_new(keys), (name, fresh))
            return str(connection.execute(sa.select(keys.c.key).where(keys.c.name == name)).scalar_one())

    def shared_value(self, name: str) -> str:
        keys = schema.shared_keys
        with self._reading() as connection:
            return str(connection.execute(sa.select(keys.c.key).where(keys.c.name == name)).scalar() or "")

    def put_shared_value(self, name: str, value: str) -> None:
        keys = schema.shared_keys
        with self._writing() as connection:
            self._database.wipe_what_is_deleted(connection)
            connection.exec_driver_sql(self._sql.lock)
            connection.execute(keys.delete().where(keys.c.name == name))
            if value:
                connection.execute(keys.insert().values(name=name, key=value))
        self._database.wipe_deleted(keys.name)

    def _every(self, table: sa.Table, *where: Any) -> list[Any]:
        with self._reading() as connection:
            query = sa.select(table).where(*where).order_by(*table.primary_key.columns)
            return list(connection.execute(query).fetchall())
