"""A task's data: fetched once per machine into a cache, checked, shown to the ranks by name; volumes are only checked.

An input is http(s)://, s3://, or a path that is there already. What is in the cache is whole, has the size that was
announced and, where one was given, the hash; a new version at the same address is another entry.
"""

from __future__ import annotations

import hashlib
import os
import time
from functools import partial

from headway_agent import s3, unreachable
from headway_agent.cache import Cache, bytes_max
from headway_agent.preparing import NotHere, PrepareFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

    from headway_agent.preparing import Work

INPUTS_BYTES_MAX = 500 << 30
PART_OF_DISK = 0.4
PIECE_BYTES = 1 << 20
CALL_S_MAX = 60.0
TRIES = 3
PAUSE_S = 0.5
DATA_FILE = "data"


class Remote:
    """One object at an address: how to ask for it, and what it is called here."""

    def __init__(self, url: str, environ: Mapping[str, str]) -> None:
        self.url, self._environ = url, environ
        path = url.partition("://")[2].partition("?")[0].partition("#")[0]
        self.name = os.path.basename(path.rstrip("/")) if "/" in path else DATA_FILE
        if self.name in ("", ".", ".."):
            self.name = DATA_FILE
        scheme = url.partition(":")[0]
        self.http = s3.address(environ, *s3.split(url)) if scheme == "s3" else url

    def open(self, method: str, query: Mapping[str, str] | None = None) -> Any:
        """Send a request and return the open answer. Raises Refused with the status, or OSError."""
        import urllib.error
        import urllib.request

        headers = {}
        if self.url.startswith("s3:"):
            moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            headers = s3.signed(self._environ, method, self.http, moment, query or {})
        url = f"{self.http}?{s3.encoded(query)}" if query else self.http
        request = urllib.request.Request(url, headers=headers, method=method)
        try:
            return urllib.request.urlopen(request, timeout=CALL_S_MAX)
        except urllib.error.HTTPError as error:
            error.close()
            raise Refused(error.code) from None
        except urllib.error.URLError as error:
            if unreachable.UNKNOWN_HOST.search(str(error.reason)):
                raise WrongContent(f"has a host that nobody knows: {error.reason}") from None
            raise OSError(str(error.reason)) from None


class Refused(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"answered {status}")
        self.busy = status in unreachable.BUSY  # It may answer otherwise later.


def provide(work: Work) -> None:
    """Have every input and volume there, and tell the ranks where."""
    for name, path in (work.asked.get("volumes") or {}).items():
        if not os.path.isdir(path):
            what = "is not a directory" if os.path.exists(path) else "is not there"
            raise _missing(f'volume "{name}": {path} {what} on this node')
        work.prepared.env[f"HEADWAY_VOLUME_{name.upper()}"] = path
    for name, asked in (work.asked.get("inputs") or {}).items():
        work.check()
        work.say(f'fetches input "{name}"')
        work.prepared.env[f"HEADWAY_INPUT_{name.upper()}"] = _one(work, name, asked["url"], asked.get("sha256") or "")


def _missing(sentence: str) -> PrepareFailed:
    return PrepareFailed("input_missing", sentence)


def _unreachable(sentence: str) -> PrepareFailed:
    return PrepareFailed("unreachable", sentence)


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
    except (Refused, WrongContent) as problem:
        busy = isinstance(problem, Refused) and problem.busy
        raise (_unreachable if busy else _missing)(f'input "{name}": {shown(url)} {problem}') from None
    except OSError as error:
        if error.errno:  # This machine's disk, not the network.
            raise NotHere(f'input "{name}" could not be stored: {error}') from None
        raise _unreachable(f'input "{name}": {shown(url)} could not be reached: {error}') from None


class WrongContent(Exception):
    """What came is not what was announced."""


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
    remote = Remote(url, work.site.environ)
    key = sha256 or _key(url, _version(remote))

    def make(draft: str) -> dict[str, str]:
        os.mkdir(draft, 0o755)
        _patiently(work, lambda: _download(work, remote, f"{draft}/{remote.name}", sha256))
        return {"url": shown(url), "name": remote.name}

    home, noted = _cache(work).get(key, work.directory, make)
    return os.path.join(home, str(noted.get("name") or remote.name))


def _version(remote: Remote) -> str:
    """What tells this version of the object from others; empty where the server does not say."""
    try:
        with remote.open("HEAD") as answer:
            fields = [answer.headers.get(name) or "" for name in ("ETag", "Last-Modified", "Content-Length")]
    except (Refused, OSError):
        return ""  # Many that answer no HEAD answer a GET: that one decides.
    return " ".join(fields)


def _tree(work: Work, url: str) -> str:
    """All objects below a prefix, as a directory."""
    bucket, prefix = s3.split(url)
    objects: list[tuple[str, str, int]] = []
    token = "begin"
    while token:
        work.check()
        query = s3.list_query(prefix, "" if token == "begin" else token)
        with Remote(f"s3://{bucket}", work.site.environ).open("GET", query) as answer:
            more, token = s3.listed(answer.read().decode("utf-8", "replace"))
        objects += [each for each in more if not each[0].endswith("/")]
    if not objects:
        raise WrongContent("has no objects below it")

    def make(draft: str) -> dict[str, str]:
        os.mkdir(draft, 0o755)
        for key, _, _ in objects:
            path = key[len(prefix) :]
            if path.startswith("/") or ".." in path.split("/") or "\0" in path:
                raise WrongContent(f"has the key {key!r}, which is not a path")
            target = os.path.join(draft, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _patiently(work, partial(_download, work, Remote(f"s3://{bucket}/{key}", work.site.environ), target, ""))
        return {"url": shown(url)}

    home, _ = _cache(work).get(_key(url, repr(sorted(objects))), work.directory, make)
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
        except Refused as problem:
            if not problem.busy or not left:
                raise
        except OSError as error:
            if error.errno or not left:
                raise
        work.check()
        time.sleep(PAUSE_S)


def _download(work: Work, remote: Remote, target: str, sha256: str) -> None:
    digest, count = hashlib.sha256(), 0
    with remote.open("GET") as answer, open(target, "wb") as file:
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
    if announced.isdigit() and int(announced) != count:
        raise OSError(f"the transfer broke off after {count} of {announced} bytes")
    if sha256 and digest.hexdigest() != sha256:
        raise WrongContent(f"has the sha256 {digest.hexdigest()}, not the one that was named")
    os.chmod(target, 0o444)  # Many read it.


def shown(url: str) -> str:
    """The URL without what may be secret in it: user, password, query."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
