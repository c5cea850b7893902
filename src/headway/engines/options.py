"""What a pool says to its engine: the words that each engine reads are its own, how they are refused is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.core.errors import BadInput
from headway.core.fields import check_keys
from headway.core.model import BESIDE_OPTIONS, Pool


def check_options(pool: Pool, known: Mapping[str, str], hosts: bool = False) -> Mapping[str, Any]:
    """The options of a pool. A word that its engine does not read is refused, with the nearest one that it does."""
    given = {key: value for key, value in pool.options.items() if key not in BESIDE_OPTIONS}
    what = f'pool {pool.name}: options of engine "{pool.engine}"'
    if given and not known:
        raise BadInput(f'{what}: unknown key "{next(iter(given))[:80]}"', "this engine has none")
    check_keys(given, known, what)
    if pool.hosts and not hosts:
        raise BadInput(
            f'pool {pool.name}: engine "{pool.engine}" has no hosts', "leave them out, or set an engine that has hosts"
        )
    return given


def number(given: Mapping[str, Any], key: str, default: float, least: float, most: float) -> float:
    """An option that is a number; the command line gives it as text."""
    raw = given.get(key, default)
    try:
        value = float(str(raw)) if not isinstance(raw, bool) else None
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        raise BadInput(f'options.{key}: "{str(raw)[:80]}" is not a number from {least:g} to {most:g}')
    return value


def text(given: Mapping[str, Any], key: str, default: str = "") -> str:
    raw = given.get(key, default)
    if not isinstance(raw, str) or len(raw) > 1000 or "\n" in raw or "\0" in raw:
        raise BadInput(f'options.{key}: "{str(raw)[:80]}" is not a text of one line')
    return raw
