"""Schedules through the SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from headway.client.connection.http import ServerLink


class Schedules:
    def __init__(self, link: ServerLink) -> None:
        self._link = link

    def list(self) -> list[dict[str, Any]]:
        """All schedules, with when each is due next."""
        return list(self._link.call("GET", "/schedules").json()["schedules"])

    def set(self, name: str, words: Mapping[str, Any]) -> dict[str, Any]:
        """Make a schedule, or put another in its place."""
        return dict(self._link.call("PUT", _path(name), dict(words)).json()["schedule"])

    def pause(self, name: str, paused: bool = True) -> dict[str, Any]:
        return dict(self._link.call("POST", f"{_path(name)}/pause", {"paused": paused}).json()["schedule"])

    def drop(self, name: str) -> None:
        """Remove a schedule. Its jobs keep running."""
        self._link.call("DELETE", _path(name))


def _path(name: str) -> str:
    return f"/schedules/{quote(name, safe='')}"
