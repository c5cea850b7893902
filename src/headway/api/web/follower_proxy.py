"""The front of a server that does not lead: what the store can answer is answered here, the rest is passed on.

Callers need not know who leads. Only agents are sent to the leader themselves (421 with its address): what they say and
hear must not go through a third party that could hold it back. While nobody leads, a request waits a little.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.api.content import problems
from headway.api.web.feature_routes import RouteTable
from headway.api.web.leader_connections import LeaderWire, LeaderWires
from headway.core.errors import BadInput, NotLeader, Unavailable

LEADER_S_MAX = 8.0  # How long a request waits for a leader.
AGENT_S_MAX = 2.0
PIECE_BYTES = 64 << 10
PASSED = b"headway-passed"

# Read from store and storage alone. Whatever is not named here is the leader's, so a new route is right from the start.
HERE = (
    r"/agent\.pyz|/agent/hello|/agent/objects/.+"
    r"|/api/v1/(health|openapi\.json|events|events/page|arrays/[^/]+(/counts)?"
    r"|jobs/[^/]+/(logs|checkpoints|checkpoints/\d+/(raw|files)|artifacts|artifacts/raw|diff/[^/]+))"
)
# The leader knows more of it (why a job waits, what was just written); without one, the store's word is good enough.
HERE_WITHOUT_LEADER = r"/api/v1/(server|jobs|jobs/[^/]+|jobs/[^/]+/(wait|logs/raw))"
PER_HOP = frozenset(
    {b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"te", b"trailer", b"expect", b"host", PASSED}
)


@dataclass
class LeaderStanding:
    """Whether this server leads, or who does. Changed by the leadership's thread, waited on in the event loop."""

    leading: bool = True
    leader: str = ""  # The address of another server that leads.
    loop: asyncio.AbstractEventLoop | None = None
    proofs: Callable[[str, str], list[str]] | None = None  # What a leader at an address must answer to a nonce.
    _waiters: set[asyncio.Future[None]] = field(default_factory=set)

    def change(self, leading: bool, leader: str) -> None:
        if (leading, leader) == (self.leading, self.leader):
            return
        self.leading, self.leader = leading, leader
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def changed(self) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter.add_done_callback(self._waiters.discard)
        self._waiters.add(waiter)
        return waiter

    async def known(self, within_s: float, otherwise: str = "") -> bool:
        """Wait until somebody leads, other than the one who was just found not to."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + within_s
        while not self.leading and self.leader in ("", otherwise):
            waiter = self.changed()
            await asyncio.wait([waiter], timeout=give_up_at - loop.time())
            if not waiter.done():
                waiter.cancel()
                return False
        return True


class LeaderGone(Exception):
    """The leader did not answer, or not to the end."""


class Front:
    """Answers, passes on, or points to the leader."""

    def __init__(self, app: ASGIApp, standing: LeaderStanding, table: RouteTable) -> None:
        self._app = app
        self._standing = standing
        self._table = table
        self._wires = LeaderWires(lambda url, nonce: standing.proofs(url, nonce) if standing.proofs else [])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reads = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if scope["type"] != "http" or self._standing.leading or (reads and self._table.here.fullmatch(scope["path"])):
            await self._app(scope, receive, send)
        elif scope["path"].startswith("/agent/"):
            await self._point(scope, receive, send)
        else:
            await self._pass_on(
                scope, receive, send, reads and bool(self._table.here_without_leader.fullmatch(scope["path"]))
            )

    async def _point(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._standing.known(AGENT_S_MAX)
        if self._standing.leading:
            await self._app(scope, receive, send)
            return
        leader = self._standing.leader
        answer = problems.problem(421, NotLeader.kind, NotLeader(leader).message, leader=leader)
        await answer(scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, here_at_need: bool) -> None:
        standing = self._standing
        passed = any(name == PASSED for name, _ in scope["headers"])
        passing = _Passing(scope, receive, send, self._wires)
        dead = ""
        # A reader may ask the next leader after the first has gone; of a change, nobody knows whether it was made.
        for _ in range(2 if here_at_need or scope["method"] == "GET" else 1):
            if passed or not await standing.known(LEADER_S_MAX, dead):
                break
            if standing.leading:
                await self._app(scope, passing.again, send)
                return
            dead = standing.leader
            try:
                await passing.to(dead, standing.changed)
                return
            except BadInput as refused:
                await problems.of(refused)(scope, receive, send)
                return
            except LeaderGone:
                if passing.begun:
                    raise
        if here_at_need:
            await self._app(scope, passing.again, send)
            return
        said = "the leader went away; whether the request was carried out is not known" if dead else "no server leads"
        error = Unavailable(f"{said} at the moment", "try again")
        error.untouched = not dead
        answer = problems.of(error)
        await answer(scope, receive, send)


class _Passing:
    """One request on its way to the leader."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, wires: LeaderWires) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._wires = wires
        self._heard: list[Message] = []
        self.begun = False

    async def again(self) -> Message:
        """The request's messages anew, for somebody else who reads it."""
        return self._heard.pop(0) if self._heard else await self._receive()

    async def to(self, url: str, changed: Callable[[], asyncio.Future[None]]) -> None:
        """Pass the request on and its answer back; given up when another server takes the lead."""
        new_leader = changed()
        work = asyncio.ensure_future(self._exchange(url))
        gone = asyncio.ensure_future(self._caller_gone()) if self._scope["method"] in ("GET", "HEAD") else None
        waited = {work, new_leader} | ({gone} if gone else set())
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            elif not (gone and gone.done()):
                raise LeaderGone(url)
        except h11.LocalProtocolError as error:
            raise BadInput(f"the request cannot be passed on to the leader: {error}") from error
        except (OSError, TimeoutError, h11.RemoteProtocolError) as error:
            raise LeaderGone(str(error)) from error
        finally:
            for each in waited:
                each.cancel()
            await asyncio.gather(*waited, return_exceptions=True)

    async def _caller_gone(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return
            self._heard.append(message)

    async def _exchange(self, url: str) -> None:
        wire = await self._wires.take(url)
        try:
            await self._ask(wire)
        except (OSError, h11.RemoteProtocolError):
            # A connection that was kept may have been closed this very moment. A question may be asked again on a new
            # one; of a change nobody knows whether it was made, as when the leader dies.
            if not wire.used or self.begun or self._scope["method"] not in ("GET", "HEAD"):
                raise
            await self._ask(await self._wires.take(url, fresh=True))

    async def _ask(self, wire: LeaderWire) -> None:
        try:
            await self._say(wire.http, wire.writer, wire.parts.netloc, wire.parts.path.rstrip("/"))
            await self._answer(wire.http, wire.reader)
        except BaseException:
            wire.close()
            raise
        self._wires.give_back(wire)

    async def _say(self, connection: h11.Connection, writer: asyncio.StreamWriter, host: str, prefix: str) -> None:
        scope = self._scope
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        target = prefix.encode() + raw + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        has_body = scope["method"] not in ("GET", "HEAD")
        # A leader does not read what comes with a question; so it is not passed on, nor is its length.
        dropped = PER_HOP if has_body else PER_HOP | {b"content-length"}
        headers = [(name, value) for name, value in scope["headers"] if name.lower() not in dropped]
        if has_body and not any(name.lower() == b"content-length" for name, _ in headers):
            headers.append((b"transfer-encoding", b"chunked"))
        headers += [(b"host", host.encode()), (PASSED, b"1")]
        writer.write(connection.send(h11.Request(method=scope["method"], target=target, headers=headers)) or b"")
        more = has_body
        try:
            while more:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionAbortedError("the caller has gone")
                writer.write(connection.send(h11.Data(data=message.get("body", b""))) or b"")
                await writer.drain()
                more = message.get("more_body", False)
            writer.write(connection.send(h11.EndOfMessage()) or b"")
            await writer.drain()
        except (BrokenPipeError, ConnectionResetError):
            pass  # It may have answered before it has read everything.

    async def _answer(self, connection: h11.Connection, reader: asyncio.StreamReader) -> None:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(PIECE_BYTES))
            elif isinstance(event, h11.Response):
                self.begun = True
                headers = [(name, value) for name, value in event.headers if name not in PER_HOP]
                await self._send({"type": "http.response.start", "status": event.status_code, "headers": headers})
            elif isinstance(event, h11.Data):
                await self._send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
            elif isinstance(event, h11.EndOfMessage):
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            elif isinstance(event, h11.ConnectionClosed):
                raise ConnectionResetError("the leader closed the connection")
