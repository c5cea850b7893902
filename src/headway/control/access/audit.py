"""Who changed what: an entry that travels with a command into the same commit."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from headway.control.state.transaction import Command, Transaction
from headway.core.access.accounts import AuditEntry
from headway.core.access.actor import Actor

TARGET_MAX = 500


@dataclass
class Recording:
    """The change that a request is about to make, until it is written down."""

    actor: Actor
    what: str
    target: str = ""
    project: str = ""
    written: bool = False
    detail: str = ""

    def entry(self, at: float, outcome: str = "done", detail: str = "") -> AuditEntry:
        actor, target, detail = self.actor, self.target[:TARGET_MAX], detail or self.detail
        return AuditEntry(at, actor.name, actor.kind, self.what, target, self.project, outcome, detail, actor.token)


recording: ContextVar[Recording | None] = ContextVar("recording", default=None)
"""Of the request that is being answered; None where nothing is written down."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A command whose entry is saved with it: both, or neither."""

    command: Command
    of: Recording

    def apply(self, tx: Transaction) -> Any:
        result = self.command.apply(tx)
        entry = self.of.entry(tx.now)
        if not entry.target:
            entry = replace(entry, target=_named(result)[:TARGET_MAX])
        tx.audit.append(entry)
        tx.audit_jobs.append(tx.touched)
        return result


def _named(result: object) -> str:
    """What a command made, by its name."""
    if isinstance(result, str):
        return result
    if isinstance(result, list):
        more = f" and {len(result) - 10:,} more" if len(result) > 10 else ""
        return ", ".join(str(each) for each in result[:10]) + more
    for word in ("id", "name", "prefix"):
        if isinstance(found := getattr(result, word, None), str):
            return found
    return ""
