"""What the API's routes work with, and how they wait for things that happen on the control thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from headway.api.content.shared_reads import Looks
from headway.api.content.signed_urls import SignedUrls
from headway.api.web.feature_routes import FeatureRoutes, RouteTable
from headway.api.web.follower_proxy import HERE, HERE_WITHOUT_LEADER, LeaderStanding
from headway.api.web.rights import RIGHTS, UNRECORDED
from headway.api.web.sealed_calls import SealedCalls
from headway.api.web.token_cache import Badges, Recorder
from headway.control.access.audit import Recorded, recording
from headway.control.access.sealing import KeyRing
from headway.control.access.signing_keys import Signing
from headway.control.state.feature import NONE, Features
from headway.control.views.files import price_of
from headway.control.views.leader_port import Asked, LeaderPort
from headway.control.views.snapshot import Published
from headway.core.access.tokens import Signer
from headway.core.files.lost_work import Price
from headway.core.model import JobId, Node
from headway.settings import Settings
from headway.storage.protocol import Storage
from headway.store.protocol import LogRange, Store


@dataclass
class Hub:
    """Wakes whoever waits for events or for a job's output. A waiter costs one future, not a thread."""

    loop: asyncio.AbstractEventLoop | None = None
    last_seq: int = 0
    closed: bool = False  # The server is ending: nobody waits any more.
    _event_waiters: set[asyncio.Future[None]] = field(default_factory=set)
    _log_waiters: dict[JobId, set[asyncio.Future[None]]] = field(default_factory=dict)
    looks: Looks = field(default_factory=lambda: Looks(time.monotonic))
    _pending: list[Published] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, loop: asyncio.AbstractEventLoop, last_seq: int) -> None:
        """Wake waiters in this loop from now on; what was published before it ran is taken up too."""
        self.loop, self.last_seq = loop, max(last_seq, self.last_seq)
        loop.call_soon(self._wake)

    def publish(self, said: Published) -> None:
        """Called on the control thread after each commit."""
        with self._lock:
            first = not self._pending
            self._pending.append(said)
        if first and self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, []
        self.last_seq = max([self.last_seq, *(each.last_seq for each in pending)])
        _resolve(self._event_waiters)
        written = {piece.job for each in pending for piece in each.logs}
        # An attempt that ends without a last word wakes its readers too.
        for job in written.union(*(each.jobs for each in pending)):
            self.looks.forget(job)
            _resolve(self._log_waiters.pop(job, set()))

    def note(self, last_seq: int) -> None:
        """Another server may have written: whoever waits looks again."""
        if last_seq > self.last_seq:
            self.publish(Published(last_seq))

    def let_all_go(self) -> None:
        """The server is ending: whoever waits is answered with what there is."""
        self.closed = True
        for waiters in (self._event_waiters, *self._log_waiters.values()):
            _resolve(waiters)

    async def events_after(self, seq: int, wait_s: float) -> bool:
        """Wait until there is an event after this one."""
        if self.last_seq > seq or self.closed:
            return True
        return await _wait(self._event_waiters, wait_s)

    @contextmanager
    def output_of(self, job: JobId) -> Iterator[asyncio.Future[None]]:
        """A future for the next news of a job. Take it before looking at the output: then nothing is missed."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._log_waiters.setdefault(job, set()).add(waiter)
        try:
            yield waiter
        finally:
            waiter.cancel()
            mine = self._log_waiters.get(job, set())
            mine.discard(waiter)
            if not mine:
                self._log_waiters.pop(job, None)
                self.looks.forget(job)


def _resolve(waiters: set[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()


async def _wait(waiters: set[asyncio.Future[None]], wait_s: float) -> bool:
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiters.add(waiter)
    try:
        await asyncio.wait_for(waiter, wait_s)
    except TimeoutError:
        return False
    finally:
        waiters.discard(waiter)
    return True


@dataclass
class Services:
    settings: Settings
    store: Store
    storage: Storage
    control: LeaderPort
    hub: Hub
    token: str
    agent_zip: bytes
    agent_version: str
    new_id: Callable[[], JobId]
    started_at: float
    now: Callable[[], float]
    mono: Callable[[], float]
    about: dict[str, Any] = field(default_factory=dict)
    standing: LeaderStanding = field(default_factory=LeaderStanding)
    ring: KeyRing = field(default_factory=lambda: KeyRing(Path("secrets.keys"), make=False))
    old_tokens: set[str] = field(default_factory=set)  # Nodes whose last sync was proven with an older key.
    examine: Callable[[], list[dict[str, Any]]] = list  # How the hosts of all pools are.
    release: Callable[[Node], None] = lambda _node: None  # Have an engine give a node back.
    checked_logs: dict[LogRange, None] = field(default_factory=dict)  # Pieces of output that were found to be whole.
    render: Callable[[str, int], dict[str, Any]] = lambda _name, _nodes: {}  # What an order of a pool would send.
    features: Features = NONE
    facades: Mapping[str, FeatureRoutes] = field(default_factory=dict)  # Other systems' APIs.
    parts: dict[str, Any] = field(default_factory=dict)  # What each feature's routes share, by feature.

    @property
    def leading(self) -> bool:
        return self.control.leads

    def stand(self, control: LeaderPort, parts: dict[str, Any] | None = None) -> None:
        """Lead from now on, or no longer. What features knew before may no longer be so."""
        self.control = control
        self.parts = dict(parts) if parts is not None else {}

    def part(self, feature: str) -> Any:
        """What the routes of a feature share; made anew with every change of who leads."""
        if feature not in self.parts:
            self.parts.update(self.new_parts(self.control))
        return self.parts[feature]

    def new_parts(self, control: Any) -> dict[str, Any]:
        made = {name: web.part for name, web in self.webs.items() if web.part is not None}
        return {name: make(self.store, self.storage, control) for name, make in made.items()}

    @cached_property
    def webs(self) -> dict[str, FeatureRoutes]:
        """What features bring to the web server, by feature."""
        found = {each.name: each.web() for each in self.features.every}
        return {**{name: web for name, web in found.items() if web is not None}, **self.facades}

    @property
    def has_sockets(self) -> bool:
        return any(web.sockets for web in self.webs.values())

    @cached_property
    def table(self) -> RouteTable:
        return RouteTable.of(RIGHTS, UNRECORDED, HERE, HERE_WITHOUT_LEADER, list(self.webs.values()))

    @property
    def shared(self) -> bool:
        """Whether users sign in here. Without, all is the house's."""
        return self.settings.accounts == "on"

    @cached_property
    def badges(self) -> Badges:
        return Badges(self.store, self.shared, self.settings.token_cache_s, self.now)

    @cached_property
    def recorder(self) -> Recorder:
        return Recorder(self.store, self.shared, self.now)

    @cached_property
    def signing(self) -> Signing:
        return Signing(self.ring, self.now)

    @property
    def signer(self) -> Signer:
        return self.signing.signer

    @cached_property
    def sealed_calls(self) -> SealedCalls:
        return SealedCalls(lambda: self.signer)

    @cached_property
    def addresses(self) -> SignedUrls:
        return SignedUrls(self.storage, lambda: self.signer.addresses, self.now, self.settings.signed_url_s)

    def price(self) -> Price:
        """What a second of an attempt costs, as the pools say."""
        known = {pool.name: pool for pool in self.store.pools()} if not self.leading else None
        pools = self.control.snapshot.pools if known is None else known
        return price_of(pools, lambda: {node.id: node.pool for node in self.store.nodes()})

    async def do(self, command: Asked) -> Any:
        """Have a command done and saved; with the first of a change, who asked for it."""
        record = recording.get()
        if record is None or record.written:
            return await settled(self.control.do(command))
        done = await settled(self.control.do(Recorded(command, record)))
        record.written = True
        return done

    def end_waiting(self) -> None:
        """Answer every held request, so that the server can end at once."""
        self.hub.let_all_go()
        self.control.let_all_go()


async def settled(future: Future[Any]) -> Any:
    return await asyncio.wrap_future(future)
