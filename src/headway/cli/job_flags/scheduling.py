"""Flags of a job that concern its scheduling: after what, when, where; and how they become keys of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from headway.cli.frame.options import pair
from headway.core.errors import BadInput

WHEN = ("ok", "any", "failed")
PLAIN = ("array", "start_at", "deadline", "estimate", "zone", "layout", "gpu_type", "launcher")


def wish_options(command: Callable[..., Any]) -> Callable[..., Any]:
    flags = [
        click.option("--array", type=int, metavar="N", help="Submit N jobs; each sees HEADWAY_ARRAY_INDEX."),
        click.option("--after", metavar="JOB[:ok|any|failed]", multiple=True, help="Start once that job has ended."),
        click.option("--after-each", metavar="ARRAY", multiple=True, help="Element by element after another array."),
        click.option("--hold", is_flag=True, help="Hold it until headway release JOB."),
        click.option("--start-at", metavar="TIME", help="Start no earlier than this, such as 2030-01-31T18:00Z."),
        click.option("--deadline", metavar="TIME", help="Deadline; why says if it is at risk."),
        click.option("--estimate", metavar="TIME", help="Expected run time; not a limit."),
        click.option("--zone", metavar="same|ZONE", help="All nodes in one zone, or in this one."),
        click.option("--layout", metavar="spread|pack", help="Prefer the emptiest nodes, or the fullest."),
        click.option("--gpu-type", metavar="TYPE", help="Only GPUs of this type."),
        click.option("--label", "labels", metavar="K=V", multiple=True, help="Only nodes with this label."),
        click.option("--licence", "licences", metavar="NAME[=N]", multiple=True, help="Hold a licence while it runs."),
        click.option("--launcher", metavar="plain|torchrun|mpi", help="What starts the ranks. [default: plain]"),
        click.option("--force", is_flag=True, help="Accept it even if nothing here can run it yet."),
    ]
    for flag in reversed(flags):
        command = flag(command)
    return command


def wishes_given(given: dict[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a job that these flags set; flags win over the file."""
    found = {key: value for key in PLAIN if (value := given.pop(key)) is not None}
    after = [_after(word) for word in given.pop("after")]
    after += [{"job": word, "each": True} for word in given.pop("after_each")]
    labels = dict(pair(word, "--label") for word in given.pop("labels"))
    licences = dict(_licence(word) for word in given.pop("licences"))
    if after:
        found["after"] = after
    if given.pop("hold"):
        found["hold"] = True
    for key, pairs in (("labels", labels), ("licences", licences)):
        of_file = base.get(key) or {}
        if pairs and isinstance(of_file, Mapping):
            found[key] = {**of_file, **pairs}
    return found


def _after(word: str) -> dict[str, Any]:
    job, colon, when = word.partition(":")
    if colon and when not in WHEN:
        raise BadInput(f'--after: "{when[:80]}" is not one of {", ".join(WHEN)}', f"--after {job[:80]}:ok")
    return {"job": job, "when": when or "ok"}


def _licence(word: str) -> tuple[str, int]:
    name, equals, count = word.partition("=")
    try:
        return name, int(count) if equals else 1
    except ValueError:
        raise BadInput(f'--licence: "{word[:80]}" is not of the form NAME or NAME=NUMBER') from None
