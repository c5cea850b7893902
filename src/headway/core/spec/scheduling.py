"""The words of a job's description that concern its scheduling: after what, when, where, how long.

Read and shown here, held in `JobSpec.wishes`; job.py has all other words. What they do to the order is told in
docs/explanation/scheduling.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headway.core.errors import BadInput
from headway.core.fields import check_keys, kind_of, one_of, whole
from headway.core.units import duration_s

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
ARRAY_MAX = 100_000
ENTRIES_MAX = 1000
TIME_MOST = 253_402_300_799.0  # The end of the year 9999.

WHEN = {"ok": "it succeeded", "any": "it ended, however", "failed": "it ended without success"}
SAME = "same"


@dataclass(frozen=True, slots=True)
class After:
    """Another job, or a whole array, that must have ended before this one may start."""

    job: str
    when: str = "ok"
    each: bool = False  # Of an array: only the element with the same index.


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a job asks of the scheduler beyond its resources."""

    after: tuple[After, ...] = ()
    hold: bool = False
    start_at: float | None = None
    deadline: float | None = None
    zone: str = ""  # "same": all nodes in one zone, whichever; else the name of the zone.
    layout: str = ""  # "spread": on the emptiest nodes; "pack": on the fullest; empty: the first that fit.
    gpu_type: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    licences: tuple[tuple[str, int], ...] = ()  # Per job, not per node.
    array: int = 0
    estimate_s: float | None = None


NO_WISHES = Wishes()

KEYS: dict[str, str] = {
    "after": "jobs that must have ended first: a list of ids, or of {job, when: ok|any|failed, each: true}",
    "hold": "wait until it is released",
    "start_at": "do not start before this time, such as 2030-01-31T18:00Z",
    "deadline": "deadline; shown beside the expected end",
    "zone": "same: all nodes in one zone; or the name of a zone",
    "layout": "spread: on the emptiest nodes; pack: on the fullest",
    "gpu_type": "the type of GPU, as the node's label gpu_type says",
    "labels": "labels that the nodes must have",
    "licences": "named countable things that the job holds while it runs, such as {matlab: 1}",
    "array": "how many jobs to make of it; each sees its index",
    "estimate": "how long it will probably run, such as 40m; not a limit",
}
AFTER_KEYS = {"job": "an id", "when": "ok, any or failed", "each": "element by element, for arrays of one size"}


def read_wishes(raw: Mapping[str, Any]) -> Wishes:
    """The wishes among the words of a description, or BadInput naming field, value and a way out."""
    if KEYS.keys().isdisjoint(raw):
        return NO_WISHES
    wishes = Wishes(
        after=_after(raw.get("after")),
        hold=_flag(raw.get("hold", False), "hold"),
        start_at=_time(raw.get("start_at"), "start_at"),
        deadline=_time(raw.get("deadline"), "deadline"),
        zone=_word(raw.get("zone"), "zone"),
        layout=one_of(raw["layout"], "layout", ("spread", "pack")) if raw.get("layout") else "",
        gpu_type=_word(raw.get("gpu_type"), "gpu_type").lower(),
        labels=_labels(raw.get("labels")),
        licences=_licences(raw.get("licences")),
        array=whole(raw["array"], "array", 1, ARRAY_MAX) if raw.get("array") is not None else 0,
        estimate_s=_estimate(raw.get("estimate")),
    )
    if wishes.start_at is not None and wishes.deadline is not None and wishes.deadline <= wishes.start_at:
        raise BadInput("deadline: it is not after start_at", "give a later deadline or an earlier start")
    if wishes.gpu_type and not _gpus(raw):
        raise BadInput(f'gpu_type: "{wishes.gpu_type}" without GPUs', "add resources.gpus, or leave gpu_type out")
    return wishes


def show_wishes(wishes: Wishes) -> dict[str, Any]:
    """The words that read back into these wishes; none for a plain job."""
    shown: dict[str, Any] = {
        "after": [{"job": each.job, "when": each.when, "each": each.each} for each in wishes.after],
        "hold": wishes.hold,
        "start_at": wishes.start_at,
        "deadline": wishes.deadline,
        "zone": wishes.zone,
        "layout": wishes.layout,
        "gpu_type": wishes.gpu_type,
        "labels": dict(wishes.labels),
        "licences": dict(wishes.licences),
        "array": wishes.array,
        "estimate": wishes.estimate_s,
    }
    return {key: value for key, value in shown.items() if value or (value == 0.0 and key in ("start_at", "deadline"))}


def _gpus(raw: Mapping[str, Any]) -> bool:
    resources = raw.get("resources")
    return isinstance(resources, Mapping) and bool(resources.get("gpus"))


def _after(raw: object) -> tuple[After, ...]:
    if raw is None:
        return ()
    entries = raw if isinstance(raw, list | tuple) else [raw]
    if len(entries) > ENTRIES_MAX:
        raise BadInput(f"after: {len(entries):,} jobs; at most {ENTRIES_MAX:,} are taken", "wait for an array instead")
    return tuple(dict.fromkeys(_one_after(entry) for entry in entries))


def _one_after(raw: object) -> After:
    if isinstance(raw, str):
        raw = {"job": raw}
    check_keys(raw, AFTER_KEYS, "after")
    assert isinstance(raw, Mapping)
    job = raw.get("job")
    if not isinstance(job, str) or not NAME.fullmatch(job):
        raise BadInput(f'after: "{str(job)[:80]}" is not the id of a job')
    return After(
        job, one_of(raw.get("when", "ok"), "after.when", tuple(WHEN)), _flag(raw.get("each", False), "after.each")
    )


def _flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise BadInput(f'{what}: "{str(value)[:80]}" is not true or false')
    return value


def _time(value: object, what: str) -> float | None:
    """Seconds since 1970, or a date and time with its offset."""
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= TIME_MOST:
        return float(value)
    form = "write it as 2030-01-31T18:00Z or 2030-01-31T18:00+01:00"
    if isinstance(value, datetime):
        moment = value
    else:
        try:
            moment = datetime.fromisoformat(value) if isinstance(value, str) else datetime.min
        except ValueError:
            moment = datetime.min
    if moment == datetime.min:
        raise BadInput(f'{what}: "{str(value)[:80]}" is not a time', form)
    if moment.tzinfo is None:
        raise BadInput(f'{what}: "{str(value)[:80]}" says no time zone', form)
    return moment.timestamp()


def _word(value: object, what: str) -> str:
    if value in (None, ""):
        return ""
    if not isinstance(value, str) or not LABEL.fullmatch(value):
        raise BadInput(f'{what}: "{str(value)[:80]}" is not a name')
    return value


def _labels(raw: object) -> tuple[tuple[str, str], ...]:
    if raw is None:
        return ()
    if not isinstance(raw, Mapping) or len(raw) > ENTRIES_MAX:
        raise BadInput(f"labels: expected names and values, found {kind_of(raw)}")
    return tuple(sorted((_word(key, "labels") or _nothing("labels"), str(value)[:200]) for key, value in raw.items()))


def _licences(raw: object) -> tuple[tuple[str, int], ...]:
    if raw is None:
        return ()
    if not isinstance(raw, Mapping) or len(raw) > ENTRIES_MAX:
        raise BadInput(f"licences: expected names and counts, found {kind_of(raw)}")
    counts = {_word(key, "licences"): whole(value, f"licences.{key}", 1, 1_000_000) for key, value in raw.items()}
    return tuple(sorted(counts.items()))


def _nothing(what: str) -> str:
    raise BadInput(f"{what}: a name is empty")


def _estimate(value: Any) -> float | None:
    if value is None:
        return None
    seconds = duration_s(value, "estimate")
    if seconds <= 0:
        raise BadInput(f'estimate: "{value}" is not longer than nothing', "leave it out when it is not known")
    return seconds
