"""Cron expressions: whether one can be read, and which moments it names. The only file that knows the library for it.

Moments are seconds since 1970; an expression is read in a time zone, and follows its clock changes as Debian's cron.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from headway.core.errors import BadInput

FIELDS = "minute, hour, day of month, month, day of week"
EXAMPLE = 'such as "0 6 * * 1-5", at six on working days'
NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_REASONS = {"Wrong number of fields": f"it has not five fields ({FIELDS})"}


def check(expression: str, zone: str, now: float) -> None:
    """Refuse an expression that cannot be read, or that names no moment in the years to come."""
    try:
        _zone(zone)
    except (ValueError, OSError, LookupError):
        raise BadInput(f'zone: "{zone[:80]}" is not a time zone', "such as Europe/Berlin or UTC") from None
    if len(expression) > 200 or len(_plain(expression).split()) != 5:
        raise BadInput(f'cron: "{expression[:80]}" has not five fields', f"{FIELDS}; {EXAMPLE}")
    try:
        first = next_after(expression, zone, now)
    except CronSimError as error:
        reason = _REASONS.get(str(error), str(error)[:1].lower() + str(error)[1:])
        if reason == "bad day-of-month" and _days_alone_are_fine(expression):
            raise _never(expression) from None
        raise BadInput(f'cron: "{expression[:80]}": {reason}', f"{FIELDS}; {EXAMPLE}") from None
    if first is None:
        raise _never(expression)


def next_after(expression: str, zone: str, after: float) -> float | None:
    """The first moment after this one; None when there is none within fifty years."""
    found = next(CronSim(_plain(expression), datetime.fromtimestamp(after, _zone(zone))), None)
    return found.timestamp() if found is not None else None


def newest_until(expression: str, zone: str, until: float) -> float | None:
    """The last moment that is not after this one."""
    # A reverse search leaves out the moment at which it begins.
    found = next(CronSim(_plain(expression), datetime.fromtimestamp(until + 1.0, _zone(zone)), reverse=True), None)
    return found.timestamp() if found is not None else None


def _plain(expression: str) -> str:
    return NICKNAMES.get(expression.strip().lower(), expression)


def _zone(zone: str) -> tzinfo:
    return UTC if zone in ("", "UTC") else ZoneInfo(zone)


def _days_alone_are_fine(expression: str) -> bool:
    """Whether the day is wrong only together with the month, as the 30th of February is."""
    fields = _plain(expression).split()
    try:
        CronSim(" ".join([*fields[:3], "*", fields[4]]), datetime.fromtimestamp(0.0, UTC))
    except CronSimError:
        return False
    return True


def _never(expression: str) -> BadInput:
    return BadInput(f'cron: "{expression[:80]}" never fires', "the day is not in that month")
