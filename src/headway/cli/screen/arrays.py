"""Pages for people about arrays: one row with a bar, the description of one, and the line that a follower sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.cli.frame.output import Output
from headway.core.units import show_duration

Shown = Mapping[str, Any]
BAR = 10
ENDS = ("succeeded", "failed", "cancelled")
ORDER = ("succeeded", "failed", "cancelled", "stopping", "running", "starting", "queued")
GROUPS = {"#": ("succeeded",), "x": ("failed", "cancelled"), "-": ("stopping", "running", "starting"), ".": ("queued",)}


def counted(states: Mapping[str, int]) -> str:
    """`7 succeeded, 1 failed, 2 running`."""
    return ", ".join(f"{states[state]:,} {state}" for state in ORDER if states.get(state))


def bar(states: Mapping[str, int], width: int = BAR) -> str:
    """`[#####xx---....]`: succeeded, failed, under way, waiting. Whatever is there is seen, however little it is."""
    counts = [sum(states.get(state, 0) for state in group) for group in GROUPS.values()]
    total = sum(counts) or 1
    widths = [max(round(count * width / total), 1) if count else 0 for count in counts]
    widths[counts.index(max(counts))] += width - sum(widths)  # The largest part makes up for all rounding.
    return "[" + "".join(mark * wide for mark, wide in zip(GROUPS, widths, strict=True)) + "]"


def progress(array: Shown) -> str:
    """A row's last column: the bar, how many have ended, and what is worth saying of the rest."""
    states = array["states"]
    ended = sum(states.get(state, 0) for state in ENDS)
    rest = counted({state: count for state, count in states.items() if state != "succeeded"})
    most = f", at most {array['at_once']} at once" if array.get("at_once") and states.get("queued") else ""
    return f"{bar(states)} {ended:,} of {array['count']:,} ended" + (f": {rest}{most}" if rest else "")


def array(output: Output, detail: Shown, now: float) -> str:
    """All about one array."""
    spec = detail.get("spec") or {}
    most = detail.get("at_once")
    facts = [
        ("id", f"{detail['id']} (jobs {detail['id']}-0 to {detail['id']}-{detail['count'] - 1})"),
        ("name", detail["name"]),
        ("state", output.paint(detail["state"])),
        ("jobs", f"{detail['count']:,}" + (f", at most {most} at once" if most else "")),
        ("progress", progress(detail)),
        ("command", " ".join(spec.get("command", ()))),
        ("workdir", spec.get("workdir") or ""),
        ("project", f"{detail['project']}, queue {detail['queue']}, priority {detail['priority']}"),
        ("user", detail.get("user") or ""),
        ("tags", ", ".join(f"{key}={value}" for key, value in dict(detail.get("tags") or {}).items())),
        ("submitted", f"{show_duration(now - detail['submitted_at'])} ago"),
        ("hint", f"headway retry --failed {detail['id']}" if detail["states"].get("failed") else ""),
    ]
    width = max(len(name) for name, value in facts if value) + 2
    lines = [f"{(name + ':').ljust(width)} {value}" for name, value in facts if value]
    rows = [
        (job["id"], job["state"], " ".join(str(job["sentence"]).split()).removeprefix(f"{job['state']}: "))
        for group in ("failed", "running", "queued")
        for job in detail["jobs"][group]
    ]
    if rows:
        lines += ["", output.table(("JOB", "STATE", "WHY"), rows)]
    return "\n".join(lines)
