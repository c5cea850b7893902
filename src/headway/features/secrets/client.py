"""Secrets over the API: set, listed by name, removed, sealed anew. No call brings a value back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from headway.client.connection.http import ServerLink


class Secrets:
    def __init__(self, link: ServerLink) -> None:
        self._link = link

    def set(self, project: str, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self._link.call("PUT", _path(project, name), dict(body)).json()["secret"])

    def list(self, project: str = "") -> list[dict[str, Any]]:
        return list(self._link.call("GET", "/secrets", query={"project": project}).json()["secrets"])

    def remove(self, project: str, name: str) -> None:
        self._link.call("DELETE", _path(project, name))

    def rotate(self) -> dict[str, Any]:
        return dict(self._link.call("POST", "/secrets/rotate", {}).json())


def _path(project: str, name: str) -> str:
    return f"/projects/{quote(project, safe='')}/secrets/{quote(name, safe='')}"
