"""Where secrets are kept: the newest version of each, sealed."""

from __future__ import annotations

from headway.core.spec.secrets import Secret
from headway.store.protocol import Store
from headway.store.tables import Table, Which

SECRETS = Table("secrets", Secret, key=("project", "name", "version"))


def secrets_of(store: Store, project: str = "") -> list[Secret]:
    """The secrets of one project, or of all."""
    return store.rows(SECRETS, Which(equal={"project": project} if project else {}))


def find(store: Store, project: str, name: str) -> Secret | None:
    found = store.rows(SECRETS, Which(equal={"project": project, "name": name}, backwards=True, limit=1))
    return found[0] if found else None
