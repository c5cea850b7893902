"""The page of events: when, what, of which job, of which call. Text in, text out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from headway.cli.frame.output import Output, harmless

TOLD_MOST = 80
ENDS = ("JobSucceeded", "JobFailed", "JobCancelled", "JobForgotten")  # Nothing more happens to the job.
MOMENTS = ("not_before", "until")


def events(output: Output, found: Sequence[Mapping[str, Any]], of_all: bool = True) -> str:
    """A row for each; of one job, without its id."""
    heads = ("TIME", "EVENT", *(["JOB"] if of_all else []), "ATTEMPT", "REQUEST", "DETAIL")
    return output.table(heads, [_cells(event, of_all) for event in found])


def line(event: Mapping[str, Any], of_all: bool = True) -> str:
    """One event as it comes, in columns that are wide enough for most."""
    widths = (19, 19, *([8] if of_all else []), 7, 22, 0)
    cells = zip(_cells(event, of_all), widths, strict=True)
    return harmless("  ".join(cell.ljust(width) for cell, width in cells).rstrip())


def _cells(event: Mapping[str, Any], of_all: bool) -> tuple[str, ...]:
    return (
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event["at"])),
        str(event["kind"]),
        *([str(event.get("job") or "-")] if of_all else []),
        str(event.get("attempt") or (event.get("data") or {}).get("attempt") or "-"),
        str(event.get("request") or "-"),
        _told(event.get("data") or {}),
    )


def _told(data: Mapping[str, Any]) -> str:
    """What an event says besides, on the rest of a line."""
    said = ((name, value) for name, value in data.items() if name != "attempt" and value not in (None, "", [], {}))
    words = (f"{name}={_moment(value) if name in MOMENTS else _value(value)}" for name, value in said)
    told = " ".join(" ".join(words).split())
    return told if len(told) <= TOLD_MOST else told[: TOLD_MOST - 1] + "…"


def _moment(value: Any) -> str:
    return time.strftime("%H:%M:%S", time.localtime(value)) if isinstance(value, int | float) else str(value)


def _value(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
