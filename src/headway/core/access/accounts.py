"""What is known of users, projects, tokens and of what they did. Plain data, and the rules for names. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from headway.core.access.actor import ROLES
from headway.core.errors import BadInput

NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,62}")
RESERVED = frozenset({"local", "house", "server", "admin", "root", "headway"})
EXPIRES_S_MAX = 10 * 366 * 86400.0


@dataclass(frozen=True, slots=True)
class User:
    name: str
    email: str = ""
    subject: str = ""  # Who an identity provider says it is: issuer and subject.
    admin: bool = False  # Of the whole server.
    created_by: str = ""
    created_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Project:
    name: str
    created_by: str = ""
    created_at: float = 0.0
    allowed: tuple[
        str, ...
    ] = ()  # Which references to secrets kept elsewhere it may have: see core/spec/secret_references.py.


@dataclass(frozen=True, slots=True)
class Membership:
    project: str
    user: str
    role: str


@dataclass(frozen=True, slots=True)
class Token:
    """All that is kept of a token: enough to know it again. A personal one acts as its user, a service one alone."""

    prefix: str
    hash: str
    kind: str = "personal"
    label: str = ""
    user: str = ""  # Whose it is; of a service token, who made it.
    project: str = ""
    role: str = ""
    created_at: float = 0.0
    expires_at: float | None = None
    revoked_at: float | None = None
    used_at: float | None = None

    def good(self, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change, or one refusal: who, when, what, to what, with which outcome."""

    at: float
    actor: str
    kind: str
    what: str
    target: str = ""
    project: str = ""
    outcome: str = "done"
    detail: str = ""
    token: str = ""
    seq: int = 0


@dataclass
class Accounts:
    """What a batch writes about accounts. The same name replaces; drops come after the rest."""

    users: list[User] = field(default_factory=list)
    dropped_users: list[str] = field(default_factory=list)  # With their memberships.
    projects: list[Project] = field(default_factory=list)
    dropped_projects: list[str] = field(default_factory=list)  # With their memberships.
    members: list[Membership] = field(default_factory=list)
    dropped_members: list[tuple[str, str]] = field(default_factory=list)  # Project and user.
    tokens: list[Token] = field(default_factory=list)


def check_name(raw: object, what: str) -> str:
    """The name of a user or project, or BadInput."""
    if not isinstance(raw, str) or not NAME.fullmatch(raw):
        raise BadInput(
            f'{what}: "{str(raw)[:80]}" is not a valid {what} name',
            "at most 63 of a-z, 0-9 and . _ @ + -, beginning with a letter or digit",
        )
    if what == "user" and raw in RESERVED:
        raise BadInput(f'user: the name "{raw}" is reserved', "take another one")
    return raw


def check_role(raw: object) -> str:
    if raw not in ROLES:
        raise BadInput(f'role: "{str(raw)[:40]}" is none', "one of " + ", ".join(ROLES))
    return str(raw)
