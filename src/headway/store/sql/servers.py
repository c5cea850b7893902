"""Servers in SQL: who leads, who else works on this database, and what an operator reads of them.

Whoever changes the lead holds the lock that every writer takes, so no commit of an older epoch comes after it.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager

import sqlalchemy as sa

from headway.core.job.events import Event
from headway.store.protocol import Glance, Lead, ServerSeen
from headway.store.sql import rows, schema
from headway.store.sql.databases import Database
from headway.store.sql.statements import Statements

SERVER = ("name", "address", "version", "host", "pid", "storage", "started_at", "seen_at")


class Servers:
    _database: Database
    _sql: Statements

    def _writing(self) -> AbstractContextManager[sa.Connection]:
        raise NotImplementedError

    def _reading(self) -> AbstractContextManager[sa.Connection]:
        raise NotImplementedError

    # --- leader ---
    def take_lead(self, server: str, address: str, now: float | None, lease_s: float) -> Lead | None:
        with self._writing() as connection:
            lead = self._lead(connection)
            now = self._database.now(connection) if now is None else now
            if lead.until > now and lead.server != server:
                return None
            lead = Lead(server, lead.epoch + 1, now + lease_s, address)
            self._set_lead(connection, lead)
        return lead

    def keep_lead(self, server: str, epoch: int, now: float | None, lease_s: float) -> bool:
        with self._writing() as connection:
            lead = self._lead(connection)
            if (lead.server, lead.epoch) != (server, epoch):
                return False
            now = self._database.now(connection) if now is None else now
            self._set_lead(connection, Lead(server, epoch, now + lease_s, lead.address))
        return True

    def drop_lead(self, server: str, epoch: int) -> None:
        with self._writing() as connection:
            lead = self._lead(connection)
            if (lead.server, lead.epoch) == (server, epoch):
                self._set_lead(connection, Lead("", epoch, 0.0))

    def lead(self) -> Lead | None:
        with self._reading() as connection:
            found = connection.execute(sa.select(schema.leader)).one()
        return Lead(found.server, found.epoch, found.until, found.address) if found.server else None

    def _lead(self, connection: sa.Connection) -> Lead:
        _, _, _, server, epoch, until, address, _ = connection.exec_driver_sql(self._sql.lock).one()
        return Lead(server, epoch, until, address)

    def _set_lead(self, connection: sa.Connection, lead: Lead) -> None:
        connection.exec_driver_sql(self._sql.lead, (lead.server, lead.epoch, lead.until, lead.address, 1))

    # --- servers ---
    def glance(self) -> Glance:
        with self._reading() as connection:
            last_seq, server, epoch, until, address = connection.exec_driver_sql(self._sql.glance).one()
            now = self._database.now(connection)
        return Glance(Lead(server, epoch, until, address) if server else None, last_seq, now)

    def saw_server(self, server: ServerSeen) -> None:
        with self._writing() as connection:
            seen = [getattr(server, name) for name in SERVER[:-1]]
            connection.exec_driver_sql(
                self._sql.upsert(schema.servers, SERVER), (*seen, self._database.now(connection))
            )

    def drop_server(self, name: str) -> None:
        with self._writing() as connection:
            connection.execute(schema.servers.delete().where(schema.servers.c.name == name))

    def servers(self) -> list[ServerSeen]:
        columns = [schema.servers.c[name] for name in SERVER]
        with self._reading() as connection:
            return [ServerSeen(*row) for row in connection.execute(sa.select(*columns).order_by(columns[0]))]

    def hold_deletions(self, for_s: float) -> None:
        with self._writing() as connection:
            until = self._database.now(connection) + for_s if for_s else 0.0
            connection.execute(schema.leader.update().values(extra=json.dumps({"deletions_held_until": until})))

    def deletions_held(self) -> bool:
        with self._reading() as connection:
            said = json.loads(connection.execute(sa.select(schema.leader.c.extra)).scalar_one())
            until = float(said.get("deletions_held_until", 0.0))
            return until > 0 and self._database.now(connection) < until

    def happenings(self, limit: int) -> list[Event]:
        events = schema.events
        query = sa.select(events).where(events.c.job_seq == 0, events.c.job == "")
        with self._reading() as connection:
            found = connection.execute(query.order_by(events.c.seq.desc()).limit(limit))
            return [rows.read_event(row) for row in found.fetchall()]
