"""Objects in a bucket, by URL: s3://, gs://, az://, through obstore. Credentials come from the environment.

The library is loaded with the first use, for a server that keeps its objects in a folder does not need it. A put that
returned is as durable as the bucket. Not for a folder: the library does not sync its files; folder.py does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from headway.core.errors import BadInput, NotFound, Unavailable
from headway.storage.protocol import Kept, Storage, check_key

if TYPE_CHECKING:
    from obstore.store import ObjectStore

RETRIES_MAX = 3
CALL_S_MAX = 60
DELETED_AT_ONCE = 500


class ObjectStorage:
    def __init__(self, url: str) -> None:
        self._url = url

    @cached_property
    def _bucket(self) -> ObjectStore:
        from obstore.exceptions import BaseError
        from obstore.store import LocalStore, MemoryStore, from_url

        if self._url.startswith("memory:"):
            return MemoryStore()
        if self._url.startswith("file:"):
            return LocalStore.from_url(self._url, mkdir=True)
        try:
            return from_url(
                self._url,
                client_options={"timeout": f"{CALL_S_MAX}s"},
                retry_config={"max_retries": RETRIES_MAX, "retry_timeout": timedelta(seconds=CALL_S_MAX)},
            )
        except (BaseError, ValueError) as error:
            hint = "use a path, s3://bucket/path, gs://bucket/path or az://account/container/path"
            raise BadInput(f'storage_url: "{self._url}" cannot be opened: {_first_line(error)}', hint) from None

    def put(self, key: str, data: bytes) -> None:
        import obstore

        with self._saying("take", check_key(key)):
            obstore.put(self._bucket, key, data)

    def put_file(self, key: str, path: str) -> None:
        import obstore

        with self._saying("take", check_key(key)), open(path, "rb") as file:
            obstore.put(self._bucket, key, file)

    def draft_dir(self) -> str:
        return tempfile.gettempdir()

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        import obstore

        with self._saying("give", check_key(key)):
            if start == 0 and end is None:
                return bytes(obstore.get(self._bucket, key).bytes())
            size = obstore.head(self._bucket, key)["size"]
            end = size if end is None else min(end, size)
            # Buckets answer a range without bytes with an error.
            return bytes(obstore.get_range(self._bucket, key, start=start, end=end)) if start < end else b""

    def size(self, key: str) -> int | None:
        import obstore

        try:
            with self._saying("look for", check_key(key)):
                return obstore.head(self._bucket, key)["size"]
        except NotFound:
            return None

    def delete(self, keys: list[str]) -> None:
        import obstore

        wanted = [check_key(key) for key in keys]
        for at in range(0, len(wanted), DELETED_AT_ONCE):
            some = wanted[at : at + DELETED_AT_ONCE]
            try:
                with self._saying("delete", f"{len(some)} objects"):
                    obstore.delete(self._bucket, some)
            except NotFound:
                self._delete_each(some)

    def list(self, prefix: str) -> Iterator[Kept]:
        import obstore

        top = prefix.strip("/")
        with self._saying("list", top and check_key(top)):
            for page in obstore.list(self._bucket, top or None):
                for found in page:
                    yield Kept(found["path"], found["size"], found["last_modified"].timestamp())

    def local_dir(self) -> str:
        return ""

    def _delete_each(self, keys: Sequence[str]) -> None:
        """One of many was missing already; the others must go all the same."""
        import obstore

        for key in keys:
            try:
                with self._saying("delete", key):
                    obstore.delete(self._bucket, key)
            except NotFound:
                pass

    @contextmanager
    def _saying(self, what: str, key: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise NotFound(f'storage has no object "{key}"') from None
        except (BaseError, OSError) as error:
            raise Unavailable(f"the storage {self._url} cannot {what} {key}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:300]


def _proves_conformance(storage: ObjectStorage) -> Storage:
    return storage
