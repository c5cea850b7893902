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
from headway.core.spec.words import (
    FLAG,
    MAYBE_AMOUNT,
    PAIRS,
    TEXT,
    WHOLE,
    Flag,
    array,
    inner_keys,
    obj,
    saying,
    word,
)
from headway.core.units import duration_s

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
ARRAY_MAX = 100_000
ENTRIES_MAX = 1000
TIME_MOST = 253_402_300_799.0  # The end of the year 9999.

WHEN = {"ok": "it succeeded", "any": "it ended, however", "failed": "it ended without success"}
SAME = "same"
LAYOUTS = ("spread", "pack")
AFTER = obj(
    ("job",),
    job=saying(TEXT, "its id or name; in a file with several jobs, the name of one of them"),
    when=saying({"enum": list(WHEN)}, "how it must have ended; ok when left out"),
    each=saying(FLAG, "of an array: only the element with the same index"),
)


@dataclass(frozen=True, slots=True)
class After:
    """Another job, or a whole array, that must have ended before this one may start."""

    job: str
    when: str = "ok"
    each: bool = False  # Of an array: only the element with the same index.


def _after(raw: object, what: str) -> tuple[After, ...]:
    entries = raw if isinstance(raw, list | tuple) else [raw]
    if len(entries) > ENTRIES_MAX:
        raise BadInput(f"{what}: {len(entries):,} jobs; at most {ENTRIES_MAX:,} are taken", "wait for an array instead")
    return tuple(dict.fromkeys(_one_after(entry) for entry in entries))


def _one_after(raw: object) -> After:
    if isinstance(raw, str):
        raw = {"job": raw}
    check_keys(raw, inner_keys(AFTER), "after")
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


def _time(value: object, what: str) -> float:
    """Seconds since 1970, or a date and time with its offset."""
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


def _name(value: object, what: str) -> str:
    if value == "":
        return ""
    if not isinstance(value, str) or not LABEL.fullmatch(value):
        raise BadInput(f'{what}: "{str(value)[:80]}" is not a name')
    return value


def _gpu_type(value: object, what: str) -> str:
    return _name(value, what).lower()


def _layout(value: object, what: str) -> str:
    return one_of(value, what, LAYOUTS) if value else ""


def _count(value: object, what: str) -> int:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    return whole(value, what, 1, ARRAY_MAX)


def split_array(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """A description in which `array: 1000%8` stands as its two words."""
    said = raw.get("array")
    if not isinstance(said, str) or "%" not in said:
        return raw
    size, _, most = said.partition("%")
    if not most.strip().isdecimal():
        raise BadInput(f'array: "{said[:80]}" is not a count', "1000%8 is a thousand jobs, at most eight at once")
    if raw.get("at_once") is not None:
        raise BadInput(f'array: "{said[:80]}" and at_once both say how many may run at once', "leave one out")
    return {**raw, "array": size, "at_once": int(most)}


def _labels(raw: object, what: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(raw, Mapping) or len(raw) > ENTRIES_MAX:
        raise BadInput(f"{what}: expected names and values, found {kind_of(raw)}")
    return tuple(sorted((_name(key, what) or _nothing(what), str(value)[:200]) for key, value in raw.items()))


def _licences(raw: object, what: str) -> tuple[tuple[str, int], ...]:
    if not isinstance(raw, Mapping) or len(raw) > ENTRIES_MAX:
        raise BadInput(f"{what}: expected names and counts, found {kind_of(raw)}")
    counts = {_name(key, what): whole(value, f"{what}.{key}", 1, 1_000_000) for key, value in raw.items()}
    return tuple(sorted(counts.items()))


def _nothing(what: str) -> str:
    raise BadInput(f"{what}: a name is empty")


def _estimate(value: Any, what: str) -> float:
    seconds = duration_s(value, what)
    if seconds <= 0:
        raise BadInput(f'{what}: "{value}" is not longer than nothing', "leave it out when it is not known")
    return seconds


def as_mapping(pairs: Any, spec: Any) -> dict[str, Any]:
    return dict(pairs)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a job asks of the scheduler beyond its resources."""

    after: tuple[After, ...] = word(
        (),
        key="after",
        says="jobs that must have ended first: a name or id, or a list of them, or of {job, when: ok|any|failed}",
        read=_after,
        show=lambda after, _: [{"job": each.job, "when": each.when, "each": each.each} for each in after],
        schema={"anyOf": [TEXT, AFTER, array({"anyOf": [TEXT, AFTER]})]},
        changeable=True,
        flags=(
            Flag("--after", "Start once that job has ended.", metavar="JOB[:ok|any|failed]", many=True),
            Flag("--after-each", "Element by element after another array.", metavar="ARRAY", many=True, changing=None),
        ),
    )
    hold: bool = word(
        False,
        key="hold",
        says="wait until it is released",
        read=_flag,
        schema=FLAG,
        null=False,
        changeable=True,
        flags=(Flag("--hold", "Hold it until headway release JOB.", value=True, changing=None),),
    )
    start_at: float | None = word(
        None,
        key="start_at",
        says="do not start before this time, such as 2030-01-31T18:00Z",
        read=_time,
        schema=MAYBE_AMOUNT,
        changeable=True,
        flags=(
            Flag(
                "--start-at",
                "Start no earlier than this, such as 2030-01-31T18:00Z.",
                metavar="TIME",
                changing="Start no earlier than this; - is at once.",
            ),
        ),
    )
    deadline: float | None = word(
        None,
        key="deadline",
        says="deadline; shown beside the expected end",
        read=_time,
        schema=MAYBE_AMOUNT,
        changeable=True,
        flags=(
            Flag(
                "--deadline",
                "Deadline; why says if it is at risk.",
                metavar="TIME",
                changing="Deadline; - clears it.",
            ),
        ),
    )
    # "same": all nodes in one zone, whichever; else the name of the zone.
    zone: str = word(
        "",
        key="zone",
        says="same: all nodes in one zone; or the name of a zone",
        read=_name,
        changeable=True,
        flags=(
            Flag(
                "--zone",
                "All nodes in one zone, or in this one.",
                metavar="same|ZONE",
                changing="The zone of its nodes; - is any.",
            ),
        ),
    )
    # "spread": on the emptiest nodes; "pack": on the fullest; empty: the first that fit.
    layout: str = word(
        "",
        key="layout",
        says="spread: on the emptiest nodes; pack: on the fullest",
        read=_layout,
        schema={"enum": [*LAYOUTS, ""]},
        changeable=True,
        flags=(Flag("--layout", "Prefer the emptiest nodes, or the fullest.", metavar="spread|pack", changing=None),),
    )
    gpu_type: str = word(
        "",
        key="gpu_type",
        says="the type of GPU, as the node's label gpu_type says",
        read=_gpu_type,
        changeable=True,
        flags=(
            Flag(
                "--gpu-type",
                "Only GPUs of this type.",
                metavar="TYPE",
                changing="Only GPUs of this type; - is any.",
            ),
        ),
    )
    labels: tuple[tuple[str, str], ...] = word(
        (),
        key="labels",
        says="labels that the nodes must have",
        read=_labels,
        show=as_mapping,
        schema=PAIRS,
        changeable=True,
        flags=(Flag("--label", "Only nodes with this label.", metavar="K=V", type="pairs", many=True, changing=None),),
    )
    licences: tuple[tuple[str, int], ...] = word(  # Per job, not per node.
        (),
        key="licences",
        says="named countable things that the job holds while it runs, such as {matlab: 1}",
        read=_licences,
        show=as_mapping,
        schema={"type": "object", "additionalProperties": {**WHOLE, "minimum": 1}},
        changeable=True,
        flags=(
            Flag(
                "--licence",
                "Hold a licence while it runs.",
                metavar="NAME[=N]",
                type="pairs",
                many=True,
                changing=None,
            ),
        ),
    )
    array: int = word(
        0,
        key="array",
        says="how many jobs to make of it; each sees its index",
        read=_count,
        schema={"anyOf": [{**WHOLE, "minimum": 0}, TEXT]},
        flags=(Flag("--array", "Submit N jobs, at most K at once; each sees HEADWAY_ARRAY_INDEX.", metavar="N[%K]"),),
    )
    estimate_s: float | None = word(
        None,
        key="estimate",
        says="how long it will probably run, such as 40m; not a limit",
        read=_estimate,
        schema=MAYBE_AMOUNT,
        changeable=True,
        flags=(Flag("--estimate", "Expected run time; not a limit.", metavar="TIME", changing="Expected run time."),),
    )
    at_once: int = word(
        0,
        key="at_once",
        says="of an array: how many of its jobs may run at once; the same as array: 1000%8",
        read=_count,
        schema={**WHOLE, "minimum": 1},
        changeable=True,
        flags=(
            Flag(
                "--at-once",
                "Of an array: at most so many jobs at once.",
                metavar="K",
                type="int",
                changing="Of an array: at most so many jobs at once; - lifts it.",
            ),
        ),
    )


NO_WISHES = Wishes()


def check_wishes(wishes: Wishes, gpus: int) -> None:
    """Refuse what contradicts itself."""
    if wishes.start_at is not None and wishes.deadline is not None and wishes.deadline <= wishes.start_at:
        raise BadInput("deadline: it is not after start_at", "give a later deadline or an earlier start")
    if wishes.gpu_type and not gpus:
        raise BadInput(f'gpu_type: "{wishes.gpu_type}" without GPUs', "add resources.gpus, or leave gpu_type out")
