"""Accounts through the SDK: who one is, users, projects, tokens, the audit log; reached as `Client().accounts`."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from headway.client.connection.http import ServerLink


class AccountCalls:
    def __init__(self, link: ServerLink) -> None:
        self.link = link

    def whoami(self) -> dict[str, Any]:
        return dict(self._ask("GET", "/whoami"))

    def users(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "/users")["users"])

    def add_user(self, name: str, email: str = "", admin: bool = False) -> dict[str, Any]:
        return dict(self._ask("POST", "/users", {"name": name, "email": email, "admin": admin}, once=True)["user"])

    def set_user(self, name: str, **changes: Any) -> dict[str, Any]:
        return dict(self._ask("PATCH", f"/users/{_word(name)}", changes)["user"])

    def drop_user(self, name: str) -> None:
        self._ask("DELETE", f"/users/{_word(name)}", once=True)

    def projects(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "/projects")["projects"])

    def add_project(self, name: str) -> None:
        self._ask("PUT", f"/projects/{_word(name)}", once=True)

    def drop_project(self, name: str) -> None:
        self._ask("DELETE", f"/projects/{_word(name)}", once=True)

    def allow_references(self, project: str, references: list[str]) -> dict[str, Any]:
        """Let a project have these references to secrets kept elsewhere, and no others."""
        return dict(self._ask("PUT", f"/projects/{_word(project)}/references", {"references": references})["project"])

    def members(self, project: str) -> list[dict[str, Any]]:
        return list(self._ask("GET", f"/projects/{_word(project)}/members")["members"])

    def set_member(self, project: str, user: str, role: str | None) -> None:
        """Give a user a role in a project; None takes them out of it."""
        path = f"/projects/{_word(project)}/members/{_word(user)}"
        if role is None:
            self._ask("DELETE", path, once=True)
        else:
            self._ask("PUT", path, {"role": role})

    def tokens(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "/tokens")["tokens"])

    def add_token(self, **words: Any) -> dict[str, Any]:
        """A new token; its text is in `token`, and is never shown again."""
        return dict(self._ask("POST", "/tokens", words, once=True))

    def revoke(self, prefix: str) -> None:
        self._ask("DELETE", f"/tokens/{_word(prefix)}")

    def audit(self, since: float = 0.0, actor: str = "", limit: int = 1000) -> list[dict[str, Any]]:
        query = {"since": since, "actor": actor, "limit": limit}
        return list(self.link.call("GET", "/audit", query=query).json()["entries"])

    def _ask(self, method: str, path: str, body: Any = None, once: bool = False) -> Any:
        return self.link.call(method, path, body, once=once).json()


def _word(text: str) -> str:
    return quote(text, safe="")
