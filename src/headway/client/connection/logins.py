"""Tokens of servers that one has signed in to, in a private file of the config directory."""

from __future__ import annotations

import json

from headway.core.errors import OperatorError
from headway.settings import Home
from headway.whole_files import write_whole


def token_for(home: Home, urls: str) -> str:
    """The token for a server; of several addresses, the first that one signed in to."""
    known = read(home)
    return next((known[name] for url in urls.split(",") if (name := plain(url)) in known), "")


def read(home: Home) -> dict[str, str]:
    try:
        found = json.loads(home.logins_file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise OperatorError(f"{home.logins_file} cannot be read: {error}", "headway login writes it anew") from None
    return {str(url): str(token) for url, token in found.items()} if isinstance(found, dict) else {}


def save(home: Home, url: str, token: str) -> None:
    """Keep a token; an empty one forgets the server. Nobody else can read the file at any moment."""
    try:
        known = read(home)
    except OperatorError:
        known = {}
    known.pop(plain(url), None)
    if token:
        known[plain(url)] = token
    home.config.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(home.logins_file, json.dumps(known, indent=1))


def plain(url: str) -> str:
    return url.strip().rstrip("/")
