"""What a pool may say to the ssh engine, for all of its hosts or for one: read and checked. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headway.core.errors import BadInput
from headway.core.fields import check_keys, kind_of, one_of
from headway.core.model import Pool
from headway.core.spec.hosts import Host, read_host
from headway.engines.options import check_options, number, text

WORDS = {
    "call_home": "how nodes reach the server: auto, direct, or tunnel (through the ssh connection)",
    "directory": "where on a host everything of ours lies; ~/ is the home of the user that logs in",
    "python": "the Python that runs the agent; otherwise the first one from 3.8 on that is found",
    "address": "the address under which the other nodes reach this one; otherwise that of its ssh connection",
    "cpus": "processors that jobs may use there",
    "memory_bytes": "memory that jobs may use there",
    "gpus": "GPUs that jobs may use there",
    "ssh_config": "a file to be read instead of ~/.ssh/config",
    "ssh_options": "further options for ssh, such as StrictHostKeyChecking=accept-new, with commas between them",
    "connect_s_max": "how long a connection may take to be made",
    "call_s_max": "how long one call to a host may take",
}
ALL = {**WORDS, "host": "the same words for one host: options.host.gpu1.python"}
PATH = re.compile(r"[\w./~+-]+")
SSH_OPTION = re.compile(r"[A-Za-z]+=[^\n\0]+")


@dataclass(frozen=True, slots=True)
class HostOptions:
    """How one host is reached and used."""

    host: Host
    call_home: str = "auto"
    directory: str = "~/.headway"
    python: str = ""
    address: str = ""
    cpus: float = 0.0
    memory_bytes: int = 0
    gpus: int = -1
    ssh_config: str = ""
    ssh_options: tuple[str, ...] = ()
    connect_s_max: float = 10.0
    call_s_max: float = 40.0


def read_options(pool: Pool) -> Pool:
    """The pool, if this engine can take it."""
    if not pool.hosts:
        raise BadInput(f'pool {pool.name}: engine "ssh" needs hosts', 'hosts = ["gpu1", "ada@gpu2:2222"]')
    hosts_of(pool)
    return pool


def hosts_of(pool: Pool) -> dict[str, HostOptions]:
    """For each node of the pool, and each that it had, how its host is reached."""
    given = check_options(pool, ALL, hosts=True)
    common = {key: value for key, value in given.items() if key != "host"}
    single = given.get("host", {})
    if not isinstance(single, Mapping):
        raise BadInput(f"options.host: expected hosts and their words, found {kind_of(single)}")
    hosts = {read_host(written).called: read_host(written) for written in (*pool.former_hosts, *pool.hosts)}
    check_keys(single, dict.fromkeys(hosts, ""), f"pool {pool.name}: options.host")
    for called, raw in single.items():
        check_keys(raw, WORDS, f"pool {pool.name}: options.host.{called}")
    return {
        f"{pool.name}-{called}": _read(host, pool, {**common, **single.get(called, {})})
        for called, host in hosts.items()
    }


def _read(host: Host, pool: Pool, raw: Mapping[str, Any]) -> HostOptions:
    shape = pool.shape
    plain = HostOptions(host)
    if shape is not None:
        plain = replace(plain, cpus=shape.cpus, memory_bytes=shape.memory_bytes, gpus=shape.gpus)
    return replace(
        plain,
        call_home=one_of(raw.get("call_home", plain.call_home), "options.call_home", ("auto", "direct", "tunnel")),
        directory=_path(raw, "directory", plain.directory),
        python=_path(raw, "python", ""),
        address=text(raw, "address"),
        cpus=number(raw, "cpus", plain.cpus, 0, 100_000),
        memory_bytes=int(number(raw, "memory_bytes", plain.memory_bytes, 0, 1 << 60)),
        gpus=int(number(raw, "gpus", plain.gpus, -1, 1024)),
        ssh_config=text(raw, "ssh_config"),
        ssh_options=_ssh_options(raw.get("ssh_options", ())),
        connect_s_max=number(raw, "connect_s_max", plain.connect_s_max, 1, 300),
        call_s_max=number(raw, "call_s_max", plain.call_s_max, 1, 600),
    )


def _path(raw: Mapping[str, Any], key: str, default: str) -> str:
    path = text(raw, key, default)
    if path and (not PATH.fullmatch(path) or path.startswith("-") or "~" in path.removeprefix("~/")):
        raise BadInput(
            f'options.{key}: "{path[:80]}" is not a path', "letters, digits and ./_+- ; it may begin with ~/"
        )
    return path


def _ssh_options(raw: object) -> tuple[str, ...]:
    words = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise BadInput(f"options.ssh_options: expected Key=Value with commas between them, found {kind_of(raw)}")
    for word in words:
        if not SSH_OPTION.fullmatch(word):
            raise BadInput(f'options.ssh_options: "{word[:80]}" is not Key=Value')
    return tuple(words)
