"""Objects in a bucket, by URL: s3://, gs://, az://, through obstore. Credentials come from the environment.

The library is loaded with the first use, for a server that keeps its objects in a folder does not need it. A put that
returned is as durable as the bucket. Not for a folder: the library does not sync its files; folder.py does.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property
from queue import Full, Queue
from typing import TYPE_CHECKING, Any

from headway.core.errors import BadInput, NotFound, Unavailable
from headway.core.files.storage_identity import Identity
from headway.storage.protocol import ID_KEY, Kept, Storage, WrongContent, check_key

if TYPE_CHECKING:
    from obstore.store import ObjectStore

RETRIES_MAX = 3
CALL_S_MAX = 60
DELETED_AT_ONCE = 500
SEEN_S = 5.0  # How long the sight of its id is trusted.
JOIN_BYTES = 4 << 20
JOIN_AHEAD = 4
AZURE = ("az://", "azure://", "adl://", "abfs://", "abfss://")
PLAIN = re.compile(r"[A-Za-z0-9/._~-]+")
SIGNABLE = ("s3://", "s3a://", "gs://", *AZURE)


class ObjectStorage:
    """`endpoint` is where a service stands that is not the cloud's own; `options` are names as in the environment."""

    def __init__(self, url: str, endpoint: str = "", options: Mapping[str, str] | None = None) -> None:
        self.trouble = ""
        self._url = url
        self._options: dict[str, str] = {name.lower(): value for name, value in (options or {}).items()}
        self._client: dict[str, Any] = {"timeout": f"{CALL_S_MAX}s"}
        self._known = False  # Whether it has an id.
        self._seen_at = 0.0  # When that was last seen.
        if endpoint:
            self._options["azure_endpoint" if url.startswith(AZURE) else "endpoint"] = endpoint
            self._client["allow_http"] = endpoint.startswith("http://")

    @cached_property
    def _bucket(self) -> ObjectStore:
        from obstore.exceptions import BaseError
        from obstore.store import LocalStore, MemoryStore, from_url

        if self._url.startswith("memory:"):
            return MemoryStore()
        if self._url.startswith("file:"):
            return LocalStore.from_url(self._url, mkdir=True)
        try:
            opened: ObjectStore = from_url(
                self._url,
                config=self._options,  # type: ignore[call-overload]
                client_options=self._client,
                retry_config={"max_retries": RETRIES_MAX, "retry_timeout": timedelta(seconds=CALL_S_MAX)},
            )
            return opened
        except (BaseError, ValueError) as error:
            hint = "use a path, s3://bucket/path, gs://bucket/path or az://container/path"
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

    def join(self, key: str, parts: Sequence[str], sha256: str) -> None:
        import obstore

        wanted = [check_key(part) for part in parts]
        # Read on a thread of its own: the library cannot be called from within the put that takes the pieces.
        read: Queue[bytes | Exception | None] = Queue(JOIN_AHEAD)
        given_up = threading.Event()

        def hand_over(piece: bytes | Exception | None) -> None:
            while not given_up.is_set():
                with suppress(Full):
                    return read.put(piece, timeout=0.1)

        def read_all() -> None:
            try:
                for part in wanted:
                    for piece in obstore.get(self._bucket, part).stream(JOIN_BYTES):
                        hand_over(bytes(piece))
                hand_over(None)
            except Exception as error:
                hand_over(error)

        def pieces() -> Iterator[bytes]:
            digest = hashlib.sha256()
            while (piece := read.get()) is not None:
                if isinstance(piece, Exception):
                    raise piece
                digest.update(piece)
                yield piece
            if digest.hexdigest() != sha256:  # Raised before the last piece is taken in: nothing becomes an object.
                raise WrongContent(f'the parts of "{key}" are not what was announced')

        with self._saying("join", check_key(key)):
            threading.Thread(target=read_all, name="join", daemon=True).start()
            try:
                obstore.put(self._bucket, key, pieces())
            finally:
                given_up.set()

    def sign(self, method: str, keys: Sequence[str], good_for_s: float) -> Sequence[str] | None:
        import obstore

        if not self._url.startswith(SIGNABLE):
            return None
        wanted = [check_key(key) for key in keys]
        if not wanted:
            return []
        with self._saying("sign an address for", wanted[0]):
            lasting = timedelta(seconds=good_for_s)
            signed = list(obstore.sign(self._bucket, method, wanted, lasting))  # type: ignore[call-overload]
        if self._url.startswith(AZURE):
            # The library signs the name as it stands in the address, Azure checks the name itself.
            return [url if PLAIN.fullmatch(key) else "" for key, url in zip(wanted, signed, strict=True)]
        return signed

    def put_headers(self) -> dict[str, str]:
        return {"x-ms-blob-type": "BlockBlob"} if self._url.startswith(AZURE) else {}

    def identity(self, fresh: str = "") -> Identity | None:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            with self._saying("give", ID_KEY):
                found = obstore.get(self._bucket, ID_KEY)
                id = bytes(found.bytes()).decode().strip()
                self._known, self._seen_at = True, time.monotonic()
                # A copy of the object has a time of its own, by which it is told from the one that was copied.
                return Identity(id, found.meta["last_modified"].isoformat())
        except NotFound:
            if not fresh:
                return None
        with self._saying("take", ID_KEY), suppress(AlreadyExistsError):
            obstore.put(self._bucket, ID_KEY, fresh.encode(), mode="create")
        return self.identity()

    def local_dir(self) -> str:
        return ""

    def _is_there(self) -> bool:
        """Whether this is still the bucket that it was. Of one that is gone, every object would seem to be missing."""
        return time.monotonic() - self._seen_at < SEEN_S or self.identity() is not None

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
            self.trouble = ""
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            if key != ID_KEY and self._known and not self._is_there():
                self.trouble = (
                    f"the storage {self._url} has lost its id: the bucket is not the one that it was, or gone"
                )
                raise Unavailable(self.trouble) from None
            raise NotFound(f'storage has no object "{key}"') from None
        except (BaseError, OSError) as error:
            self.trouble = f"the storage {self._url} cannot {what} {key}: {_first_line(error)}"
            raise Unavailable(self.trouble) from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:300]


def _proves_conformance(storage: ObjectStorage) -> Storage:
    return storage
