"""Reading requests: bodies with a size limit, JSON that is an object, bounded numbers."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request

from headway.core.errors import BadInput


async def read_object(request: Request, bytes_max: int, lenient: bool = False) -> dict[str, Any]:
    """The request's JSON object; a body that is too large is refused before it is read whole.

    Leniently, it may hold what JSON cannot say: agents tell of files and metrics as they are.
    """
    raw = await read_body(request, bytes_max)
    try:
        strict: dict[str, Any] = {} if lenient else {"parse_constant": _no_number, "object_pairs_hook": _once}
        body = json.loads(raw, **strict) if raw else {}
        if not lenient and (b"\\ud" in raw or b"\\uD" in raw):
            json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadInput(
            "the body contains an unpaired surrogate", "a surrogate that stands alone is not a text"
        ) from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the body is not JSON: {str(error)[:200]}") from None
    if not isinstance(body, dict):
        raise BadInput("the body is not a JSON object")
    return body


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not a number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two values for one key nobody could say which was meant."""
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(f'the body has the key "{twice[:80]}" twice in one place')
    return made


def refuse_packed(request: Request) -> None:
    """Bodies are never unpacked here: what grows without end while it is read cannot come in."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in ("", "identity"):
        raise BadInput(f'the body has the encoding "{encoding[:40]}"', "send it as it is: packed bodies are not read")


async def read_body(request: Request, bytes_max: int) -> bytes:
    refuse_packed(request)
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > bytes_max:
        raise BadInput(f"the body has {announced} bytes; at most {bytes_max} are read")
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > bytes_max:
            raise BadInput(f"the body is larger than {bytes_max} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def truth(body: dict[str, Any], name: str) -> bool:
    """A truth value of a body; false where it is absent."""
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise BadInput(f'{name}: "{str(value)[:80]}" is neither true nor false')
    return value


def number(body: dict[str, Any], name: str, least: float, most: float) -> float | None:
    """A bounded number of a body, or None where it is absent."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise BadInput(f'{name}: "{str(value)[:80]}" is not a number from {least:g} to {most:g}')
    return float(value)
