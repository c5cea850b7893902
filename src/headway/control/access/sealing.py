"""The key file, which only the server reads, and the sealing of secrets with it (AES-256-GCM).

It has a line for each key: its id and 32 bytes in base64. The first is for what is new; all open and accept. The file
is read again when it changes, so that all servers of a store can share it. What else is made from it: signing_keys.py.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from headway.core.errors import OperatorError
from headway.core.spec.secrets import Secret
from headway.whole_files import write_durably, write_first

KEY_BYTES = 32
NONCE_BYTES = 12


class KeyGone(OperatorError):
    """A secret cannot be opened any more, by anybody: its key is not in the file, or is another."""

    kind = "key-gone"


class KeyRing:
    """The keys of one file. `make`: a private server makes its own file; a shared one is given one."""

    def __init__(self, path: Path, make: bool = True, nonce: Callable[[int], bytes] = os.urandom) -> None:
        self.path = path
        self._make = make
        self._nonce = nonce
        self._read_at: tuple[int, int] | None = None
        self._keys: dict[str, bytes] = {}

    def seal(self, secret: Secret, value: str) -> Secret:
        """The secret with its value sealed by the newest key."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        keys = self._fresh()
        key_id = next(iter(keys))
        secret = replace(secret, key_id=key_id, nonce=self._nonce(NONCE_BYTES), reference="")
        sealed = AESGCM(keys[key_id]).encrypt(secret.nonce, value.encode(), secret.sealed_for)
        return replace(secret, ciphertext=sealed)

    def open(self, secret: Secret) -> str:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key = self._fresh().get(secret.key_id)
        what = f'the secret "{secret.name}" of project "{secret.project}"'
        if key is None:
            hint = f"put the line of that key back into {self.path}, or set the secret again"
            raise KeyGone(f'{what} is sealed with the key "{secret.key_id}", which {self.path} does not have', hint)
        try:
            return AESGCM(key).decrypt(secret.nonce, secret.ciphertext, secret.sealed_for).decode()
        except InvalidTag:
            raise KeyGone(
                f"{what} does not open with its key: it was changed, or the key was", "set it again"
            ) from None

    @property
    def newest(self) -> str:
        return next(iter(self._fresh()))

    def keys(self) -> dict[str, bytes]:
        """All keys by their ids, the newest first, as the file has them now."""
        return dict(self._fresh())

    def make_sure(self) -> None:
        """See that there is a file, with at least one key in it."""
        if not self.path.exists():
            self._write(new_key_line())
        self._fresh()

    def write(self, keys: Mapping[str, bytes]) -> None:
        """Have these keys in the file from now on, in this order; a crash leaves the file of before, or this one."""
        write_durably(self.path, "".join(key_line(name, key) for name, key in keys.items()))

    def _fresh(self) -> dict[str, bytes]:
        try:
            seen = self.path.stat()
        except FileNotFoundError:
            if not self._make:
                hint = "make it with: headway secret new-key >> FILE, and set secrets_key_file on every server"
                raise OperatorError(f"there is no key file {self.path}", hint) from None
            self._write(new_key_line())
            seen = self.path.stat()
        if seen.st_mode & 0o077:
            raise OperatorError(f"others may read the key file {self.path}", f"chmod 600 {self.path}")
        if self._read_at != (seen.st_mtime_ns, seen.st_size):
            self._keys = read_keys(self.path.read_text(), str(self.path))
            self._read_at = (seen.st_mtime_ns, seen.st_size)
        return self._keys

    def _write(self, line: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_first(self.path, line)


def new_key_line() -> str:
    return key_line(secrets.token_hex(4), secrets.token_bytes(KEY_BYTES))


def key_line(name: str, key: bytes) -> str:
    return f"{name} {base64.b64encode(key).decode()}\n"


def read_keys(text: str, where: str) -> dict[str, bytes]:
    keys: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        try:
            key = base64.b64decode(words[1], validate=True) if len(words) == 2 else b""
        except binascii.Error:
            key = b""
        if len(key) != KEY_BYTES or words[0] in keys:
            raise OperatorError(f"{where}: line {number} is not an id and {KEY_BYTES} bytes in base64")
        keys[words[0]] = key
    if not keys:
        raise OperatorError(f"{where} has no key", "headway secret new-key prints one")
    return keys
