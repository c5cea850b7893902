"""A task's data: fetched once per machine into a cache, checked, shown to the ranks by name; volumes are only checked.

An input is http(s)://, s3://, or a path that is there already. What is in the cache is whole, has the size that was
announced and, where one was given, the hash; a new version at the same address is another entry.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from functools import partial

from headway_agent.prepare import s3
from headway_agent.prepare.cache import Cache, bytes_max
from headway_agent.prepare.download import DownloadRefused, RemoteFile, WrongDownload, bare, etag, shown
from headway_agent.prepare.steps import NotHere, StepFailed
from headway_wire import causes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

    from headway_agent.prepare.steps import Work

INPUTS_BYTES_MAX = 500 << 30
PART_OF_DISK = 0.4
PIECE_BYTES = 1 << 20
TRIES = 3
PAUSE_S = 0.5


class NewerInput(Exception):
    """Another version of the object came than the one that was asked about."""


def provide(work: Work) -> None:
    """Have every input and volume there, and tell the ranks where."""
    for name, path in work.asked.volumes.items():
        if not os.path.isdir(path):
            what = "is not a directory" if os.path.exists(path) else "is not there"
            raise _missing(f'volume "{name}": {path} {what} on this node')
        work.prepared.env[f"HEADWAY_VOLUME_{name.upper()}"] = path
    for name, asked in work.asked.inputs.items():
        work.check()
        work.say(f'fetches input "{name}"')
        work.prepared.env[f"HEADWAY_INPUT_{name.upper()}"] = _one(work, name, asked.url, asked.sha256)


def _missing(sentence: str) -> StepFailed:
    return StepFailed(causes.INPUT_MISSING, sentence)


def _unreachable(sentence: str) -> StepFailed:
    return StepFailed(causes.UNREACHABLE, sentence)


def _one(work: Work, name: str, url: str, sha256: str) -> str:
    if url.startswith(("/", "file:///")):
        return _in_place(work, name, url[len("file://") :] if url.startswith("file:") else url, sha256)
    if not url.startswith(("http://", "https://", "s3://")):
        scheme = url.partition(":")[0]
        raise _missing(f'input "{name}": {shown(url)}: {scheme}:// cannot be fetched; http, https, s3 and paths can')
    try:
        if url.startswith("s3://") and (url.endswith("/") or not s3.split(url)[1]):
            return _tree(work, url)
        return _file(work, url, sha256)
    except (DownloadRefused, WrongDownload) as problem:
        busy = isinstance(problem, DownloadRefused) and problem.busy
        raise (_unreachable if busy else _missing)(f'input "{name}": {shown(url)} {problem}') from None
    except OSError as error:
        if error.errno:  # This machine's disk, not the network.
            raise NotHere(f'input "{name}" could not be stored: {error}') from None
        raise _unreachable(f'input "{name}": {shown(url)} could not be reached: {error}') from None


def _in_place(work: Work, name: str, path: str, sha256: str) -> str:
    if not os.path.exists(path):
        raise _missing(f'input "{name}": {path} is not there on this node')
    if sha256 and os.path.isfile(path):
        digest = hashlib.sha256()
        with open(path, "rb") as file:
            for piece in iter(lambda: file.read(PIECE_BYTES), b""):
                work.check()
                digest.update(piece)
        if digest.hexdigest() != sha256:
            raise _missing(f'input "{name}": {path} has the sha256 {digest.hexdigest()}, not the one that was named')
    return path


def _file(work: Work, url: str, sha256: str) -> str:
    remote = RemoteFile(url, work.site.environ)
    for _ in range(TRIES - 1):
        with contextlib.suppress(NewerInput):
            return _version_of_file(work, remote, sha256, strict=True)
    # Twins behind one address may never agree on a name for what is the same.
    return _version_of_file(work, remote, sha256, strict=False)


def _version_of_file(work: Work, remote: RemoteFile, sha256: str, strict: bool) -> str:
    version, tag = _version(remote)
    key = sha256 or _key(remote.url, version)

    def make(draft: str) -> dict[str, Any]:
        os.mkdir(draft, 0o755)
        target = f"{draft}/{remote.name}"
        _patiently(work, lambda: _download(work, remote, target, sha256, tag if strict and not sha256 else ""))
        return {"url": shown(remote.url), "name": remote.name, "size": os.path.getsize(target)}

    def whole(noted: Mapping[str, Any]) -> bool:
        """Still as long as it was: a task may write where it should only read."""
        try:
            return os.path.getsize(place(noted)) == int(noted.get("size", -1))
        except OSError:
            return False

    def place(noted: Mapping[str, Any]) -> str:
        return os.path.join(cache.path(key), str(noted.get("name") or remote.name))

    cache = _cache(work)
    return place(cache.get(key, work.directory, make, fresh=whole, check=work.check)[1])


def _version(remote: RemoteFile) -> tuple[str, str]:
    """What tells this version of the object from others, and its etag; empty where the server does not say."""
    try:
        with remote.open("HEAD") as answer:
            fields = [answer.headers.get(name) or "" for name in ("ETag", "Last-Modified", "Content-Length")]
            return " ".join(fields), etag(answer.headers)
    except (DownloadRefused, OSError):
        return "", ""  # Many that answer no HEAD answer a GET: that one decides.


def _tree(work: Work, url: str) -> str:
    """All objects below a prefix, as a directory."""
    bucket, prefix = s3.split(url)
    objects: list[tuple[str, str, int]] = []
    token = "begin"
    while token:
        work.check()
        query = s3.list_query(prefix, "" if token == "begin" else token)
        with RemoteFile(f"s3://{bucket}", work.site.environ).open("GET", query) as answer:
            more, token = s3.listed(answer.read().decode("utf-8", "replace"))
        objects += [each for each in more if not each[0].endswith("/")]
    if not objects:
        raise WrongDownload("has no objects below it")

    def make(draft: str) -> dict[str, str]:
        os.mkdir(draft, 0o755)
        for key, tag, _ in objects:
            path = key[len(prefix) :]
            if path.startswith("/") or ".." in path.split("/") or "\0" in path:
                raise WrongDownload(f"has the key {key!r}, which is not a path")
            target = os.path.join(draft, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            remote = RemoteFile(f"s3://{bucket}/{key}", work.site.environ)
            _patiently(work, partial(_download, work, remote, target, "", bare(tag)))
        return {"url": shown(url)}

    try:
        home, _ = _cache(work).get(_key(url, repr(sorted(objects))), work.directory, make, check=work.check)
    except NewerInput:
        raise OSError("objects in it were changed while they were fetched") from None
    return home


def _cache(work: Work) -> Cache:
    root = os.path.join(work.site.cache_dir, "inputs")
    return Cache(root, bytes_max(work.site.environ, "INPUTS", INPUTS_BYTES_MAX, PART_OF_DISK, root))


def _key(url: str, version: str) -> str:
    return hashlib.sha256(f"{url}\0{version}".encode()).hexdigest()


def _patiently(work: Work, fetch: Callable[[], None]) -> None:
    """Try again what the network or a busy server spoiled; not what the server refuses."""
    for left in reversed(range(TRIES)):
        try:
            fetch()
            return
        except DownloadRefused as problem:
            if not problem.busy or not left:
                raise
        except OSError as error:
            if error.errno or not left:
                raise
        work.check()
        time.sleep(PAUSE_S)


def _download(work: Work, remote: RemoteFile, target: str, sha256: str, tag: str) -> None:
    digest, count = hashlib.sha256(), 0
    with remote.open("GET") as answer, open(target, "wb") as file:
        if tag and (etag(answer.headers) or tag) != tag:
            raise NewerInput
        announced = answer.headers.get("Content-Length") or ""
        while True:
            work.check()
            try:
                piece = answer.read(PIECE_BYTES)
            except Exception as error:
                raise OSError(f"the transfer broke off after {count} bytes: {type(error).__name__}") from None
            if not piece:
                break
            digest.update(piece)
            count += len(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())  # That it is whole is noted durably: so it must be.
    if announced.isdigit() and int(announced) != count:
        raise OSError(f"the transfer broke off after {count} of {announced} bytes")
    if sha256 and digest.hexdigest() != sha256:
        raise WrongDownload(f"has the sha256 {digest.hexdigest()}, not the one that was named")
    os.chmod(target, 0o444)  # Many read it.
