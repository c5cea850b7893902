"""`headway top`: what jobs and nodes use now; drawn anew on a terminal, one page elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.options import connect, output_options
from headway.cli.frame.output import Output, on_terminal
from headway.core.units import show_duration, show_size

Shown = Mapping[str, Any]
LOOK_EVERY_S = 2.0


@click.command(epilog=examples("headway top", "headway top --once -o json"))
@click.option("--once", is_flag=True, help="One page, also on a terminal.")
@output_options
def top(output: Output, once: bool) -> int:
    """Show what jobs and nodes use now: CPU, memory, GPU, steps per second. Ctrl-C ends it."""
    from headway.features.usage.client import usage

    client = connect(output)
    if once or output.machine or output.quiet or not on_terminal(sys.stdout):
        found = usage(client.link)
        output.show(found, lambda: page(output, found, time.time()), lambda: [job["id"] for job in found["jobs"]])
        if not found["jobs"]:
            output.say("nothing runs")
        return exits.OK
    try:
        while True:
            found = usage(client.link)
            drawn = page(output, found, time.time()) or "nothing runs"
            rows = _rows_seen()
            sys.stdout.write("\x1b[H\x1b[2J")
            output.show(found, lambda: "\n".join(drawn.splitlines()[:rows]), list)  # noqa: B023
            sys.stdout.flush()
            time.sleep(LOOK_EVERY_S)
    except KeyboardInterrupt:
        return exits.OK


def page(output: Output, found: Shown, now: float) -> str:
    nodes = [
        (
            node["id"],
            node["pool"],
            _of(node["cpus"], node["granted"]["cpus"], lambda value: f"{value:.1f}"),
            _of(node["memory_bytes"], node["granted"]["memory_bytes"], lambda value: show_size(int(value))),
            _load(node["gpu_load"], node["granted"]["gpus"]),
            str(node["tasks"]),
        )
        for node in found["nodes"]
    ]
    jobs = [
        (
            job["id"],
            job["user"] or "-",
            _of(job["cpus"], job["cpus_wanted"], lambda value: f"{value:.1f}"),
            _of(job["memory_bytes"], job["memory_wanted"] or None, lambda value: show_size(int(value))),
            _load(job["gpu_load"], job["gpus"]),
            "-" if job["step"] is None else f"{job['step']:,}",
            "-" if job["steps_per_s"] is None else f"{job['steps_per_s']:.3g}",
            "-" if not job["started_at"] else show_duration(now - job["started_at"]),
            ", ".join(job["nodes"][:3]) + (", …" if len(job["nodes"]) > 3 else ""),
            job["name"],
        )
        for job in found["jobs"]
    ]
    tables = [
        output.table(("NODE", "POOL", "CPU", "MEMORY", "GPU", "TASKS"), nodes),
        output.table(("JOB", "USER", "CPU", "MEMORY", "GPU", "STEP", "STEPS/S", "RAN", "NODES", "NAME"), jobs),
    ]
    left = found["jobs_count"] - len(found["jobs"])
    return "\n\n".join(table for table in tables if table) + (f"\n… and {left:,} more" if left else "")


def _of(used: Any, whole: Any, show: Any) -> str:
    if used is None:
        return "-"
    return f"{show(used)} of {show(whole)}" if whole else str(show(used))


def _load(load: int | None, count: int) -> str:
    if not count:
        return "-"
    return f"{count}" if load is None else f"{load}% of {count}"


def _rows_seen() -> int:
    import shutil

    return max(5, shutil.get_terminal_size().lines - 1)
