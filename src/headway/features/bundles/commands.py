"""What changes the notes about bundles: one is complete, is taken up by a job, or goes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headway.control.state.transaction import Transaction
from headway.core.errors import BadInput
from headway.core.model import Job
from headway.features.bundles.tables import BUNDLES, Bundle
from headway.store.protocol import SharesUsed

TOUCH_EVERY_S = 600.0


@dataclass(frozen=True, slots=True)
class SaveBundle:
    """A bundle is complete in storage: from now on jobs may name it."""

    digest: str
    bytes: int
    files: int

    def apply(self, tx: Transaction) -> None:
        known = tx.row(BUNDLES, self.digest)
        created_at = known.created_at if known else tx.now
        tx.put(BUNDLES, Bundle(self.digest, self.bytes, self.files, created_at, tx.now))


@dataclass(frozen=True, slots=True)
class DropBundles:
    """Bundles that no job uses leave the store. One that a job has just taken up stays."""

    digests: tuple[str, ...]

    def apply(self, tx: Transaction) -> None:
        for digest in self.digests:
            tx.drop(BUNDLES, digest)


def take_up(tx: Transaction, job: Job) -> None:
    """A new job uses its bundle; refused when that is not there."""
    digest = job.spec.progress.bundle
    bundle = tx.row(BUNDLES, digest)
    if bundle is None:
        raise BadInput(f'bundle: there is no bundle "{digest[:12]}…" on this server', "upload it again, then submit")
    tx.keep.uses.append(SharesUsed(job.id, "bundle", digest))
    if tx.now - bundle.last_used_at > TOUCH_EVERY_S:
        tx.put(BUNDLES, replace(bundle, last_used_at=tx.now))
