"""`headway schedule`: jobs that are submitted again and again, as a cron expression says."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from headway.cli.commands.run import JobCommand, describe, job_options
from headway.cli.frame import exits
from headway.cli.frame.options import connect, output_options
from headway.cli.frame.output import Output
from headway.cli.job_flags.bundle_upload import send
from headway.core.units import show_duration


@click.group()
def schedule() -> None:
    """Jobs that are submitted again and again."""


class ScheduleCommand(JobCommand):
    """Its first word is the schedule's name; what follows are flags, and then the job."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-"):
            args = ["--as", *args]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["NAME", *super().collect_usage_pieces(ctx)]


@schedule.command(cls=ScheduleCommand, context_settings={"allow_interspersed_args": False})
@click.option("--as", "schedule_name", required=True, hidden=True)
@click.option("--cron", required=True, metavar='"M H D M W"', help="When: minute, hour, day, month, weekday.")
@click.option("--tz", "timezone", default="UTC", metavar="ZONE", help="The time zone of --cron. [default: UTC]")
@click.option(
    "--overlap", type=click.Choice(("skip", "queue", "replace")), default="skip", help="While one still runs."
)
@click.option("--paused", is_flag=True, help="Create it paused.")
@job_options
@output_options
def create(
    schedule_name: str,
    cron: str,
    timezone: str,
    overlap: str,
    paused: bool,
    dry_run: bool,
    force: bool,
    output: Output,
    **given: Any,
) -> int:
    """Submit a job whenever --cron says. An existing schedule of that name is replaced.

    \b
    headway schedule create nightly --cron "0 3 * * *" train.py
    headway schedule create check --cron "*/30 8-18 * * 1-5" --tz Europe/Berlin -- ./check.sh
    """
    client = connect(output)
    prepared = describe(client, given)
    send(client, prepared, output)
    words = {"cron": cron, "zone": timezone, "overlap": overlap, "paused": paused, "job": prepared.raw}
    made = client.schedules.set(schedule_name, words)
    output.show(made, lambda: schedule_table(output, [made], time.time()), lambda: [schedule_name])
    return exits.OK


@schedule.command(name="ls")
@output_options
def list_schedules(output: Output) -> int:
    """List the schedules, and when each is due next."""
    found = connect(output).schedules.list()
    output.show(
        {"schedules": found},
        lambda: schedule_table(output, found, time.time()),
        lambda: [each["name"] for each in found],
    )
    if not found:
        output.say("no schedules")
    return exits.OK


@schedule.command()
@click.argument("name")
@output_options
def rm(name: str, output: Output) -> int:
    """Remove a schedule. Its jobs keep running."""
    connect(output).schedules.drop(name)
    output.show({"schedule": name}, lambda: f"schedule {name} is removed", lambda: [name])
    return exits.OK


@schedule.command()
@click.argument("name")
@output_options
def pause(name: str, output: Output) -> int:
    """Submit nothing until it is resumed."""
    return _pause(name, output, True)


@schedule.command()
@click.argument("name")
@output_options
def resume(name: str, output: Output) -> int:
    """Resume a schedule. Runs missed meanwhile are not made up for."""
    return _pause(name, output, False)


def _pause(name: str, output: Output, paused: bool) -> int:
    answer = connect(output).schedules.pause(name, paused)
    said = "is paused" if paused else "goes on"
    output.show(answer, lambda: f"schedule {name} {said}", lambda: [name])
    return exits.OK


def schedule_table(output: Output, found: Sequence[Mapping[str, Any]], now: float) -> str:
    rows = [
        (
            each["name"],
            each["cron"] if each["zone"] == "UTC" else f"{each['cron']} {each['zone']}",
            each["overlap"],
            "paused" if each["paused"] else _soon(each["next_at"], now),
            str(each["fired"]),
            str(each["skipped"]),
            ", ".join(each["jobs"]),
        )
        for each in found
    ]
    return output.table(("SCHEDULE", "CRON", "OVERLAP", "NEXT", "FIRED", "LEFT OUT", "JOBS"), rows)


def _soon(at: float | None, now: float) -> str:
    return "never" if at is None else f"in {show_duration(max(0.0, at - now))}"
