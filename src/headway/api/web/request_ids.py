"""Every call has an id: its client's own, or one made here. What it causes repeats it, and so does the answer."""

from __future__ import annotations

import os

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.control.state import requests

NAME = requests.HEADER.lower().encode()


async def named(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a call under its id. A server that passes the call on passes the id on too."""
    given = next((value for name, value in scope["headers"] if name == NAME), b"")
    id = requests.given(given.decode("latin-1"))
    if not id:
        id = os.urandom(6).hex()
        scope["headers"] = [*(each for each in scope["headers"] if each[0] != NAME), (NAME, id.encode())]

    async def repeat(message: Message) -> None:
        if message["type"] == "http.response.start" and not any(name == NAME for name, _ in message["headers"]):
            message["headers"] = [*message["headers"], (NAME, id.encode())]
        await send(message)

    token = requests.current.set(id)
    try:
        await app(scope, receive, repeat)
    finally:
        requests.current.reset(token)
