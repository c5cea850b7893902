"""Tells the service manager that started us how we are: one datagram to the socket that it named (sd_notify)."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

import structlog

log = structlog.get_logger()
SOCKET = "NOTIFY_SOCKET"


def announce_ready(url: str, env: MutableMapping[str, str] = os.environ) -> None:
    """From now on calls are answered at this address: `systemctl start` may return, where that is what started us."""
    log.info("server started", url=url, pid=os.getpid())
    name = env.pop(SOCKET, "")  # It is for us alone: nobody whom we start inherits it.
    if not name.startswith(("/", "@")):
        return
    address = "\0" + name[1:] if name.startswith("@") else name
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as way:
            way.connect(address)
            way.sendall(f"READY=1\nMAINPID={os.getpid()}".encode())
    except OSError as error:
        log.warning("the service manager was not told", error=error.strerror or str(error))
