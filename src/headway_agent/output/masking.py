"""Masking: no secret of a task leaves the node in its output, in what is told of its end, or in a stack.

A value is covered by as many asterisks as it has bytes, so that every offset stays true. What could be the beginning
of a value is held back until more is there, or until nothing more will come.
"""

from __future__ import annotations

import base64
import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Mapping, Pattern

DIRECTORY = "secrets"
VALUES = "values.json"
SHORTEST = 6  # A shorter value would cover ordinary words; the server refuses to keep one.
COVER = b"*"
LINE_WIDTHS = (76, 64)  # Of base64 and of openssl.
URL_SAFE = bytes.maketrans(b"+/", b"-_")


class Mask:
    """The values to cover. An empty one changes nothing and costs nothing."""

    def __init__(self, values: Iterable[bytes] = ()) -> None:
        # Longer ones first: one may begin with another.
        self.values = sorted({value for each in values for value in _forms(each)}, key=len, reverse=True)
        self._pattern: Pattern[bytes] | None = None
        if self.values:
            self._pattern = re.compile(b"|".join(re.escape(value) for value in self.values))

    def __bool__(self) -> bool:
        return self._pattern is not None

    @property
    def longest(self) -> int:
        return len(self.values[0]) if self.values else 0

    def cover(self, data: bytes) -> bytes:
        if self._pattern is None:
            return data
        return self._pattern.sub(lambda found: COVER * len(found.group()), data)

    def cover_text(self, text: str) -> str:
        return self.cover(text.encode("utf-8", "surrogateescape")).decode("utf-8", "replace") if self else text

    def cover_between(self, before: bytes, data: bytes, final: bool) -> bytes:
        """Cover `data`, which follows `before`; what may begin a value is left off, unless it is final."""
        whole = self.cover(before + data)
        end = len(whole)
        if not final:
            end = max(len(before), len(whole) - self._begun(before + data, whole))
        return whole[len(before) : end]

    def _begun(self, plain: bytes, covered: bytes) -> int:
        """How many bytes at the end are the beginning of a value, and not the end of one that is covered already."""
        most = 0
        for value in self.values:
            for count in range(min(len(value) - 1, len(plain)), most, -1):
                if plain.endswith(value[:count]) and covered[-count:] != COVER * count:
                    most = count
                    break
        return most


def _forms(value: bytes) -> list[bytes]:
    """A value as it is, line by line (a key in a file has several), and as it is often written by programs."""
    forms = [value, *value.splitlines(), *_in_base64(value)]
    return [form for form in forms if len(form) >= SHORTEST]


def _in_base64(value: bytes) -> list[bytes]:
    """A value in base64: alone, in lines as tools break them, and within a longer text (`user:value`, a line's end).

    Three bytes become four letters, so a text before it shifts it by none, one or two bytes: of each case, the letters
    that nothing but the value decides.
    """
    whole = base64.b64encode(value)
    forms = [whole, *(whole[at : at + width] for width in LINE_WIDTHS for at in range(0, len(whole), width))]
    for before in range(3):
        bits = 8 * (before + len(value))
        letters = base64.b64encode(b"\0" * before + value)
        forms.append(letters[-(-8 * before // 6) : bits // 6])
    return forms + [form.translate(URL_SAFE) for form in forms]


def keep(directory: str, values: Mapping[str, str]) -> None:
    """Write a task's values where only its user can read them: an agent that starts anew must cover them too."""
    folder = os.path.join(directory, DIRECTORY)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    write_private(os.path.join(folder, VALUES), json.dumps(sorted(set(values.values()))).encode())


def write_private(path: str, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)


NOTHING = Mask()
_known: dict[str, Mask] = {}


def mask_of(directory: str) -> Mask:
    """The mask of the task that has this directory."""
    known = _known.get(directory)
    if known is None:
        try:
            with open(os.path.join(directory, DIRECTORY, VALUES), "rb") as file:
                known = Mask(str(value).encode("utf-8", "surrogateescape") for value in json.load(file))
        except FileNotFoundError:
            known = NOTHING
        if len(_known) > 10_000:
            _known.clear()
        _known[directory] = known
    return known


def forget(directory: str) -> None:
    _known.pop(directory, None)
