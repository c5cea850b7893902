"""Secrets: what may be kept under a name, and how a job says which of them its ranks get, and how."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.core.errors import BadInput
from headway.core.fields import check_keys, kind_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
USES_MAX = 100
VALUE_BYTES_MIN = 6  # A shorter one could not be masked without covering ordinary words.
VALUE_BYTES_MAX = 64 * 2**10


@dataclass(frozen=True, slots=True)
class Secret:
    """One version of a secret as it is kept: sealed, or as a reference to where it lies."""

    project: str
    name: str
    version: int
    key_id: str = ""
    nonce: bytes = b""
    ciphertext: bytes = b""
    reference: str = ""
    created_by: str = ""
    created_at: float = 0.0

    @property
    def sealed_for(self) -> bytes:
        """What the sealed value belongs to: moved to another row, it does not open."""
        return f"{self.project}\0{self.name}\0{self.version}\0{self.key_id}".encode()


@dataclass(frozen=True, slots=True)
class SecretUse:
    """A variable of the ranks: the secret's value, or the path of a file that holds it."""

    variable: str
    name: str
    as_file: bool = False


def check_secret_name(name: object) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadInput(f'"{str(name)[:80]}" is not a name for a secret', "letters, digits, dot, dash and underscore")
    return name


def check_value(value: bytes) -> str:
    """The value as text, or a sentence about its size that does not show it."""
    if not VALUE_BYTES_MIN <= len(value) <= VALUE_BYTES_MAX:
        raise BadInput(f"a secret of {len(value)} bytes; {VALUE_BYTES_MIN} to {VALUE_BYTES_MAX} are taken")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise BadInput("the secret is not text", "encode it, for example with base64") from None
    if "\0" in text:
        raise BadInput("the secret contains a NUL byte, which no variable can hold")
    return text


def read_uses(raw: Any, what: str) -> tuple[SecretUse, ...]:
    """`{HF_TOKEN: hf-token}`, `{KEY: {name: gcp-key, file: true}}`, or `[hf-token]`, which becomes HF_TOKEN."""
    if isinstance(raw, list | tuple):
        raw = {variable_for(check_secret_name(name)): name for name in raw}
    if not isinstance(raw, Mapping):
        raise BadInput(f"{what}: expected variables and names of secrets, found {kind_of(raw)}")
    if len(raw) > USES_MAX:
        raise BadInput(f"{what}: {len(raw)} secrets; at most {USES_MAX} are taken")
    uses = []
    for variable, named in raw.items():
        if not isinstance(variable, str) or not VARIABLE.fullmatch(variable) or variable.startswith("HEADWAY_"):
            raise BadInput(f'{what}: "{str(variable)[:80]}" is not a usable variable')
        as_file = False
        if isinstance(named, Mapping):
            check_keys(named, {"name": "", "file": ""}, f"{what}.{variable}")
            as_file, named = named.get("file", False), named.get("name")
        if not isinstance(as_file, bool):
            raise BadInput(f"{what}.{variable}.file: neither true nor false")
        uses.append(SecretUse(variable, check_secret_name(named), as_file))
    return tuple(uses)


def show_uses(uses: tuple[SecretUse, ...]) -> dict[str, Any]:
    return {use.variable: {"name": use.name, "file": True} if use.as_file else use.name for use in uses}


def variable_for(name: str) -> str:
    letters = re.sub(r"[^A-Za-z0-9]", "_", name).upper()
    return letters if not letters[0].isdigit() else f"_{letters}"
