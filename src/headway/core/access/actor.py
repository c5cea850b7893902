"""Who asks, and what that lets them do: roles in projects, and the rights that each role brings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

ROLES = ("viewer", "member", "admin")
"""Each may do what those before it may."""

NO_ROLES: Mapping[str, str] = MappingProxyType({})


class Right(StrEnum):
    """What a call needs. One of these stands beside every route in api/web/rights.py."""

    OPEN = "open"  # Nothing: not even a token.
    KNOWN = "known"  # Any user or service; what the answer shows is up to their projects.
    VIEW = "view"  # At least viewer in the project of what is asked for.
    CHANGE = "change"  # At least member there.
    MANAGE = "manage"  # Admin there.
    SERVE = "serve"  # Server admin.
    AGENT = "agent"  # The agent of a node, for that node alone.


NEEDED_ROLE = {Right.VIEW: "viewer", Right.CHANGE: "member", Right.MANAGE: "admin"}


@dataclass(frozen=True, slots=True)
class Actor:
    """Whoever makes a call: `house` (the private token of a home), `user`, `service`, `agent` or `newcomer`.

    A newcomer is an ordered node that asks for its token.
    """

    kind: str
    name: str
    admin: bool = False  # Of the whole server.
    roles: Mapping[str, str] = field(default_factory=lambda: NO_ROLES)  # By project.
    node: str = ""  # Of an agent: the only node that it may speak for.
    token: str = ""  # The prefix of the token that was shown, for the audit log.

    @property
    def projects(self) -> frozenset[str] | None:
        """The projects that this actor may see; None means all."""
        return None if self.admin else frozenset(self.roles)

    @property
    def belongs(self) -> bool:
        """Whether anything of the house is theirs to know: who is in no project hears of no node, pool or queue."""
        return self.admin or bool(self.roles)

    def sees(self, project: str) -> bool:
        return self.admin or project in self.roles

    def may(self, right: Right, project: str = "") -> bool:
        """Whether this actor has a right, where it depends on one: in this project."""
        if right is Right.OPEN:
            return True
        if self.kind in ("agent", "newcomer"):
            return right is Right.AGENT
        if self.admin:
            return True
        if right is Right.KNOWN:
            return True
        needed, held = NEEDED_ROLE.get(right), self.roles.get(project)
        return needed is not None and held is not None and ROLES.index(held) >= ROLES.index(needed)

    def might(self, right: Right) -> bool:
        """Whether there could be a project in which this actor has a right: what is known before the project is."""
        return self.may(right) or any(self.may(right, project) for project in self.roles)


HOUSE = Actor("house", "local", admin=True)
"""Whoever can read the private token of a home: its owner. Needs no account."""
