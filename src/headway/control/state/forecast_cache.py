"""When waiting jobs will start, kept for some seconds: so that `why`, `ps` and the API say the same, and quickly.

The first steps of a forecast are made at once where the house is small; the rest, and all of a large house, in another
thread over a copy. Part of the book, so only the control thread asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import structlog

from headway.core.model import Job, JobId
from headway.core.scheduling import scheduler
from headway.core.scheduling.scheduler import Changes, Forecast, Outlook, View, Waiting

log = structlog.get_logger()

KEPT_S = 5.0
"""For so long a forecast is good, though the queue has moved on."""
STEPS_MOST = 4000


class Aside:
    """A thread of its own for long work; one piece after the other."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "foresight")

    def __call__(self, work: Callable[[], None]) -> None:
        self._pool.submit(work).add_done_callback(_complain)


def _complain(done: Future[None]) -> None:
    error = done.exception()
    if error is not None:
        log.error("no forecast", error=repr(error))


def at_once(work: Callable[[], None]) -> None:
    work()


@dataclass
class Foresight:
    """The newest forecast, and the smallest changes found so far."""

    elsewhere: Callable[[Callable[[], None]], None] = at_once  # Where long work is done; a server has a thread for it.
    forecast: Forecast | None = None
    outlook: Outlook | None = None  # What the forecast is made of; its maker alone may set the result.
    version: int = -1
    changes: Changes = field(default_factory=dict)
    changes_version: int = -1

    def why(self, jobs: Iterable[Job], view: View, now: float) -> dict[JobId, Waiting]:
        """Why each of these waits, until when, and what would start it now."""
        jobs = list(jobs)
        newest = max((job.submitted_at for job in jobs), default=0.0)
        self._look(view, now, newest)
        if self.changes_version != view.version:
            self.changes, self.changes_version = {}, view.version
        return scheduler.why_all_waiting(jobs, view, now, self.forecast, self.changes)

    def _look(self, view: View, now: float, newest: float) -> None:
        """Make the forecast anew if it is too old, or older than a job that it is to tell of."""
        made_at = self.forecast.made_at if self.forecast is not None else -1.0
        same = self.version == view.version
        if made_at <= now < made_at + KEPT_S and (same or newest < made_at):
            return
        if not view.queued:
            self.forecast, self.outlook = None, None
            return
        small = len(view.active) <= scheduler.SMALL and len(view.rooms) <= scheduler.SMALL
        if not small and self.outlook is not None and now < self.outlook.made_at + KEPT_S:
            return  # One is in the making, or was made just before: a large house can wait.
        outlook = self.outlook = scheduler.outlook(view, now)
        self.version = view.version
        if small:
            self.forecast = outlook.run(None, scheduler.LOOK_AHEAD)
        if not outlook.done:
            self.elsewhere(lambda: self._go_on(outlook))

    def _go_on(self, outlook: Outlook) -> None:
        forecast = outlook.run(None, STEPS_MOST)
        if self.outlook is outlook:
            self.forecast = forecast
