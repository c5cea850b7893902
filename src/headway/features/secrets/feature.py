"""What the spine asks of secrets: whether a job may have those that it names."""

from __future__ import annotations

from typing import Any

from headway.control.state.feature import Feature
from headway.control.state.transaction import Transaction
from headway.core.spec.job import JobSpec
from headway.features.secrets.commands import check_uses
from headway.features.secrets.tables import SECRETS
from headway.store.tables import Layout


class SecretsFeature(Feature):
    name = "secrets"
    layout = Layout((SECRETS,))

    def check(self, spec: JobSpec, tx: Transaction) -> None:
        check_uses(tx.store, spec)

    def web(self) -> Any:
        from headway.features.secrets.routes import ROUTES

        return ROUTES


FEATURE = SecretsFeature()
