"""Which files a server must keep to itself, whoever else works on its machine or on its nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from headway.settings import Home, Settings


def own_files(settings: Settings, home: Home, key_file: Path, config_files: Sequence[str]) -> list[Path]:
    """Keys, tokens, passwords, the database, its folder of objects."""
    named = [settings.storage_key_file, settings.tls_key_file, settings.oidc_client_secret_file]
    named.append(_passfile_of(settings.store_url) or os.environ.get("PGPASSFILE", "~/.pgpass"))
    if urlsplit(settings.store_url).password:
        named += config_files
    if settings.storage_url.removeprefix("file://").startswith("/"):
        named.append(settings.storage_url.removeprefix("file://"))
    own = [home.token_file, home.logins_file, key_file, home.data, home.data / "headway.db", home.state, home.config]
    return own + [Path(each).expanduser() for each in named if each]


def _passfile_of(store_url: str) -> str:
    """The file with the database's password, where the address names one."""
    with suppress(ValueError):
        return dict(parse_qsl(urlsplit(store_url).query)).get("passfile", "")
    return ""
