"""Code on the shelf: which contents are known, taking new ones, and letting go of what no bundle names.

Contents are objects `bundles/files/<sha256>`, manifests `bundles/<digest>.json`; that a bundle exists is said by the
store. Whoever takes and whoever lets go exclude each other here, so that nothing vanishes between the look and the use.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from headway.control.files.bundle_objects import content_key, manifest_key, read_bundle
from headway.control.state.transaction import Command
from headway.core.errors import BadInput, Conflict, NotFound
from headway.core.spec.bundle import Manifest
from headway.features.bundles.commands import DropBundles, SaveBundle
from headway.features.bundles.tables import BUNDLES
from headway.storage.protocol import Storage
from headway.store.protocol import Store
from headway.store.tables import Which

LOOKERS = 16
KNOWN_MOST = 2_000_000
MANIFESTS_MOST = 200


def holding_key(owner: str, digest: str) -> str:
    """The mark that somebody has uploaded all of a bundle."""
    return f"bundles/of/{hashlib.sha256(owner.encode()).hexdigest()[:32]}/{digest}"


class Doing(Protocol):
    def do(self, command: Command) -> Future[Any]: ...


@dataclass
class BundleStore:
    store: Store
    storage: Storage
    control: Doing
    _known: dict[str, int] = field(default_factory=dict)  # Contents that are in storage for sure, with their sizes.
    _holdings: dict[str, Holdings] = field(default_factory=dict)  # By owner.
    _contents: dict[str, frozenset[str]] = field(default_factory=dict)  # By bundle.
    _lock: threading.RLock = field(default_factory=threading.RLock)
    thorough_at: float = 0.0  # When contents are looked for next that no bundle names (monotonic).

    def missing(self, contents: Iterable[str]) -> list[str]:
        """Which of these contents are not here, in the order of the question."""
        asked = list(dict.fromkeys(contents))
        with self._lock:
            unsure = [sha256 for sha256 in asked if sha256 not in self._known]
            if unsure:
                sizes = zip(unsure, self._sizes(unsure), strict=True)
                self._note({sha256: size for sha256, size in sizes if size is not None})
            return [sha256 for sha256 in unsure if sha256 not in self._known]

    def _sizes(self, contents: list[str]) -> list[int | None]:
        def size(sha256: str) -> int | None:
            return self.storage.size(content_key(sha256))

        if self.storage.local_dir() or len(contents) < LOOKERS:
            return list(map(size, contents))
        with ThreadPoolExecutor(LOOKERS) as lookers:
            return list(lookers.map(size, contents))

    def _note(self, contents: Mapping[str, int]) -> None:
        if len(self._known) > KNOWN_MOST:
            self._known.clear()
        self._known.update(contents)

    def take(self, sha256: str, size: int, put: Callable[[str], None]) -> None:
        """Keep a content whose hash was checked."""
        with self._lock:
            put(content_key(sha256))
            self._note({sha256: size})

    def take_all(self, contents: Mapping[str, bytes]) -> None:
        """Keep many contents whose hashes were checked; side by side, since each waits for the disk or the network."""
        with self._lock, ThreadPoolExecutor(LOOKERS) as writers:
            fresh = [sha256 for sha256 in contents if sha256 not in self._known]
            list(writers.map(lambda sha256: self.storage.put(content_key(sha256), contents[sha256]), fresh))
            self._note({sha256: len(contents[sha256]) for sha256 in fresh})

    def complete(self, manifest: Manifest) -> None:
        """Put a manifest on the shelf, once all that it names is there."""
        digest = manifest.digest
        with self._lock:
            missing = self.missing(manifest.contents)
            if missing:
                more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
                raise Conflict(f"bundle {digest[:12]}: {missing[0][:12]}{more} was not uploaded", "upload it again")
            self._check_sizes(manifest)
            said = {"files": list(manifest.files), "git": dict(manifest.git)}
            if self.store.row(BUNDLES, digest) is None:
                self.storage.put(manifest_key(digest), json.dumps(said, separators=(",", ":")).encode())
            save = SaveBundle(digest, manifest.size_bytes, len(manifest.files))
            self.control.do(save).result(timeout=60)

    def _check_sizes(self, manifest: Manifest) -> None:
        """A content that is larger than its entry says would fill nodes beyond every limit."""
        for sha256, said in manifest.contents.items():
            if (size := self._known.get(sha256, said)) != said:
                raise BadInput(f"bundle: {sha256[:12]} has {size} bytes, not {said}", "bundle it again")

    def manifest(self, digest: str) -> dict[str, Any]:
        """What a bundle consists of."""
        if self.store.row(BUNDLES, digest) is None:
            raise NotFound(f'no bundle "{digest[:64]}"')
        return {"digest": digest, **read_bundle(self.storage, digest)}

    def contents(self, digest: str) -> frozenset[str]:
        """The hashes of what a bundle consists of; of one that is not there, none."""
        known = self._contents.get(digest)
        if known is None:
            try:
                entries = self.manifest(digest)["files"]
            except NotFound:
                return frozenset()
            if len(self._contents) >= MANIFESTS_MOST:
                self._contents.clear()
            known = self._contents[digest] = frozenset(entry["sha256"] for entry in entries if "sha256" in entry)
        return known

    def of(self, owner: str) -> Holdings:
        """The shelf as one user sees it; as the house does, for the empty name."""
        return self._holdings.setdefault(owner, Holdings(self, owner))

    def let_go(self, unused_since: float, thorough: bool = True) -> int:
        """Drop bundles that nobody has used since then, and every content that is older and that no bundle names.

        Without `thorough`, contents are looked at only when a bundle was dropped.
        """
        with self._lock:
            unused = [
                bundle.digest
                for bundle in self.store.rows(BUNDLES, Which(below={"last_used_at": unused_since}, unused=True))
            ]
            if unused:
                self.control.do(DropBundles(tuple(unused))).result(timeout=60)
            elif not thorough:
                return 0
            left = {bundle.digest for bundle in self.store.rows(BUNDLES)}
            named: set[str] = set()
            for digest in left:
                entries = read_bundle(self.storage, digest)["files"]
                named.update(content_key(entry["sha256"]) for entry in entries if "sha256" in entry)
                named.add(manifest_key(digest))
            old = [kept.key for kept in self.storage.list("bundles") if kept.at < unused_since]
            # A mark stays as long as its bundle.
            gone = [key for key in old if key not in named and not (_is_mark(key) and key.rpartition("/")[2] in left)]
            if gone:
                for key in gone:
                    self._known.pop(key.rpartition("/")[2], None)
                self.storage.delete(gone)
            return len(gone)


def _is_mark(key: str) -> bool:
    return key.startswith("bundles/of/")


@dataclass
class Holdings:
    """What one user is known to have: what they uploaded, now or as part of a bundle of theirs.

    Whether somebody else has uploaded the same content shows nowhere: it is asked for, and taken, once more. Otherwise
    the answer "known" would tell what others have, and a hash would be as good as the content.
    """

    shelf: BundleStore
    owner: str
    _mine: set[str] | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def missing(self, contents: Iterable[str]) -> list[str]:
        if not self.owner:
            return self.shelf.missing(contents)
        with self._lock:
            mine = self._contents()
            asked = list(dict.fromkeys(contents))
            gone = set(self.shelf.missing(sha256 for sha256 in asked if sha256 in mine))
            return [sha256 for sha256 in asked if sha256 not in mine or sha256 in gone]

    def take(self, sha256: str, size: int, put: Callable[[str], None]) -> None:
        self.shelf.take(sha256, size, put)
        if self.owner:
            with self._lock:
                self._contents().add(sha256)

    def take_all(self, contents: Mapping[str, bytes]) -> None:
        self.shelf.take_all(contents)
        if self.owner:
            with self._lock:
                self._contents().update(contents)

    def complete(self, manifest: Manifest) -> None:
        if self.owner and (missing := self.missing(manifest.contents)):
            raise Conflict(f"bundle {manifest.digest[:12]}: {missing[0][:12]} was not uploaded", "upload it again")
        self.shelf.complete(manifest)
        if self.owner:
            self.shelf.storage.put(holding_key(self.owner, manifest.digest), b"")

    def has(self, digest: str) -> bool:
        if not self.owner:
            return True
        return self.shelf.storage.size(holding_key(self.owner, digest)) is not None

    def _contents(self) -> set[str]:
        """All that is in bundles of theirs, read once, and what they uploaded since."""
        if self._mine is None:
            prefix = holding_key(self.owner, "").rstrip("/")
            digests = [kept.key.rpartition("/")[2] for kept in self.shelf.storage.list(prefix)]
            self._mine = set().union(*(self.shelf.contents(digest) for digest in digests))
        return self._mine
