"""Whose code is whose: what somebody has uploaded, and what jobs that they may see run."""

from __future__ import annotations

from headway.api.web.services import Services
from headway.core.access.actor import Actor
from headway.core.errors import BadInput
from headway.core.spec.job import JobSpec
from headway.features.bundles.shelf import BundleStore, Holdings


def holdings(services: Services, actor: Actor) -> Holdings:
    """What is known of an actor's code."""
    shelf: BundleStore = services.part("bundles")
    return shelf.of(owner_of(actor))


def admit(services: Services, actor: Actor, spec: JobSpec) -> None:
    """Refuse a job that would run code which its submitter may not know of."""
    bundle = spec.progress.bundle
    if bundle and not is_readable(services, actor, bundle):
        raise BadInput(f'bundle: there is no bundle "{bundle[:12]}…" on this server', "upload it again, then submit")


def is_readable(services: Services, actor: Actor, bundle: str) -> bool:
    """Whether it is theirs, or a job that they may see runs it."""
    if actor.admin or holdings(services, actor).has(bundle):
        return True
    store = services.store
    return any(actor.sees(job.spec.project) for job in store.jobs(store.users("bundle", bundle)[-100:]))


def owner_of(actor: Actor) -> str:
    """Under which name the shelf knows what somebody has uploaded; empty for those who may know of everything."""
    return "" if actor.admin else f"{actor.kind}:{actor.name}"
