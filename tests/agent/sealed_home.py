"""The server's half of sealed calls, for small servers of tests: what a real one does is api/web/sealed_calls.py."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

HELLO = b'{"challenge": "c"}'


def proven(token: str, method: str, path: str, headers: Mapping[str, str]) -> bool:
    """Whether a request was made by whoever has this token."""
    words = headers.get("Authorization", "").split(" ")
    if len(words) != 5 or words[:2] != ["Headway", token.partition(".")[0]]:
        return False
    challenge = "" if words[2] == "-" else words[2]
    content, part = headers.get("Headway-Sha256", ""), headers.get("Range", "")
    said = "\n".join(("request", method, path, challenge, words[3], content, part))
    return hmac.compare_digest(_mark(token, said), words[4])


def seal(token: str, headers: Mapping[str, str], status: int, body: bytes) -> dict[str, str]:
    """The header that seals an answer."""
    words = headers.get("Authorization", "").split(" ")
    number = words[3] if len(words) == 5 else ""
    return {"Headway-Seal": _mark(token, f"answer\n{number}\n{status}\n{hashlib.sha256(body).hexdigest()}")}


def _mark(token: str, said: str) -> str:
    return hmac.digest(token.encode(), said.encode(), "sha256").hex()
