"""The servers that one works with, by name, and which of them was chosen. settings.py reads what is written here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from headway.client.connection.logins import plain
from headway.core.errors import BadInput, NotFound
from headway.settings import LOCAL, Home, read_contexts
from headway.whole_files import write_whole

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def remember(home: Home, url: str, name: str = "") -> str:
    """Keep a server under a name: the given one, the one that it has, or that of its host. Returns the name."""
    known = dict(read_contexts(home).known)
    url = plain(url)
    if name:
        if not NAME.fullmatch(name) or name == LOCAL:
            raise BadInput(
                f'"{name[:80]}" cannot be the name of a context', "letters, digits, dots and dashes, as in lab-2"
            )
    else:
        name = next((each for each, at in known.items() if at == url), "") or _of_host(url, known)
    _write(home, read_contexts(home).chosen, {**known, name: url})
    return name


def choose(home: Home, name: str) -> str:
    """Let commands work with this one from now on: a context by its name or address. Returns the name."""
    found = read_contexts(home)
    if found.url(name) is None:
        name = next((each for each, url in found.known.items() if url == plain(name)), name)
    if found.url(name) is None:
        import difflib

        near = difflib.get_close_matches(name, [LOCAL, *found.known], n=1)
        hint = f'did you mean "{near[0]}"?' if near else "headway context ls; a new one: headway login --server URL"
        raise NotFound(f'no context "{name[:80]}"', hint)
    _write(home, name, found.known)
    return name


def forget(home: Home, name: str) -> str:
    """Take a context out and return its address. Where it was the chosen one, none is."""
    found = read_contexts(home)
    if name not in found.known:
        if name == LOCAL:
            raise BadInput("the context of this machine stays", "headway server stop stops its server")
        raise NotFound(f'no context "{name[:80]}"', "headway context ls")
    left = {each: url for each, url in found.known.items() if each != name}
    _write(home, "" if found.chosen == name else found.chosen, left)
    return found.known[name]


def _of_host(url: str, known: Mapping[str, str]) -> str:
    parts = urlsplit(url.split(",")[0])
    host = re.sub(r"[^A-Za-z0-9._-]", "-", parts.hostname or "server").strip("-._") or "server"
    names = [host, f"{host}-{parts.port}", *(f"{host}-{number}" for number in range(2, 1000))]
    return next(each for each in names if each not in known and each != LOCAL)


def _write(home: Home, chosen: str, servers: Mapping[str, str]) -> None:
    home.config.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(home.contexts_file, json.dumps({"chosen": chosen, "servers": dict(servers)}, indent=1))
