"""What every storage can do: keep objects under keys. It knows nothing of jobs.

An object is whole or absent: no reader ever sees half of one. conformance.py is the law.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from headway.core.errors import BadInput, HeadwayError
from headway.core.files.storage_identity import Identity

ID_KEY = "storage-id"  # The object by which a storage is known again; its content is the id.
KEY_LENGTH_MAX = 512
SEGMENT_BYTES_MAX = 255  # What file systems take as one name.


class Kept(NamedTuple):
    """One object in a listing."""

    key: str
    size: int
    at: float  # When it was put, by the storage's own clock; good for "older than an hour", not for an order.


class WrongContent(HeadwayError):
    """The bytes are not those that were announced: damaged on their way. Sending them again may help."""

    status = 400
    kind = "wrong-content"


class Storage(Protocol):
    """Every method may be called from any thread. Failures raise `Unavailable`; a missing object `NotFound`."""

    trouble: str  # What went wrong last; empty once a call has succeeded again.

    def put(self, key: str, data: bytes) -> None:
        """Keep an object durably. A second put of the same key replaces it."""
        ...

    def put_file(self, key: str, path: str) -> None:
        """Keep a file of this host as an object, however large, as durably as `put` does. The file may be moved."""
        ...

    def draft_dir(self) -> str:
        """The directory in which a file that is to become an object is best written."""
        ...

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """The object's bytes from `start` up to `end`, or as many of them as there are."""
        ...

    def size(self, key: str) -> int | None:
        """Bytes in the object, or None when there is none."""
        ...

    def delete(self, keys: list[str]) -> None:
        """Afterwards none of these exist. Missing ones are ignored."""
        ...

    def list(self, prefix: str) -> Iterator[Kept]:
        """Objects below a prefix of whole segments (`logs` and `logs/` are the same), in no particular order."""
        ...

    def join(self, key: str, parts: Sequence[str], sha256: str) -> None:
        """Keep what these objects hold, one after the other, as one object, if that has this hash; they stay."""
        ...

    def sign(self, method: str, keys: Sequence[str], good_for_s: float) -> Sequence[str] | None:
        """An address for each key that lets anybody GET or PUT that object for a while, asking nobody else.

        None where objects can only be had from the server itself; an empty one where that is so of this object.
        """
        ...

    def put_headers(self) -> dict[str, str]:
        """What a PUT to a signed address must say beside its content."""
        ...

    def identity(self, fresh: str = "") -> Identity | None:
        """Who this storage is: by an object at its root, which is made once, with the id `fresh` where there is none.

        None where there is none and no id is given. However many ask at the same time, all are answered the same.
        """
        ...

    def local_dir(self) -> str:
        """The directory in which a process on this host may write objects itself; empty when there is none."""
        ...


def check_key(key: str) -> str:
    """Return the key, or raise BadInput when it could leave the storage or could not be kept everywhere."""
    if len(key) > KEY_LENGTH_MAX:
        raise BadInput(f'storage key "{key[:60]}…" has {len(key)} characters; at most {KEY_LENGTH_MAX} are taken')
    if any(ord(char) < 32 or ord(char) == 127 for char in key):
        raise BadInput(f"storage key {key!r} contains a control character")
    for segment in key.split("/"):
        if segment in ("", ".", "..") or "\\" in segment:
            raise BadInput(f'storage key "{key}" is not a plain path', 'no "..", no leading, trailing or double slash')
        try:
            length = len(segment.encode())
        except UnicodeEncodeError:
            raise BadInput(f"storage key {key!r} is not valid Unicode") from None
        if length > SEGMENT_BYTES_MAX:
            raise BadInput(f'storage key "{key[:60]}…" has a name of more than {SEGMENT_BYTES_MAX} bytes')
    if key.startswith("."):
        raise BadInput(f'storage key "{key}" begins with a dot', "such names are kept for half-written objects")
    return key
