"""Hosts that a pool names: how one is written, and what its node is called.

`[user@]host[:port]`, where the host may be a name that only ~/.ssh/config knows, or an IPv6 address in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from headway.core.errors import BadInput
from headway.core.fields import kind_of

HOSTS_MOST = 1000
HOST = re.compile(
    r"(?:(?P<user>[\w.][\w.-]*)@)?(?:\[(?P<six>[0-9a-fA-F:.%]+)\]|(?P<name>[\w][\w.-]*))(?::(?P<port>\d+))?"
)


@dataclass(frozen=True, slots=True)
class Host:
    """One host as ssh is asked for it. Nothing that is empty here is said to ssh: its own configuration decides."""

    name: str
    user: str = ""
    port: int = 0

    @property
    def called(self) -> str:
        """The part of the node's id that stands for the host."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


def read_host(text: object) -> Host:
    found = HOST.fullmatch(text) if isinstance(text, str) and len(text) <= 300 else None
    port = int(found["port"] or 0) if found else 0
    if found is None or port > 65535:
        raise BadInput(f'hosts: "{str(text)[:80]}" is not a host', "write host, user@host or user@host:port")
    return Host(found["six"] or found["name"], found["user"] or "", port)


def read_hosts(raw: object) -> list[str]:
    """The hosts as they were written, checked: each is one, and no two have the same name."""
    if not isinstance(raw, Sequence) or isinstance(raw, str) or len(raw) > HOSTS_MOST:
        raise BadInput(f"hosts: expected a list of hosts, found {kind_of(raw)}")
    named: dict[str, str] = {}
    for text in raw:
        called = read_host(text).called
        if called in named:
            raise BadInput(f'hosts: "{text}" and "{named[called]}" are one host', "name it once")
        named[called] = str(text)
    return list(named.values())


def node_of(pool: str, host: str) -> str:
    return f"{pool}-{read_host(host).called}"
