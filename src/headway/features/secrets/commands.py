"""Secrets as commands: set, removed, sealed anew; and the values that one task may have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from headway.control.access.sealing import KeyGone, KeyRing
from headway.control.state.transaction import Transaction
from headway.core.errors import BadInput, NotAllowed, NotFound
from headway.core.model import Job
from headway.core.spec.job import JobSpec
from headway.core.spec.secret_references import is_allowed, why_not
from headway.core.spec.secrets import Secret, check_value
from headway.features.secrets.tables import SECRETS, find, secrets_of
from headway.store.protocol import Store


@dataclass(frozen=True, slots=True)
class SetSecret:
    """Keep a secret: `make` seals it for its version. `guarded`: a reference must be one that was allowed."""

    secret: Secret
    make: Callable[[Secret], Secret]
    guarded: bool = False

    def apply(self, tx: Transaction) -> Secret:
        wanted = self.secret
        if wanted.reference and self.guarded and not _allowed(tx.store, wanted):
            raise NotAllowed(*why_not(wanted.reference, wanted.project))
        known = find(tx.store, wanted.project, wanted.name)
        made = self.make(replace(wanted, version=known.version + 1 if known else 1, created_at=tx.now))
        if known is not None:
            tx.drop(SECRETS, *SECRETS.key_of(known))
        tx.put(SECRETS, made)
        return made


@dataclass(frozen=True, slots=True)
class DropSecret:
    project: str
    name: str

    def apply(self, tx: Transaction) -> str:
        known = find(tx.store, self.project, self.name)
        if known is None:
            raise _unknown(tx.store, self.project, self.name)
        tx.drop(SECRETS, *SECRETS.key_of(known))
        return f"{self.project}/{self.name}"


@dataclass(frozen=True, slots=True)
class SealAnew:
    """Seal everything with the newest key. What does not open stops it: nothing may be half rotated unseen."""

    ring: KeyRing

    def apply(self, tx: Transaction) -> int:
        sealed = [each for each in secrets_of(tx.store) if not each.reference]
        for each in [self.ring.seal(each, self.ring.open(each)) for each in sealed]:
            tx.put(SECRETS, each)
        return len(sealed)


def check_uses(store: Store, spec: JobSpec) -> None:
    """Refuse a job that asks for a secret that its project does not have."""
    if not spec.progress.secrets:
        return
    known = {each.name for each in secrets_of(store, spec.project)}
    for use in spec.progress.secrets:
        if use.name not in known:
            error = _unknown(store, spec.project, use.name)
            raise BadInput(f"secrets.{use.variable}: {error.message}", error.hint)


def _unknown(store: Store, project: str, name: str) -> NotFound:
    import difflib

    near = difflib.get_close_matches(name, [each.name for each in secrets_of(store, project)], n=1)
    hint = f'did you mean "{near[0]}"?' if near else f"headway secret set {name} --project {project}"
    return NotFound(f'project "{project}" has no secret "{name[:80]}"', hint)


def _allowed(store: Store, secret: Secret) -> bool:
    """Whether an admin of the server has allowed this reference for its project."""
    known = next((each for each in store.projects() if each.name == secret.project), None)
    return known is not None and is_allowed(secret.reference, known.allowed)


def used_by(store: Store, job: Job) -> list[Secret]:
    """The secrets that a job uses, each once."""
    found: dict[str, Secret] = {}
    for use in job.spec.progress.secrets:
        secret = found.get(use.name) or find(store, job.spec.project, use.name)
        if secret is None:
            raise _unknown(store, job.spec.project, use.name)
        found[use.name] = secret
    return list(found.values())


def value_of(store: Store, ring: KeyRing, resolve: Callable[[str], str], secret: Secret, guarded: bool) -> str:
    """What the ranks of a job get. Blocks: a reference is resolved now, and must still be allowed."""
    if not secret.reference:
        return _opened(ring, secret)
    if guarded and not _allowed(store, secret):
        raise NotFound(*why_not(secret.reference, secret.project))  # For its job it is as if it were not there.
    return _checked(secret, resolve(secret.reference))


def _opened(ring: KeyRing, secret: Secret) -> str:
    try:
        return ring.open(secret)
    except KeyGone:
        # Said without where the file lies, which is the operator's business. To its job it is as if it were not there.
        hint = f"set it again: headway secret set {secret.name} --project {secret.project}"
        raise NotFound(
            f'the secret "{secret.name}" of project "{secret.project}" cannot be opened: its key is gone', hint
        ) from None


def check_opens(store: Store, ring: KeyRing, spec: JobSpec) -> None:
    """Refuse a job whose secret would not open when it begins. What is kept elsewhere is asked for only then."""
    for use in spec.progress.secrets:
        secret = find(store, spec.project, use.name)
        if secret is not None and not secret.reference:
            try:
                _opened(ring, secret)
            except NotFound as error:
                raise BadInput(f"secrets.{use.variable}: {error.message}", error.hint) from None


def _checked(secret: Secret, value: str) -> str:
    """A value that comes from elsewhere: what no variable holds, or nothing could cover in a log, is not given out."""
    try:
        return check_value(value.encode())
    except BadInput as problem:
        raise NotFound(f"{secret.reference}: {problem.message}", problem.hint) from None


def show(secret: Secret) -> dict[str, Any]:
    """All that anybody is told of it."""
    return {
        "project": secret.project,
        "name": secret.name,
        "version": secret.version,
        "kept": secret.reference or f"sealed with key {secret.key_id}",
        "created_by": secret.created_by,
        "created_at": secret.created_at,
    }
