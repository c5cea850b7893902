"""What the door remembers: whose tokens were good lately, and which refusals were written down."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from headway.control.access.accounts import actor_for
from headway.control.access.audit import Recording, recording
from headway.core.access.actor import Actor
from headway.core.errors import HeadwayError, for_log
from headway.store.protocol import Store

REMEMBERED_MOST = 20_000
REFUSALS_PER_MINUTE = 60
NOBODY = Actor("unknown", "")

log = structlog.get_logger()


@dataclass
class Badges:
    """Tokens of people. One that was good is taken for good for some seconds, also after another server revoked it."""

    store: Store
    on: bool
    keep_s: float
    now: Callable[[], float]
    _known: dict[bytes, tuple[Actor, float]] = field(default_factory=dict)

    async def look(self, given: bytes) -> Actor | None:
        """The actor of what stands in the header, or None."""
        if not self.on or not given.startswith(b"Bearer hw_"):
            return None
        seen, now = hashlib.sha256(given).digest(), self.now()
        known = self._known.get(seen)
        if known is not None and now < known[1]:
            return known[0]
        text = given[7:].decode("latin-1")
        found = await run_in_threadpool(actor_for, self.store, text, now)
        if found is None:
            self._known.pop(seen, None)
            return None
        actor, until = found
        if len(self._known) >= REMEMBERED_MOST:
            self._known.clear()
        self._known[seen] = (actor, min(until, now + self.keep_s))
        return actor

    def forget(self) -> None:
        """Accounts have changed: look at every token again."""
        self._known.clear()


@dataclass
class Recorder:
    """Writes down changes that no command carried, and refusals; of those at most so many in a minute."""

    store: Store
    on: bool
    now: Callable[[], float]
    _minute: int = 0
    _refusals: int = 0

    @contextmanager
    def watching(self, record: Recording | None) -> Iterator[None]:
        before = recording.set(record)
        try:
            yield
        finally:
            recording.reset(before)

    async def write(self, record: Recording, outcome: str = "done", detail: str = "") -> None:
        record.written = True
        entry = record.entry(self.now(), outcome, detail)
        try:
            await run_in_threadpool(self.store.add_audit, [entry])
        except HeadwayError as error:
            log.error("audit entry not written", what=entry.what, actor=entry.actor, error=for_log(error))

    async def refused(self, record: Recording, why: str) -> None:
        if not self.on or not self._within_limit():
            return
        await self.write(record, "refused", why[:300])

    async def turned_away(self, scope: Scope) -> None:
        """Somebody came without a token, or with one that is not good."""
        if self.on:
            peer = (scope.get("client") or ("",))[0]
            await self.refused(
                Recording(NOBODY, "door.enter", f"{scope['method']} {scope['path']}"[:200]), f"from {peer}"
            )

    def _within_limit(self) -> bool:
        minute = int(self.now() // 60)
        if minute != self._minute:
            self._minute, self._refusals = minute, 0
        self._refusals += 1
        return self._refusals <= REFUSALS_PER_MINUTE
