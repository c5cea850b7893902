"""What jobs and nodes use now, asked over the link of a Client."""

from __future__ import annotations

from typing import Any

from headway.client.connection.http import ServerLink


def usage(link: ServerLink, wait_s: float = 2.0) -> dict[str, Any]:
    return dict(link.call("GET", "/usage", query={"wait_s": wait_s}, wait_s=wait_s).json())
