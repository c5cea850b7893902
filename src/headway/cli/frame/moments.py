"""Moments as people write them: `10m` ago, `14:30` today, `2026-11-18`, `2026-11-18 14:30`, or with a time zone.

Without a zone they are of this machine's. What a moment is for is the command's business.
"""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from typing import Any

import click

from headway.core.errors import BadInput
from headway.core.units import duration_s

FORM = "10m, 14:30, 2026-11-18 or 2026-11-18T14:30:00Z"
_CLOCK = re.compile(r"^(\d{1,2}):(\d\d)(?::(\d\d))?$")
_DURATION = re.compile(r"^\s*[0-9.]+\s*[A-Za-z]{0,20}\s*$")
_DAYS = {"today": 0, "yesterday": 1}


def moment(words: str, what: str, now: float) -> float:
    """Read a moment into seconds since 1970: so long ago, or a date, a time of today, or both."""
    text = words.strip()
    if _DURATION.match(text):
        return now - duration_s(text, what)
    here = datetime.fromtimestamp(now)
    try:
        if text.lower() in _DAYS:
            day = here - timedelta(days=_DAYS[text.lower()])
            return day.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        if clock := _CLOCK.match(text):
            hour, minute, second = (int(each or 0) for each in clock.groups())
            return here.replace(hour=hour, minute=minute, second=second, microsecond=0).timestamp()
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise BadInput(f'{what}: "{words[:80]}" is neither a duration nor a date', f"write it as {FORM}") from None


class Moment(click.ParamType[float]):
    """So long ago, or a date."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return (
            value if isinstance(value, float) else moment(str(value), param.opts[-1] if param else "time", time.time())
        )


MOMENT = Moment()
