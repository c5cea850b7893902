"""Durations and sizes as people write them: `30s`, `10m`, `6h`, `2d`; `512Mi`, `16G`.

Reading and showing only; what a value is for is the caller's business.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from headway.core.errors import BadInput

_DURATION = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZE = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZE_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
NUMBER_MOST = 10**18
DURATION_S_MOST = 100 * 365 * 86400
_NUMBER = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]{0,20})\s*$")


def duration_s(value: str | int | float, what: str) -> float:
    """Read a duration such as `90`, `90s`, `10m` or `6h` into seconds."""
    number, unit = _split(value, what, "a duration such as 30s, 10m, 6h or 2d")
    if unit not in _DURATION:
        raise BadInput(f'{what}: "{value}" has the unit "{unit}"', "use s, m, h, d or w, as in 30s or 6h")
    found = number * _DURATION[unit]
    if found > DURATION_S_MOST:
        raise BadInput(f'{what}: "{str(value)[:80]}" is longer than {DURATION_S_MOST // (365 * 86400)} years')
    return found


def size_bytes(value: str | int | float, what: str) -> int:
    """Read a size such as `512Mi`, `16G` or `1000` into bytes."""
    number, unit = _split(value, what, "a size such as 512Mi or 16G")
    unit = unit[:-1] if unit.endswith("b") else unit
    factor = _SIZE.get(unit) or _SIZE_BINARY.get(unit)
    if factor is None:
        raise BadInput(f'{what}: "{value}" has the unit "{unit}"', "use K, M, G, T or Ki, Mi, Gi, Ti")
    return int(number * factor)


def _split(value: str | int | float, what: str, form: str) -> tuple[float, str]:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadInput(f'{what}: "{str(value)[:80]}" is not {form}')
    if isinstance(value, int | float):
        if not 0 <= value <= NUMBER_MOST:
            raise BadInput(f"{what}: {value:.6g} is negative, too large or not a number", f"give {form}")
        return float(value), ""
    match = _NUMBER.match(value)
    if match is None:
        raise BadInput(f'{what}: "{value[:80]}" is not {form}')
    number = float(match.group(1))
    if number > NUMBER_MOST:
        raise BadInput(f'{what}: "{value[:80]}" is too large', f"give {form}")
    return number, match.group(2).lower()


def show_duration(seconds: float) -> str:
    """`4.2 s`, `3 m 20 s`, `6 h 05 m`, `2 d 3 h`: two figures are enough for people."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} m"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def show_time(at: float) -> str:
    """`2030-01-31 18:00 UTC`: a moment, to the minute."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def show_size(count: int) -> str:
    """`812 B`, `3.4 KiB`, `1.2 GiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{int(size)} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
