"""Who may come in: users, projects, roles and tokens, as commands; and the actor that a token stands for.

Of a token only its hash is kept. Tokens of nodes and servers are signed instead, and kept nowhere:
core/access/tokens.py.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, replace

from headway.control.state.transaction import Transaction
from headway.core.access.accounts import Accounts, Membership, Project, Token, User, check_name, check_role
from headway.core.access.actor import Actor
from headway.core.access.tokens import hashed
from headway.core.errors import Conflict, NotFound
from headway.store.protocol import Store

PREFIX = "hw_"
PREFIX_BYTES, SECRET_BYTES = 5, 32
NOTED_EVERY_S = 60.0


def new_token() -> tuple[str, str, str]:
    """A fresh token: its text, which is shown once, its prefix, and the hash that is kept."""
    prefix = secrets.token_hex(PREFIX_BYTES)
    text = f"{PREFIX}{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
    return text, prefix, hashed(text)


def actor_for(store: Store, text: str, now: float) -> tuple[Actor, float] | None:
    """Who shows this token, and until when it is good; None when it is unknown, expired or revoked.

    Notes its use, at most once a minute.
    """
    prefix, found, _ = text.removeprefix(PREFIX).partition("_")
    if not text.startswith(PREFIX) or not found or len(text) > 200:
        return None
    token = store.token(prefix)
    if token is None or not hmac.compare_digest(token.hash, hashed(text)) or not token.good(now):
        return None
    actor = _actor(store, token)
    if actor is not None and (token.used_at is None or now - token.used_at >= NOTED_EVERY_S):
        store.note_use(prefix, now)
    until = token.expires_at if token.expires_at is not None else float("inf")
    return (actor, until) if actor is not None else None


def _actor(store: Store, token: Token) -> Actor | None:
    if token.kind == "service":
        known = any(project.name == token.project for project in store.projects())
        roles = {token.project: token.role} if known else {}
        return Actor("service", f"{token.project}/{token.label}", roles=roles, token=token.prefix)
    user = find_user(store, token.user)
    if user is None:
        return None
    roles = {each.project: each.role for each in store.members(user=user.name)}
    return Actor("user", user.name, user.admin, roles, token=token.prefix)


def find_user(store: Store, name: str) -> User | None:
    return next((user for user in store.user_accounts() if user.name == name), None)


def _user(tx: Transaction, name: str) -> User:
    found = find_user(tx.store, name)
    if found is None:
        raise NotFound(f'no user "{name[:80]}"', "headway user ls")
    return found


def _project(tx: Transaction, name: str) -> Project:
    found = next((each for each in tx.store.projects() if each.name == name), None)
    if found is None:
        raise NotFound(f'no project "{name[:80]}"', "headway project ls")
    return found


@dataclass(frozen=True, slots=True)
class AddUser:
    user: User

    def apply(self, tx: Transaction) -> User:
        user = replace(self.user, created_at=tx.now)
        check_name(user.name, "user")
        known = [*tx.store.user_accounts(), *tx.admit.users]
        if any(each.name == user.name for each in known):
            raise Conflict(f'the user "{user.name}" is there already', "headway user set changes one")
        if user.email and any(each.email == user.email for each in known):
            raise Conflict(f'"{user.email}" is the address of another user')
        tx.admit.users.append(user)
        return user


@dataclass(frozen=True, slots=True)
class SetUser:
    """Make a user an admin of the server, or no longer; or give them another address."""

    name: str
    admin: bool | None = None
    email: str | None = None
    subject: str | None = None

    def apply(self, tx: Transaction) -> User:
        user = _user(tx, self.name)
        given = {"admin": self.admin, "email": self.email, "subject": self.subject}
        words = {word: value for word, value in given.items() if value is not None}
        user = replace(user, **words)  # type: ignore[arg-type]
        tx.admit.users.append(user)
        return user


@dataclass(frozen=True, slots=True)
class DropUser:
    """Remove a user, with all memberships and tokens. Their jobs stay."""

    name: str

    def apply(self, tx: Transaction) -> None:
        _user(tx, self.name)
        tx.admit.dropped_users.append(self.name)
        mine = [each for each in tx.store.tokens() if each.kind == "personal" and each.user == self.name]
        revoke(tx.admit, mine, tx.now)


@dataclass(frozen=True, slots=True)
class AddProject:
    name: str
    by: str

    def apply(self, tx: Transaction) -> Project:
        project = Project(check_name(self.name, "project"), self.by, tx.now)
        if any(each.name == self.name for each in tx.store.projects()):
            raise Conflict(f'the project "{self.name}" is there already')
        tx.admit.projects.append(project)
        return project


@dataclass(frozen=True, slots=True)
class DropProject:
    """Remove a project in which nothing goes on, with its members and service tokens. Records of its jobs stay."""

    name: str

    def apply(self, tx: Transaction) -> None:
        _project(tx, self.name)
        if any(job.spec.project == self.name for job in tx.book.jobs.values()):
            hint = f"headway ps --project {self.name}"
            raise Conflict(f'the project "{self.name}" has jobs that have not ended', hint)
        for feature in tx.book.features.every:
            feature.leave_project(self.name, tx)
        tx.admit.dropped_projects.append(self.name)
        revoke(tx.admit, [each for each in tx.store.tokens() if each.project == self.name], tx.now)


@dataclass(frozen=True, slots=True)
class AllowReferences:
    """Say which references to secrets kept elsewhere a project may have: these, and no others."""

    project: str
    allowed: tuple[str, ...]

    def apply(self, tx: Transaction) -> Project:
        project = replace(_project(tx, self.project), allowed=self.allowed)
        tx.admit.projects.append(project)
        return project


@dataclass(frozen=True, slots=True)
class SetMember:
    """Give a user a role in a project, or, without one, take them out of it."""

    project: str
    user: str
    role: str | None

    def apply(self, tx: Transaction) -> None:
        _project(tx, self.project)
        _user(tx, self.user)
        if self.role is not None:
            tx.admit.members.append(Membership(self.project, self.user, check_role(self.role)))
        elif tx.store.members(self.project, self.user):
            tx.admit.dropped_members.append((self.project, self.user))
        else:
            raise NotFound(f'"{self.user}" is not in the project "{self.project}"')


@dataclass(frozen=True, slots=True)
class SaveToken:
    """A new token is good from now on."""

    token: Token
    ttl_s: float | None = None

    def apply(self, tx: Transaction) -> Token:
        token = self.token
        if token.kind == "service":
            _project(tx, token.project)
            check_role(token.role)
        else:
            named = [each.name for each in (*tx.store.user_accounts(), *tx.admit.users)]
            if token.user not in named:
                raise NotFound(f'no user "{token.user[:80]}"', "headway user ls")
        expires_at = None if self.ttl_s is None else tx.now + self.ttl_s
        token = replace(token, created_at=tx.now, expires_at=expires_at)
        tx.admit.tokens.append(token)
        return token


@dataclass(frozen=True, slots=True)
class RevokeToken:
    prefix: str

    def apply(self, tx: Transaction) -> Token:
        token = tx.store.token(self.prefix)
        if token is None:
            raise NotFound(f'no token "{self.prefix[:80]}"', "headway token ls")
        revoke(tx.admit, [token], tx.now)
        return token


def revoke(accounts: Accounts, tokens: list[Token], now: float) -> None:
    """Let tokens be good for nothing from now on. What was revoked stays so."""
    accounts.tokens.extend(replace(each, revoked_at=now) for each in tokens if each.revoked_at is None)
