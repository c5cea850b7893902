"""Pages for people about queues, pools and the outlook. Text in, text out; those of jobs are in jobs.py."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from headway.cli.frame.output import Output
from headway.core.units import show_duration, show_size

Shown = Mapping[str, Any]
PLAIN: Mapping[str, Any] = {"priority": 0, "weight": 1.0, "borrow": False, "preemptible": True}


def queues(output: Output, found: Sequence[Shown]) -> str:
    rows = [
        (
            each["name"],
            str(each["rules"].get("priority", 0)),
            str(each["queued"]),
            str(each["active"]),
            ", ".join(each["rules"]["pools"]) or "none" if "pools" in each["rules"] else "any",
            _rules({key: value for key, value in each["rules"].items() if key not in ("priority", "pools")}),
        )
        for each in found
    ]
    return output.table(("QUEUE", "PRIORITY", "WAITING", "RUNNING", "POOLS", "RULES"), rows)


def _rules(rules: Shown) -> str:
    """Rules that say something, as they would be set: `quota.gpus=8 max_duration=28800`."""
    words: list[str] = []
    for key, value in rules.items():
        if PLAIN.get(key) == value and key in PLAIN:
            continue
        if isinstance(value, Mapping):
            words += [f"{key}.{inner}" for inner in _rules(value).split(" ") if inner]
        else:
            words.append(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}")
    return " ".join(words)


def pools(output: Output, found: Sequence[Shown]) -> str:
    rows = []
    for each in found:
        rules, free = each["rules"], each["free"]
        hosts = len(rules.get("hosts") or ())
        most = rules.get("max", hosts)
        size = str(most) if rules.get("min", hosts) == most else f"{rules.get('min', 0)} to {most}"
        rows.append(
            (
                each["name"],
                str(rules.get("engine", "")),
                str(rules.get("state", "open")),
                f"{each['open']} open of {each['nodes']}, {size} wanted",
                str(each["tasks"]),
                f"{free['cpus']:g} cpus, {show_size(int(free['memory_bytes']))}, {free['gpus']} gpus",
            )
        )
    return output.table(("POOL", "ENGINE", "STATE", "NODES", "TASKS", "FREE"), rows)


def outlook(output: Output, found: Sequence[Shown]) -> str:
    rows = [
        (str(place), job["id"], job["name"], job["queue"], _start(job), job["wants"])
        for place, job in enumerate(found, start=1)
    ]
    return output.table(("PLACE", "ID", "NAME", "QUEUE", "STARTS", "NEEDS"), rows)


def _start(job: Shown) -> str:
    seconds = job["starts_in_s"]
    if seconds is None:
        return "not with the present nodes"
    if seconds == 0:
        return "now"
    if job["exact"]:
        return f"in {show_duration(seconds)}"
    return f"in about {show_duration(seconds)}" if job["guessed"] else f"not before {show_duration(seconds)} from now"


def request(found: Shown) -> str:
    """What an order would send: a script as it is read by the program that gets it, anything else as plain data."""
    asked = found["request"]
    if "script" in asked:
        return f"{shlex.join(asked['argv'])} <<'SCRIPT'\n{asked['script']}SCRIPT"
    return json.dumps(asked, indent=2, ensure_ascii=False)
