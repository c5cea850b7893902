"""Objects as plain files in a folder of this host: key `a/b` is the file `a/b`. No dependency, no cache.

A put is on disk before it returns: written beside its place, synced, renamed, and the directory synced as well. Agents
of this host write into the same folder in the same way. The sibling for buckets is objects.py.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from headway.core.errors import NotFound, Unavailable
from headway.core.files.storage_identity import Identity
from headway.storage.protocol import ID_KEY, Kept, Storage, WrongContent, check_key

# Half-written objects. No key begins with a dot, so nobody can ask for one.
DRAFTS = ".drafts"
DRAFT_KEEP_S = 3600.0
JOIN_BYTES = 4 << 20


class FolderStorage:
    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.trouble = ""
        self._root = Path(root).absolute()
        self._identity: Identity | None = None  # As it was when it was last asked for.
        with self._saying("be opened"):
            self._make_dir(self._root / DRAFTS)
            self._drop_old_drafts()

    def put(self, key: str, data: bytes) -> None:
        path = self._root / check_key(key)
        with self._saying(f"take {key}"):
            self._check_itself()
            with self._draft() as (file, draft):
                file.write(data)
                self._finish(file, draft, path)

    def put_file(self, key: str, path: str) -> None:
        place = self._root / check_key(key)
        with self._saying(f"take {key}"):
            self._check_itself()
            self._make_dir(place.parent)
            with open(path, "rb") as given:
                os.fsync(given.fileno())
            try:
                os.replace(path, place)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                with self._draft() as (file, draft), open(path, "rb") as source:
                    shutil.copyfileobj(source, file, 1 << 20)
                    self._finish(file, draft, place)
            _sync_dir(place.parent)

    def draft_dir(self) -> str:
        return str(self._root / DRAFTS)

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        path = self._root / check_key(key)
        with self._saying(f"give {key}"):
            try:
                with open(path, "rb") as file:
                    file.seek(start)
                    return file.read() if end is None else file.read(max(0, end - start))
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                self._check_itself()
                raise NotFound(f'storage has no object "{key}"') from None

    def size(self, key: str) -> int | None:
        path = self._root / check_key(key)
        with self._saying(f"look for {key}"):
            try:
                found = path.stat() if path.is_file() else None
            except (FileNotFoundError, NotADirectoryError):
                found = None
            if found is None:
                self._check_itself()
            return found.st_size if found else None

    def delete(self, keys: list[str]) -> None:
        for path in [self._root / check_key(key) for key in keys]:
            with self._saying(f"delete {path.name}"):
                try:
                    path.unlink()
                except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                    pass

    def list(self, prefix: str) -> Iterator[Kept]:
        top = prefix.strip("/")
        yield from self._walk(self._root / check_key(top) if top else self._root, f"{top}/" if top else "")

    def join(self, key: str, parts: Sequence[str], sha256: str) -> None:
        place, digest = self._root / check_key(key), hashlib.sha256()
        paths = [self._root / check_key(part) for part in parts]
        with self._saying(f"join {key}"):
            self._check_itself()
            with self._draft() as (file, draft):
                for path in paths:
                    self._append(path, file, digest)
                if digest.hexdigest() != sha256:
                    raise WrongContent(f'the parts of "{key}" are not what was announced')
                self._finish(file, draft, place)

    def identity(self, fresh: str = "") -> Identity | None:
        with self._saying("be asked for its id"):
            self._identity = self._read_identity()
            if self._identity is None and fresh:
                with self._draft() as (file, draft):
                    file.write(fresh.encode())
                    _sync(file)
                    with suppress(FileExistsError):
                        os.link(draft, self._root / ID_KEY)  # Unlike a rename it leaves what somebody else has made.
                    os.unlink(draft)
                _sync_dir(self._root)
                self._identity = self._read_identity()
        return self._identity

    def _read_identity(self) -> Identity | None:
        try:
            with open(self._root / ID_KEY, "rb") as file:
                # A copy of the file has another inode, by which it is told from the one that was copied.
                return Identity(file.read().decode().strip(), str(os.fstat(file.fileno()).st_ino))
        except FileNotFoundError:
            return None

    def _check_itself(self) -> None:
        """Raise when another folder stands in the place of this one: what was mounted there may be gone."""
        if self._identity is None:
            return
        try:
            same = str(os.stat(self._root / ID_KEY).st_ino) == self._identity.copy
        except FileNotFoundError:
            same = False
        if not same:
            raise OSError(errno.ESTALE, "another folder stands in its place; is it mounted?")

    def _append(self, path: Path, file: IO[bytes], digest: hashlib._Hash) -> None:
        try:
            with open(path, "rb") as part:
                while piece := part.read(JOIN_BYTES):
                    digest.update(piece)
                    file.write(piece)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise NotFound(f'storage has no object "{path.relative_to(self._root)}"') from None

    def sign(self, method: str, keys: Sequence[str], good_for_s: float) -> Sequence[str] | None:
        return None  # A folder has no address of its own; the server signs for it (api/content/signed_urls.py).

    def put_headers(self) -> dict[str, str]:
        return {}

    def local_dir(self) -> str:
        return str(self._root)

    def _walk(self, directory: Path, prefix: str) -> Iterator[Kept]:
        with self._saying(f"list {prefix or 'its objects'}"):
            try:
                entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
            except (FileNotFoundError, NotADirectoryError):
                return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if prefix or not entry.name.startswith("."):
                    yield from self._walk(directory / entry.name, f"{prefix}{entry.name}/")
                continue
            if not prefix and entry.name.startswith("."):
                continue
            with suppress(FileNotFoundError):  # Deleted since the directory was read.
                found = entry.stat(follow_symlinks=False)
                yield Kept(prefix + entry.name, found.st_size, found.st_mtime)

    @contextmanager
    def _draft(self) -> Iterator[tuple[IO[bytes], str]]:
        """A file to write an object into, for `_finish`; nothing is left of one that was not finished."""
        handle, draft = tempfile.mkstemp(dir=self._root / DRAFTS)
        try:
            with open(handle, "wb") as file:
                yield file, draft
        except BaseException:
            with suppress(OSError):
                os.unlink(draft)
            raise

    def _finish(self, file: IO[bytes], draft: str, place: Path) -> None:
        """The draft is whole: bring it to the disk, and let it be the object."""
        self._make_dir(place.parent)
        _sync(file)
        os.replace(draft, place)
        _sync_dir(place.parent)

    def _drop_old_drafts(self) -> None:
        """Remove what writers left that ended in the middle of a put. A young draft may still be somebody's."""
        old = time.time() - DRAFT_KEEP_S
        for entry in os.scandir(self._root / DRAFTS):
            with suppress(FileNotFoundError):
                if entry.stat().st_mtime < old:
                    os.unlink(entry)

    def _make_dir(self, directory: Path) -> None:
        """Make a directory and its parents so that they outlive a power cut."""
        if directory.is_dir():
            return
        self._make_dir(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
        _sync_dir(directory.parent)

    @contextmanager
    def _saying(self, what: str) -> Iterator[None]:
        try:
            yield
            self.trouble = ""
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            reason = "the disk is full" if full else (error.strerror or str(error)).lower()
            hint = "free some space; what could not be written is tried again" if full else ""
            self.trouble = f"the storage folder {self._root} cannot {what}: {reason}"
            raise Unavailable(self.trouble, hint) from error


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_dir(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _proves_conformance(storage: FolderStorage) -> Storage:
    return storage
