"""Metrics through the SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from headway.client.connection.http import ServerLink


class Metrics:
    def __init__(self, link: ServerLink) -> None:
        self._link = link

    def series(
        self,
        job: str,
        attempt: int | None = None,
        rank: int | None = None,
        name: str = "",
        every_source: bool = False,
        fresh_s: float = 0.0,
    ) -> list[dict[str, Any]]:
        """The series of a job: of each the last value, the least and the greatest, with their steps."""
        query = {"attempt": attempt, "rank": rank, "name": name or None, "fresh_s": fresh_s or None}
        return list(self.all(job, {**query, "every_source": True if every_source else None})["series"])

    def points(
        self,
        job: str,
        name: str,
        attempt: int | None = None,
        rank: int | None = None,
        source: str = "",
        points: int = 2_000,
    ) -> list[dict[str, Any]]:
        """The curves of one name, one for each attempt and rank: columns of steps, times and values."""
        query = {"name": name, "attempt": attempt, "rank": rank, "source": source or None, "points": points}
        curves = self._link.call("GET", f"{_path(job)}/points", query=query).json()["curves"]
        for curve in curves:
            curve["values"] = [float(value) for value in curve["values"]]
        return list(curves)

    def params(self, job: str) -> list[dict[str, Any]]:
        """The parameters that were found for a job: name, value, source, attempt."""
        return list(self.all(job, {})["params"])

    def all(self, job: str, query: Mapping[str, Any]) -> dict[str, Any]:
        """Series, parameters, and notes on what could not be taken, as the server says them."""
        said = dict(self._link.call("GET", _path(job), query=dict(query)).json())
        for row in said["series"]:
            for name in ("last", "min", "max"):
                row[name] = float(row[name]) if row[name] is not None else None
        return said


def _path(job: str) -> str:
    return f"/jobs/{quote(job, safe='')}/metrics"
