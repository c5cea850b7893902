"""`headway metrics`: what a job has logged, as a table, as curves, or as data."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.options import connect, job_argument, output_options
from headway.cli.frame.output import Output, write
from headway.core.errors import BadInput
from headway.features.metrics.braille import figure, plot
from headway.features.metrics.curves import smoothed

FRESH_S = 1.0
CSV_POINTS = 1_000_000
PLOT_POINTS = 2_000
NAME_CHARS = 60
AXES = ("step", "time", "wall")


@click.command(
    epilog=examples(
        "headway metrics mnist",
        "headway metrics mnist --plot loss",
        "headway metrics mnist --plot loss --smooth 0.6 --x time",
        "headway metrics mnist --csv > points.csv  # every point of every series",
    )
)
@job_argument
@click.option("--plot", "names", multiple=True, metavar="NAME", help="Draw this metric; several times for several.")
@click.option("--smooth", type=click.FloatRange(0, 1, max_open=True), default=0.0, help="Smooth curves: 0 to 0.99.")
@click.option("--x", "axis", type=click.Choice(AXES), default="step", help="Draw over steps, seconds, or time of day.")
@click.option("--attempt", type=click.IntRange(min=1), help="Of this attempt; the newest, when left out.")
@click.option("--rank", type=click.IntRange(min=0), help="Of this rank; all of them, when left out.")
@click.option("--all-attempts", is_flag=True, help="Of every attempt, each for itself.")
@click.option("--csv", "as_csv", is_flag=True, help="Print points as CSV: all, or those of --plot.")
@output_options
def metrics(
    job: str,
    names: tuple[str, ...],
    smooth: float,
    axis: str,
    attempt: int | None,
    rank: int | None,
    all_attempts: bool,
    as_csv: bool,
    output: Output,
) -> int:
    """Show what a job has logged: every series, with its last, least and greatest value.

    Numbers come from headway.log in the script, from lines that any program appends to the file that
    $HEADWAY_METRICS_FILE names, and from what is found in the job's output and files.
    """
    if attempt is not None and all_attempts:
        raise BadInput("--attempt and --all-attempts: one or the other")
    client = connect(output)
    said = client.metrics.all(job, {"rank": rank, "attempt": attempt, "fresh_s": FRESH_S})
    rows = said["series"] if all_attempts or attempt is not None else _newest(said["series"])
    if not names and not as_csv:
        output.show({**said, "series": rows}, lambda: _table(output, rows), lambda: _names(rows))
        _say_notes(output, said, rows, all_attempts)
        return exits.OK
    wanted = names or tuple(dict.fromkeys(row["name"] for row in rows))
    attempts = {row["attempt"] for row in rows}
    points = CSV_POINTS if as_csv or output.machine else PLOT_POINTS
    curves = [
        curve
        for name in wanted
        for curve in client.metrics.points(said["job"], name, attempt, rank, points=points)
        if curve["attempt"] in attempts
    ]
    if as_csv:
        _write_csv(curves)
        for note in thinned(curves, rows):
            output.say(note)
    else:
        output.show({"curves": curves}, lambda: _plots(curves, smooth, axis), lambda: _names(curves))
    return exits.OK


def _newest(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    newest = max((row["attempt"] for row in rows), default=0)
    return [row for row in rows if row["attempt"] == newest]


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(row["name"]) for row in rows))


def _say_notes(output: Output, said: Mapping[str, Any], rows: Sequence[Any], all_attempts: bool) -> None:
    if not said["series"]:
        output.say(f'{said["job"]} has logged nothing yet; in its script: headway.log({{"loss": loss}}, step=step)')
    older = len({row["attempt"] for row in said["series"]} - {row["attempt"] for row in rows})
    if older and not all_attempts:
        output.say(f"{older} earlier attempts have series of their own: --all-attempts shows them")
    for note in said["notes"]:
        output.say(note)


def _table(output: Output, rows: Sequence[Mapping[str, Any]]) -> str:
    several = {name: len({row[name] for row in rows}) > 1 for name in ("attempt", "rank")}
    extra = [name for name in ("attempt", "rank") if several[name] or output.wide]
    heads = ["NAME", *map(str.upper, extra), "LAST", "MIN", "MAX", "STEPS", "POINTS", "SOURCE"]
    lines = [
        [
            _short(row["name"]),
            *(str(row[name]) for name in extra),
            _value(row["last"], None),
            _value(row["min"], row["min_step"]),
            _value(row["max"], row["max_step"]),
            _steps(row),
            f"{row['count']:,}" + (f" ({row['nans']:,} NaN)" if row["nans"] else ""),
            row["source"],
        ]
        for row in rows
    ]
    return output.table(heads, lines)


def _short(name: str) -> str:
    return name if len(name) <= NAME_CHARS else name[: NAME_CHARS - 1] + "…"


def _value(value: float | None, step: int | None) -> str:
    if value is None:
        return "–"
    return figure(value) + (f" @{step}" if step is not None else "")


def _steps(row: Mapping[str, Any]) -> str:
    if row["last_step"] is None:
        return "–"
    back = f", {row['back']:,} times back" if row["back"] else ""
    return f"{row['first_step']}–{row['last_step']}{back}"


def _plots(curves: Sequence[Mapping[str, Any]], smooth: float, axis: str) -> str:
    size = shutil.get_terminal_size((80, 24))
    several = {name: len({curve[name] for curve in curves}) > 1 for name in ("attempt", "rank")}
    pages = []
    for curve in curves:
        title = curve["name"] + "".join(f", {name} {curve[name]}" for name in several if several[name])
        title += f" (smoothed by {smooth:g})" if smooth else ""
        values = smoothed(curve["values"], smooth) if smooth else curve["values"]
        pages.append(plot(list(zip(_across(curve, axis), values, strict=True)), size.columns - 1, 15, title, axis))
    return "\n\n".join(pages)


def _across(curve: Mapping[str, Any], axis: str) -> list[float]:
    if axis == "step":
        return [place if step is None else float(step) for place, step in enumerate(curve["steps"])]
    begin = curve["at"][0] if axis == "time" and curve["at"] else 0.0
    return [at - begin for at in curve["at"]]


def thinned(curves: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is said of curves that came with fewer points than there are."""
    whole = {(row["name"], row["attempt"], row["rank"], row["source"]): row["count"] for row in rows}
    found = []
    for curve in curves:
        count = whole.get((curve["name"], curve["attempt"], curve["rank"], curve["source"]), 0)
        if len(curve["values"]) < count:
            found.append(f"{curve['name']}: {len(curve['values']):,} of {count:,} points, with every spike among them")
    return found


def _write_csv(curves: Sequence[Mapping[str, Any]]) -> None:
    import csv
    import io

    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("name", "attempt", "rank", "step", "at", "value", "source"))
    for curve in curves:
        for step, at, value in zip(curve["steps"], curve["at"], curve["values"], strict=True):
            where = (curve["name"], curve["attempt"], curve["rank"])
            table.writerow((*where, "" if step is None else step, f"{at:.6f}", repr(value), curve["source"]))
    write(text.getvalue().rstrip("\n"))
