"""Reading single values of a description: known keys, whole numbers, one of several words. Refusals name the value.

What the values are for is told in spec/job.py and spec/program.py.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from headway.core.errors import BadInput

WORD_BYTES_MAX = 131_071  # Linux starts no program with a longer word, in its arguments or its environment.


def check_keys(raw: object, known: Mapping[str, str], what: str) -> None:
    """Refuse a key that nobody reads, and name the nearest one that is read."""
    if not isinstance(raw, Mapping):
        raise BadInput(f"{what}: expected keys and values, found {kind_of(raw)}")
    for key in raw:
        if key not in known:
            near = difflib.get_close_matches(str(key), list(known), n=1, cutoff=0.5)
            hint = f'did you mean "{near[0]}"?' if near else "known keys: " + ", ".join(known)
            raise BadInput(f'{what}: unknown key "{str(key)[:80]}"', hint)


def kind_of(value: object) -> str:
    return {dict: "a mapping", list: "a list", str: "a text", type(None): "nothing"}.get(type(value), str(value)[:40])


def text_bytes(text: str, what: str) -> int:
    """How many bytes a text has; one that cannot be written as bytes is refused."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        shown = text.encode("utf-8", "backslashreplace").decode()[:80]
        raise BadInput(f'{what}: "{shown}" is not valid text (UTF-8)') from None


def whole(value: object, what: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f'{what}: "{str(value)[:80]}" is not a whole number')
    if not least <= value <= most:
        raise BadInput(f"{what}: {str(value)[:40]} is outside {least} to {most}")
    return value


def one_of(value: object, what: str, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise BadInput(f'{what}: "{str(value)[:80]}" is not one of {", ".join(allowed)}')
    return value
