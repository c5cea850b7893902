"""Accounts in memory: the part of store.py that knows who may come in, and what was done."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from headway.core.access.accounts import Accounts, AuditEntry, Membership, Project, Token, User


class MemoryAccounts:
    _lock: threading.RLock

    def __init__(self) -> None:
        self._shared_keys: dict[str, str] = {}
        self._users: dict[str, User] = {}
        self._projects: dict[str, Project] = {}
        self._members: dict[tuple[str, str], Membership] = {}
        self._tokens: dict[str, Token] = {}
        self._audit: list[AuditEntry] = []

    def _save_accounts(self, accounts: Accounts) -> None:
        self._users.update({each.name: each for each in accounts.users})
        self._projects.update({each.name: each for each in accounts.projects})
        self._members.update({(each.project, each.user): each for each in accounts.members})
        self._tokens.update({each.prefix: each for each in accounts.tokens})
        for name in accounts.dropped_users:
            self._users.pop(name, None)
        for name in accounts.dropped_projects:
            self._projects.pop(name, None)
        for member in list(self._members):
            project, user = member
            gone = project in accounts.dropped_projects or user in accounts.dropped_users
            if gone or member in accounts.dropped_members:
                del self._members[member]

    def add_audit(self, entries: Sequence[AuditEntry]) -> None:
        with self._lock:
            for entry in entries:
                self._audit.append(replace(entry, seq=len(self._audit) + 1))

    def audit(self, since: float, actor: str, limit: int) -> list[AuditEntry]:
        with self._lock:
            return [each for each in self._audit if each.at >= since and actor in ("", each.actor)][-limit:]

    def user_accounts(self) -> list[User]:
        with self._lock:
            return [self._users[name] for name in sorted(self._users)]

    def projects(self) -> list[Project]:
        with self._lock:
            return [self._projects[name] for name in sorted(self._projects)]

    def members(self, project: str = "", user: str = "") -> list[Membership]:
        with self._lock:
            found = [self._members[key] for key in sorted(self._members)]
        return [each for each in found if project in ("", each.project) and user in ("", each.user)]

    def tokens(self) -> list[Token]:
        with self._lock:
            return [self._tokens[prefix] for prefix in sorted(self._tokens)]

    def token(self, prefix: str) -> Token | None:
        with self._lock:
            return self._tokens.get(prefix)

    def note_use(self, prefix: str, at: float) -> None:
        with self._lock:
            if prefix in self._tokens:
                self._tokens[prefix] = replace(self._tokens[prefix], used_at=at)

    def shared_key(self, name: str, fresh: str) -> str:
        with self._lock:
            return self._shared_keys.setdefault(name, fresh)

    def shared_value(self, name: str) -> str:
        with self._lock:
            return self._shared_keys.get(name, "")

    def put_shared_value(self, name: str, value: str) -> None:
        with self._lock:
            self._shared_keys.pop(name, None)
            if value:
                self._shared_keys[name] = value
