"""Looks at a job that many callers share: those who want the same at the same time wait for one read.

A look is kept until the hub hears news of its job, and only while somebody waits for such news: so two hundred
followers of one log cost as many offsets, not as many threads and reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from headway.core.model import JobId

FRESH_S = 2.0  # A look is made anew after so long even without news: another server may lead by now.
KEPT_MOST = 100  # For each job.
KEPT_BYTES_MAX = 64 << 10
Result = TypeVar("Result")


@dataclass
class Looks:
    """Used in the event loop alone."""

    mono: Callable[[], float]
    _kept: dict[JobId, dict[Hashable, tuple[asyncio.Future[Any], float]]] = field(default_factory=dict)

    async def share(
        self, job: JobId, what: Hashable, look: Callable[[], Result], size: Callable[[Result], int], keep: bool
    ) -> Result:
        """What a look at a job finds: made now, or by somebody else since the last news.

        Whoever asks waits for news of the job afterwards, so what came just before it was heard of is not missed.
        Without `keep`, only looks under way are shared: where no news of the job comes.
        """
        looks = self._kept.setdefault(job, {})
        known = looks.get(what)
        if known is not None and known[1] > self.mono():
            return await asyncio.shield(known[0])
        made = asyncio.ensure_future(run_in_threadpool(look))
        looks[what] = (made, self.mono() + FRESH_S)
        made.add_done_callback(lambda done: self._settle(job, what, done, size, keep))
        return await asyncio.shield(made)

    def forget(self, job: JobId) -> None:
        """There is news of this job, or nobody who waits for any."""
        self._kept.pop(job, None)

    def _settle(
        self, job: JobId, what: Hashable, done: asyncio.Future[Result], size: Callable[[Result], int], keep: bool
    ) -> None:
        failed = done.cancelled() or done.exception() is not None
        looks = self._kept.get(job, {})
        if what not in looks or looks[what][0] is not done:
            return
        if failed or not keep or len(looks) > KEPT_MOST or size(done.result()) > KEPT_BYTES_MAX:
            del looks[what]
        if not looks:
            self._kept.pop(job, None)
