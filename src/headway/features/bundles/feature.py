"""What the spine asks of bundles: that a job has its own, that nobody submits others' code, and what may go."""

from __future__ import annotations

import time
from typing import Any

from headway.control.state.feature import Feature, LeaderOffice
from headway.control.state.transaction import Transaction
from headway.core.model import Job
from headway.features.bundles.commands import take_up
from headway.features.bundles.tables import BUNDLES
from headway.store.tables import Layout

ORPHAN_S = 3600.0
THOROUGH_EVERY_S = 86400.0  # How often contents are looked for that no bundle was ever made of.


class BundlesFeature(Feature):
    name = "bundles"
    layout = Layout((BUNDLES,))

    def take_up(self, job: Job, tx: Transaction) -> None:
        if job.spec.progress.bundle:
            take_up(tx, job)

    def sweep(self, office: LeaderOffice) -> None:
        shelf, mono = office.parts[self.name], time.monotonic()
        thorough = mono >= shelf.thorough_at
        if thorough:
            shelf.thorough_at = mono + THOROUGH_EVERY_S
        shelf.let_go(time.time() - ORPHAN_S, thorough)

    def web(self) -> Any:
        from headway.features.bundles.routes import ROUTES

        return ROUTES


FEATURE = BundlesFeature()
