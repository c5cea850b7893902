"""What a feature, or a front door that speaks another system's API, brings to the web server.

Its routes with the right that each needs, who may serve them, and what it keeps beside them. The application loops over
these and names none.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.websockets import WebSocket

from headway.core.access.actor import Actor, Right
from headway.core.spec.job import JobSpec

if TYPE_CHECKING:
    from headway.api.web.services import Services

Rights = Mapping[tuple[str, str], Right]


@dataclass(frozen=True)
class StaticFiles:
    """Files that anybody may fetch, from any server: a page that asks for a token itself, its scripts and pictures."""

    path: str  # Where they are served: /ui
    folder: Path
    page: str = "index.html"  # What is shown for the path itself, and for addresses that only the page knows.


@dataclass(frozen=True)
class Socket:
    """A websocket that whoever has the right may open. It is served where it is opened: by any server."""

    path: str
    right: Right
    serve: Callable[[Any, WebSocket], Awaitable[None]]  # From services and the socket, which it accepts.


@dataclass(frozen=True)
class FeatureRoutes:
    """Routes in one place. A route without a right keeps the server from starting."""

    make: Callable[[Any], APIRouter]
    rights: Rights
    unrecorded: frozenset[tuple[str, str]] = frozenset()  # Changes that nobody could name: questions, and pieces.
    here: frozenset[str] = frozenset()  # GET routes that any server may answer, from store and storage alone.
    here_without_leader: frozenset[str] = frozenset()  # GET routes that any server may answer while nobody leads.
    part: Callable[[Any, Any, Any], Any] | None = None  # From store, storage and control: what its routes share.
    admit: Callable[[Services, Actor, JobSpec], None] | None = None  # Refuses what is not the submitter's to submit.
    concerns: Callable[[JobSpec], bool] | None = None  # Whether `check` has to be asked about a job.
    check: Callable[[Services, JobSpec], None] | None = None  # Refuses what this server could not serve. May block.
    static: Sequence[StaticFiles] = ()
    sockets: Sequence[Socket] = ()


def pattern(paths: frozenset[str]) -> str:
    """The paths of routes as a regular expression, with something for each name in braces."""
    return "|".join(
        "".join(
            r".+" if each.endswith(":path}") else r"[^/]+" if each.startswith("{") else re.escape(each)
            for each in re.split(r"(\{[^}]+\})", path)
        )
        for path in sorted(paths)
    )


@dataclass(frozen=True)
class RouteTable:
    """The rights of all routes, of the spine and of features, and which of them this server may always answer."""

    rights: dict[tuple[str, str], Right] = field(default_factory=dict)
    unrecorded: frozenset[tuple[str, str]] = frozenset()
    here: re.Pattern[str] = re.compile(r"(?!)")
    here_without_leader: re.Pattern[str] = re.compile(r"(?!)")
    static: re.Pattern[str] = re.compile(r"(?!)")

    @classmethod
    def of(cls, rights: Rights, unrecorded: frozenset[tuple[str, str]], here: str, without: str,
           features: Sequence[FeatureRoutes]) -> RouteTable:  # fmt: skip
        every = dict(rights)
        for feature in features:
            if twice := every.keys() & feature.rights.keys():
                raise LookupError(f"two features have the route {' '.join(sorted(twice)[0])}")
            every.update(feature.rights)
        static = [f"{re.escape(each.path)}(/.*)?" for feature in features for each in feature.static]
        heres = [here, *static, *(pattern(each.here) for each in features if each.here)]
        withouts = [without, *(pattern(each.here_without_leader) for each in features if each.here_without_leader)]
        return cls(
            every,
            unrecorded.union(*(each.unrecorded for each in features)),
            re.compile("|".join(heres)),
            re.compile("|".join(withouts)),
            re.compile("|".join(static) or r"(?!)"),
        )

    @property
    def open_paths(self) -> frozenset[str]:
        return frozenset(path for (_, path), right in self.rights.items() if right is Right.OPEN)
