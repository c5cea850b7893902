"""The plan carried out: what the scheduler wants becomes signals to jobs, and the view is kept informed of the rules.

The only file between the scheduler's interface (docs/explanation/scheduling.md) and the cycle.
"""

from __future__ import annotations

from headway.control.book import Book
from headway.control.desk import Desk
from headway.core import scheduler
from headway.core.lifecycle import Placed


def tell_view(book: Book) -> None:
    """Queues, licences or the policy changed."""


def carry_out(desk: Desk, now: float) -> None:
    """Plan, and let what it wants happen."""
    desk.touched = set()
    book = desk.book
    for placement in scheduler.plan(book.view, now).placements:
        job = book.jobs[placement.job]
        desk.step(job, Placed(placement.seats, book.trail.step_for(job)))
