"""One connection to a server: requests, retries, and problem documents turned into errors.

It knows nothing of jobs. A lost connection is found anew through `locate`, which may start the embedded server again;
a call that may be repeated is repeated until `patience_s` is over. Imports cost time, hence no dataclasses.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from headway.client.connection.http_socket import FileBody, Wire
from headway.client.connection.patience import Acquaintances, hint_for, worth_waiting_s
from headway.core.errors import (
    BadInput,
    Conflict,
    HeadwayError,
    NotAllowed,
    NotFound,
    OperatorError,
    ServerTaken,
    Unavailable,
    UserError,
)
from headway.core.units import show_duration

BASE = "/api/v1"
CONNECT_S_MAX = 5.0
ANSWER_S_MAX = 60.0
SAY_AFTER_S = 1.0
PROXY_ALONE = (502, 503, 504)  # What a proxy says while the server behind it is away.
PAUSE_FIRST_S = 0.05
PAUSE_S_MAX = 1.0

KINDS: dict[str, type[HeadwayError]] = {
    kind.kind: kind
    for kind in (BadInput, Conflict, NotAllowed, NotFound, OperatorError, ServerTaken, Unavailable, UserError)
}
STATUSES: dict[int, type[HeadwayError]] = {
    400: BadInput,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: BadInput,
    422: BadInput,
    503: Unavailable,
}


class Address:
    """Where a server listens, the token that it wants to see, and which certificates are trusted besides.

    `own`: the token is the private one of a home, which is shown only to whoever proves to have it already.
    """

    __slots__ = ("ca_file", "own", "token", "url")

    def __init__(self, url: str, token: str = "", ca_file: str = "", own: bool = False) -> None:
        self.url = url
        self.token = token
        self.ca_file = ca_file
        self.own = own


class Answer:
    """A whole answer: its headers, and a body that was read to its end."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


# Of several things that are waited for, one inside the other: which is worth saying.
PLAIN, WHOLE, TROUBLE = range(3)


class Watch(Protocol):
    """Hears what is being waited for, and when that is over: the innermost first."""

    def begin(
        self, sentence: str | Callable[[], str], after_s: float | None = SAY_AFTER_S, weight: int = PLAIN
    ) -> None: ...
    def end(self) -> None: ...


class NobodyWatches:
    def begin(
        self, sentence: str | Callable[[], str], after_s: float | None = SAY_AFTER_S, weight: int = PLAIN
    ) -> None:
        pass

    def end(self) -> None:
        pass


class NotHeadway(Unavailable):
    """Something answers there, and it is no Headway server."""


class ServerLink:
    """A keep-alive connection that is made when it is needed and made again when it is lost.

    `on_trouble` hears of every failed try; `watch` says what is waited for, when it lasts.
    """

    def __init__(
        self,
        locate: Callable[[], Address],
        patience_s: float = 30.0,
        on_trouble: Callable[[str], None] = lambda sentence: None,
        met: Acquaintances | None = None,
    ) -> None:
        self.locate = locate
        self.patience_s = patience_s
        self.on_trouble = on_trouble
        self.watch: Watch = NobodyWatches()
        self.on_version: Callable[[str, str], None] = lambda url, version: None  # Of a server that answers first.
        self.meanwhile = ""  # What goes on while the server is away, for whoever waits.
        self.met = met  # None: every server is taken for one that was met.
        self._wire: Wire | None = None
        self._address: Address | None = None
        self._base = BASE
        self._turn = 0  # Which of several servers is asked.
        self.several = 1  # How many there are.
        self._met = False  # One of the servers has answered this very link.
        self.abandoned = False
        self._streams: set[Wire] = set()
        self._id, self._calls = os.urandom(4).hex(), 0  # What every call is named by, again and again where need be.

    def _find(self) -> Address:
        """Where to ask: one of the servers, for as long as it answers."""
        found = self.locate()
        urls = [url.strip() for url in found.url.split(",") if url.strip()]
        self.several = max(1, len(urls))
        one = urls[self._turn % len(urls)] if urls else found.url
        return Address(one, found.token, found.ca_file, found.own) if len(urls) > 1 else found

    def another(self) -> ServerLink:
        """A link of its own to the same servers, which begins with the one that answers this one."""
        made = ServerLink(self.locate, self.patience_s, self.on_trouble, self.met)
        made._turn, made._met = self._turn, self._met
        return made

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        *,
        data: bytes | FileBody | None = None,
        once: bool = False,
        wait_s: float = 0.0,
    ) -> Answer:
        """Make a request and return its answer. `once` is for what must not happen twice; `wait_s` for long polls.

        `body` travels as JSON, `data` as it is.
        """
        target = path + _query(query)
        payload = data if body is None else json.dumps(body).encode()
        name = self._name()
        with _Waiting(self, wait_s) as waiting:
            while True:
                try:
                    answer = self._try(method, target, payload, once, ANSWER_S_MAX + wait_s, name)
                    if answer.status < 400:
                        self._meet(answer)
                        return answer
                    assert self._address is not None
                    error = error_from(answer, self._address.url)
                    if isinstance(error, NotHeadway) and answer.status not in PROXY_ALONE:
                        raise error
                    self._meet(answer)
                    if not isinstance(error, Unavailable) or (once and not error.untouched):
                        raise error
                    waiting.after(error, self.patience_s)
                except _Lost as lost:
                    if once and lost.sent:
                        raise Unavailable(f"{lost.error.message}; whether it was carried out is not known") from None
                    waiting.after(lost.error, lost.worth_s)

    def awaited(self) -> str:
        return f"waiting for the server {self._address.url} to answer" if self._address else "looking for the server"

    def _name(self) -> dict[str, str]:
        """The id of one more call: the server repeats it in events and in its log."""
        self._calls += 1
        return {"X-Request-Id": f"{self._id}.{self._calls}"}

    def _meet(self, answer: Answer) -> None:
        if not self._met and self._address is not None:
            if self.met is not None:
                self.met.remember(self._address.url)
            self.on_version(self._address.url, answer.headers.get("headway-version", ""))
        self._met = True

    def _knows(self, url: str) -> bool:
        return self._met or self.met is None or self.met.knows(url)

    def stream(self, path: str, query: Mapping[str, object] | None, headers: Mapping[str, str]) -> Iterator[bytes]:
        """Yield the lines of a stream until it ends; a lost connection ends it with Unavailable."""
        with self._opened(path, query, headers) as (wire, status, found):
            kept = b""
            for piece in wire.body(status, found):
                *lines, kept = (kept + piece).split(b"\n")
                yield from (line.rstrip(b"\r") for line in lines)

    def pieces(self, path: str, query: Mapping[str, object] | None, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield a file from an offset on, each piece with its place; one that is sent whole begins at 0 anyway."""
        asked = {"Range": f"bytes={start}-"} if start else {}
        with self._opened(path, query, asked) as (wire, status, found):
            at = start if status == 206 else 0
            for piece in wire.body(status, found):
                yield at, piece
                at += len(piece)

    @contextmanager
    def _opened(
        self, path: str, query: Mapping[str, object] | None, headers: Mapping[str, str]
    ) -> Iterator[tuple[Wire, int, Mapping[str, str]]]:
        """A connection of its own, with an answer that is read as it comes; a loss is Unavailable."""
        self.watch.begin(self.awaited)
        try:
            address = self._address = self._find()
            wire, status, found = self._begin(address, path + _query(query), headers)
        finally:
            self.watch.end()
        try:
            if status >= 400:
                raise error_from(Answer(status, found, b"".join(wire.body(status, found))), address.url)
            yield wire, status, found
        except OSError as error:
            self._turn += 1
            raise Unavailable(f"the answer of {address.url} broke off: {_plain(error)}") from None
        finally:
            self._let_go(wire)

    def _begin(self, address: Address, target: str, headers: Mapping[str, str]) -> tuple[Wire, int, Mapping[str, str]]:
        wire = None
        try:
            wire, base = _connect(address, CONNECT_S_MAX)
            self._hold(wire)
            asked = {**_headers(address, None), **self._name(), **headers}
            return wire, *wire.begin("GET", base + target, asked, None, ANSWER_S_MAX)
        except OSError as error:
            self._turn += 1
            if wire is not None:
                self._let_go(wire)
            raise Unavailable(f"no answer from {address.url}: {_plain(error)}") from None

    def dial(self) -> tuple[Wire, str, dict[str, str]]:
        """A connection of its own, with the path before every path, and the headers that say who we are.

        To the server that answered last; of several, to the first that takes it.
        """
        first = self._turn
        self.watch.begin(self.awaited)
        try:
            while True:
                address = self._find()
                try:
                    wire, base = _connect(address, CONNECT_S_MAX)
                except OSError as error:
                    self._turn += 1
                    if self._turn - first >= self.several:
                        raise Unavailable(f"no answer from {address.url}: {_plain(error)}") from None
                else:
                    return wire, base, _headers(address, None) | self._name()
        finally:
            self.watch.end()

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def abandon(self) -> None:
        """Hang up under a thread that waits for an answer or a stream: it ends at once, and nothing is tried again."""
        self.abandoned = True
        for wire in (self._wire, *self._streams):
            if wire is not None:
                wire.hang_up()

    def _hold(self, wire: Wire) -> None:
        self._streams.add(wire)
        if self.abandoned:
            wire.hang_up()

    def _let_go(self, wire: Wire) -> None:
        self._streams.discard(wire)
        wire.close()

    def _try(
        self,
        method: str,
        target: str,
        payload: bytes | FileBody | None,
        once: bool,
        answer_s_max: float,
        name: Mapping[str, str],
    ) -> Answer:
        # The server may have closed an idle connection; what must not happen twice goes out on a fresh one.
        if once:
            self.close()
        sent = False
        try:
            if self._wire is None:
                self._address = self._find()
                self._wire, self._base = _connect(self._address, CONNECT_S_MAX)
            if self.abandoned:
                raise ConnectionAbortedError("the call was given up")
            assert self._address is not None
            sent = True
            headers = {**_headers(self._address, payload), **name}
            answer = Answer(*self._wire.ask(method, self._base + target, headers, payload, answer_s_max))
        except OSError as error:
            self.close()
            self._turn += 1
            url = self._address.url if self._address else ""
            known = self._knows(url)
            told = Unavailable(f"no answer from {url}: {_plain(error)}", hint_for(error, known))
            raise _Lost(told, sent, worth_waiting_s(error, self.patience_s, known)) from None
        except BaseException:
            # Half an answer may be left in the connection (Ctrl-C): nobody must take it for the next one.
            self.close()
            raise
        if not self._wire.reusable:
            self.close()
        return answer


class _Lost(Exception):
    """The connection broke: before anything was sent, or after. It is worth so much waiting."""

    def __init__(self, error: Unavailable, sent: bool, worth_s: float) -> None:
        super().__init__(error.message)
        self.error = error
        self.sent = sent
        self.worth_s = worth_s


class _Waiting:
    """The pauses of one call, which grow, until it is no longer worth it. Whoever watches hears of it."""

    def __init__(self, link: ServerLink, wait_s: float) -> None:
        self._link = link
        self._wait_s = wait_s
        self._began_at = time.monotonic()
        self._pause_s = PAUSE_FIRST_S
        self._tries = 0
        self._worth_s = 0.0  # Of several servers, the one that gives the most hope decides.
        self._trouble = ""

    def __enter__(self) -> _Waiting:
        self._link.watch.begin(self._link.awaited, SAY_AFTER_S + self._wait_s)
        return self

    def __exit__(self, *_: object) -> None:
        if self._trouble:
            self._link.watch.end()
        self._link.watch.end()

    def after(self, trouble: HeadwayError, worth_s: float) -> None:
        """Pause before the next try; raises the trouble when there shall be none. Each server is asked once."""
        self._tries += 1
        self._worth_s = max(self._worth_s, worth_s)
        lasted_s = time.monotonic() - self._began_at
        if self._link.abandoned or (lasted_s + self._pause_s >= self._worth_s and self._tries >= self._link.several):
            raise trouble
        self._link.on_trouble(trouble.message)
        if not self._trouble:
            self._link.watch.begin(self._sentence, max(0.0, SAY_AFTER_S - lasted_s), TROUBLE)
        self._trouble = trouble.message
        time.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, PAUSE_S_MAX)

    def _sentence(self) -> str:
        left_s = max(0.0, self._began_at + self._worth_s - time.monotonic())
        said = "; ".join(filter(None, (self._trouble, self._link.meanwhile)))
        return f"{said}; waiting up to {show_duration(left_s)} for it"


def error_from(answer: Answer, url: str) -> HeadwayError:
    """Turn a problem document into the error that the server meant."""
    try:
        problem = json.loads(answer.body)
        kind = str(problem["type"]).rsplit("/", 1)[-1].rsplit(":", 1)[-1]
        message = str(problem.get("detail") or problem.get("title") or f"status {answer.status}")
        hint = str(problem.get("hint") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return NotHeadway(f"{url} answered with status {answer.status}, and not as a Headway server does")
    # No token, or a wrong one: the server may call it what it likes, for the caller it is "not allowed".
    by_status = STATUSES.get(answer.status, HeadwayError)
    error = (by_status if answer.status == 401 else KINDS.get(kind, by_status))(message, hint)
    error.untouched = problem.get("carried_out") is False
    return error


def healthy(url: str, answer_s_max: float = 2.0, ca_file: str = "") -> bool:
    """Whether a Headway server answers there. Needs no token."""
    try:
        wire, base = _connect(Address(url, "", ca_file), answer_s_max)
        try:
            status, _, body = wire.ask("GET", base + "/health", {}, None, answer_s_max)
            return status == 200 and bool(json.loads(body).get("ok"))
        finally:
            wire.close()
    except (OSError, ValueError, AttributeError):
        return False


def _connect(address: Address, connect_s_max: float) -> tuple[Wire, str]:
    try:
        parts = urlsplit(address.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(f'server_url: "{address.url}" is not an address such as http://127.0.0.1:8400')
    wire = Wire(
        parts.hostname, port, secure=parts.scheme == "https", connect_s_max=connect_s_max, ca_file=address.ca_file
    )
    base = parts.path.rstrip("/") + BASE
    if address.own and address.token and parts.scheme == "http":
        _prove(wire, base, address, port)
    return wire, base


def _prove(wire: Wire, base: str, address: Address, port: int) -> None:
    """Whoever has the port of a server that is down must not be shown its token."""
    import hmac
    import secrets

    from headway.core.access.tokens import proof

    nonce = secrets.token_hex(16)
    try:
        _, _, body = wire.ask("GET", f"{base}/health?nonce={nonce}", {}, None, ANSWER_S_MAX)
        shown = str(json.loads(body).get("proof") or "")
    except (ValueError, AttributeError):
        shown = ""
    except OSError:
        wire.close()
        raise
    if not hmac.compare_digest(proof(address.token, nonce, port).encode(), shown.encode()):
        wire.close()
        raise NotAllowed(
            f"{address.url} does not prove to be this home's server, so its token was not shown",
            "headway server restart, if it is of an older version; or sign in there: headway login",
        )


def _headers(address: Address, payload: bytes | FileBody | None) -> dict[str, str]:
    headers = {"Accept": "application/json"}
    if address.token:
        headers["Authorization"] = f"Bearer {address.token}"
    if payload is not None:
        headers["Content-Type"] = "application/json"
    return headers


def _query(query: Mapping[str, object] | None) -> str:
    given = {name: value for name, value in (query or {}).items() if value not in (None, "")}
    return "?" + urlencode(given, doseq=True) if given else ""


def _plain(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error).lower() or type(error).__name__
