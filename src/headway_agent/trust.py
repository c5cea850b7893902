"""Whose certificates an agent trusts: the system's own, and those of a file that its engine names."""

from __future__ import annotations

import os
import ssl

CA_FILE = "HEADWAY_AGENT_CA_FILE"


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    if os.environ.get(CA_FILE):
        context.load_verify_locations(os.environ[CA_FILE])
    return context
