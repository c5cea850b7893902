"""Whose certificates an agent trusts: the system's own, and those of a file that its engine names."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

CA_FILE = "HEADWAY_AGENT_CA_FILE"


def adopt(path: str) -> None:
    """Trust the certificates of this file too, from now on, where there is one and none was named before."""
    if os.path.isfile(path):
        os.environ.setdefault(CA_FILE, path)


def trusting() -> ssl.SSLContext:
    import ssl

    context = ssl.create_default_context()
    if os.environ.get(CA_FILE):
        context.load_verify_locations(os.environ[CA_FILE])
    return context
