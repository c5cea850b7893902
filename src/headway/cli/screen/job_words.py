"""The words of a job's description on its page: the command as it was run, names without values, limits and dates."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headway.core.units import show_duration, show_size

Shown = Mapping[str, Any]
LOG_MAX = 256 * 2**20  # What a job has that says nothing.
GRACE_S = 30.0
NAMES_MOST = 12


def command(detail: Shown, spec: Shown) -> str:
    """As the ranks are given it: parameters in their places. A script stands below, line by line."""
    import shlex

    words = [str(word) for word in detail.get("argv") or spec.get("command") or ()]
    if len(words) > 2 and "\n" in words[-1].strip():
        return "\n    ".join([" ".join(map(shlex.quote, words[:-1])) + " …", *words[-1].rstrip("\n").split("\n")])
    return " ".join(map(shlex.quote, words))


def pairs(found: Any) -> str:
    return ", ".join(f"{key}={value}" for key, value in dict(found or {}).items())


def env(spec: Shown) -> str:
    """By name: values may be private. `-o json` has them."""
    return names(dict(spec.get("env") or {}))


def secrets(spec: Shown) -> str:
    uses = dict(spec.get("secrets") or {})
    return ", ".join(
        f"{variable} from {use['name']}, as a file" if isinstance(use, Mapping) else f"{variable} from {use}"
        for variable, use in uses.items()
    )


def inputs(spec: Shown) -> str:
    found = dict(spec.get("inputs") or {})
    return ", ".join(
        f"{name} from {each['url'] if isinstance(each, Mapping) else each}" for name, each in found.items()
    )


def places(found: Any) -> str:
    return ", ".join(f"{name} at {path}" for name, path in dict(found or {}).items())


def after(spec: Shown) -> str:
    said = []
    for each in spec.get("after") or ():
        how = each.get("when", "ok")
        said.append(str(each["job"]) + (f" ({how})" if how != "ok" else ""))
    return names(said)


def names(found: Any) -> str:
    known = list(map(str, found))
    more = f" and {len(known) - NAMES_MOST} more" if len(known) > NAMES_MOST else ""
    return ", ".join(known[:NAMES_MOST]) + more


def limits(spec: Shown) -> str:
    """What ends it, as far as something was said."""
    said = dict(spec.get("limits") or {})
    hold = dict(spec.get("on_failure") or {}).get("hold")
    grace, log_max = spec.get("grace"), spec.get("log_max")
    parts = [
        _for("{} per attempt", spec.get("max_duration"), show_duration),
        _for("{} in the queue", said.get("pending"), show_duration),
        _for("{} without output or progress", said.get("stalled_after"), show_duration),
        _for("{} of output", said.get("output"), show_size),
        _for("{} open files", said.get("open_files"), str),
        _for("{} of log kept", log_max if log_max != LOG_MAX else None, show_size),
        _for("{} of grace", grace if grace != GRACE_S else None, show_duration),
        _for("its place kept {} after a failure", hold, show_duration),
    ]
    return "; ".join(filter(None, parts))


def _for(form: str, value: Any, show: Any) -> str:
    return form.format(show(value)) if isinstance(value, int | float) else ""


def moment(at: Any, now: float) -> str:
    """`2030-01-31 18:00:00, in 3 h 20 m`: on the reader's clock."""
    if not isinstance(at, int | float):
        return ""
    far = f"{show_duration(now - at)} ago" if at <= now else f"in {show_duration(at - now)}"
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}, {far}"


def deadline(detail: Shown, spec: Shown, now: float) -> str:
    at = spec.get("deadline")
    ended = detail.get("ended_at")
    if isinstance(at, int | float) and isinstance(ended, int | float) and detail["state"] == "succeeded":
        return f"{moment(at, now)}; {'met' if ended <= at else 'missed'}"
    return moment(at, now)
