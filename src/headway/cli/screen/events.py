"""The page of events: when, what, of which job, of which call. Text in, text out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from headway.cli.frame.output import Output

TOLD_MOST = 80


def events(output: Output, found: Sequence[Mapping[str, Any]]) -> str:
    heads = ("TIME", "EVENT", "JOB", "ATTEMPT", "REQUEST", "DETAIL")
    rows = [
        (
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event["at"])),
            str(event["kind"]),
            str(event.get("job") or "-"),
            str(event.get("attempt") or "-"),
            str(event.get("request") or "-"),
            _told(event.get("data") or {}),
        )
        for event in found
    ]
    return output.table(heads, rows)


def _told(data: Mapping[str, Any]) -> str:
    """What an event says besides, on the rest of a line."""
    words = (f"{name}={_value(value)}" for name, value in data.items() if value not in (None, "", [], {}))
    told = " ".join(" ".join(words).split())
    return told if len(told) <= TOLD_MOST else told[: TOLD_MOST - 1] + "…"


def _value(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
