"""At a server's start: is storage the place where the objects of this database are? And at a term's: which turn is it?

Storage is asked once, when the process starts, for a leader that takes over has no time to wait for it. What follows
from its answer is decided in core/files/storage_identity.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from headway.core.errors import ServerTaken, Unavailable
from headway.core.files.storage_identity import Identity, Place, recognise, recognise_silent
from headway.core.job.events import Event
from headway.storage.protocol import Storage
from headway.store.protocol import Batch, Setup, Store

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class FoundStorage:
    """What storage said of itself: who it is, or why it did not answer."""

    at: str
    identity: Identity | None
    fresh: str  # An id that nobody else has.
    silent_because: str = ""

    def place(self, places: list[Place], accept: bool = False) -> Place:
        """The place that it is, for a database that knows these. Raises StrangePlace."""
        if self.silent_because:
            return recognise_silent(places, self.at, time.time(), self.fresh, self.silent_because)
        return recognise(places, self.identity, self.at, time.time(), accept)

    def settle(self, store: Store, epoch: int | None = None, accept: bool = False) -> Place:
        """The place of the objects, with a new turn saved where there is one."""
        places = store.places()
        place = self.place(places, accept)
        if place.turn and place not in places:
            data = {"at": place.at, "storage": place.mark, "before": places[-1].at if places else ""}
            happened = [Event("StorageChanged", place.since, data=data)] if places else []
            store.commit(Batch(setup=Setup(places=[place]), events=happened), epoch)
        return place


def look(
    store: Store, storage: Storage, at: str, new_id: Callable[[], str], accept: bool = False, alone: bool = True
) -> FoundStorage:
    """Ask storage who it is; it is given an id where it has none and may be taken. Raises StrangePlace.

    Where a server is not `alone` on its database, another place is accepted only while none leads.
    """
    places, fresh = store.places(), new_id()
    try:
        found = FoundStorage(at, storage.identity(fresh if accept or not places else ""), fresh)
    except Unavailable as error:
        log.warning("storage not asked for its id", error=error.message)
        found = FoundStorage(at, None, fresh, error.message)
    if accept and found.place(places, accept) not in places:
        glance = store.glance()
        if not alone and glance.lead is not None and glance.lead.until > glance.now:
            raise ServerTaken(f"{glance.lead.server} leads on this database", "stop all servers before storage changes")
        found.settle(store, accept=True)
    found.place(store.places())
    return found
