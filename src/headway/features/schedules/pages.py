"""`headway schedule`: jobs that are submitted again and again, as a cron expression says."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from headway.cli.commands.run import JobCommand, describe, job_options
from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.groups import Noun
from headway.cli.frame.options import connect, output_options
from headway.cli.frame.output import Output
from headway.cli.frame.things import done, listed, named, refuse_second, show
from headway.cli.job_flags.bundle_upload import send
from headway.core.errors import BadInput
from headway.core.units import show_duration


@click.group(cls=Noun)
def schedule() -> None:
    """Jobs that are submitted again and again."""


class ScheduleCommand(JobCommand):
    """Its first word is the schedule's name; what follows are flags, and then the job."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-"):
            args = ["--as", *args]
        elif "--as" not in args and not {"-h", "--help"} & set(args):
            raise BadInput(
                "a schedule has a name, which comes first", f'{ctx.command_path} nightly --cron "0 3 * * *" …'
            )
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["NAME", *super().collect_usage_pieces(ctx)]


def schedule_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The flags that say when, and those of the job."""
    flags = (
        click.option("--as", "schedule_name", default="", hidden=True),
        click.option("--cron", required=True, metavar='"M H D M W"', help="When: minute, hour, day, month, weekday."),
        click.option("--tz", "timezone", default="UTC", metavar="ZONE", help="The time zone of --cron. [default: UTC]"),
        click.option(
            "--overlap", type=click.Choice(("skip", "queue", "replace")), default="skip", help="While one still runs."
        ),
        click.option("--paused", is_flag=True, help="Begin paused."),
    )
    command = job_options(command)
    for flag in reversed(flags):
        command = flag(command)
    return command


@schedule.command(
    cls=ScheduleCommand,
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        'headway schedule create nightly --cron "0 3 * * *" train.py',
        'headway schedule create check --cron "*/30 8-18 * * 1-5" --tz Europe/Berlin -- ./check.sh',
    ),
)
@schedule_options
@output_options
def create(schedule_name: str, dry_run: bool, force: bool, output: Output, **given: Any) -> int:
    """Submit a job whenever --cron says, from now on. A schedule of that name must not exist."""
    client = connect(output)
    refuse_second(client.schedules.list(), schedule_name, "schedule")
    return _put(client, schedule_name, output, given)


@schedule.command(
    "set",
    cls=ScheduleCommand,
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        'headway schedule set nightly --cron "0 4 * * *" train.py',
        'headway schedule set nightly --cron "0 4 * * *" --overlap queue -f job.yaml',
    ),
)
@schedule_options
@output_options
def set_(schedule_name: str, dry_run: bool, force: bool, output: Output, **given: Any) -> int:
    """Change a schedule: its moments and its job are those that are given now. Made, where there is none."""
    return _put(connect(output), schedule_name, output, given)


def _put(client: Any, name: str, output: Output, given: dict[str, Any]) -> int:
    words = {"cron": given.pop("cron"), "zone": given.pop("timezone"), "overlap": given.pop("overlap")}
    words["paused"] = given.pop("paused")
    prepared = describe(client, given)
    send(client, prepared, output)
    made = client.schedules.set(name, {**words, "job": prepared.raw})
    output.show(made, lambda: schedule_table(output, [made], time.time()), lambda: [name])
    return exits.OK


@schedule.command(
    name="show", epilog=examples("headway schedule show nightly", "headway schedule show nightly -o json")
)
@click.argument("name")
@output_options
def show_schedule(name: str, output: Output) -> int:
    """Show one schedule: when, what, and what came of it."""
    return show(output, named(connect(output).schedules.list(), name, "schedule"), name)


@schedule.command(name="ls", epilog=examples("headway schedule ls", "headway schedule ls -o json"))
@output_options
def list_schedules(output: Output) -> int:
    """List the schedules, and when each is due next."""
    found = connect(output).schedules.list()
    empty = 'no schedules; make one: headway schedule create nightly --cron "0 3 * * *" train.py'
    return listed(output, "schedules", found, lambda: schedule_table(output, found, time.time()), empty)


@schedule.command(epilog=examples("headway schedule rm nightly", "headway schedule rm nightly -q"))
@click.argument("name")
@output_options
def rm(name: str, output: Output) -> int:
    """Remove a schedule. Its jobs keep running."""
    connect(output).schedules.drop(name)
    return done(output, {"schedule": name}, f"schedule {name} is removed", name)


@schedule.command(epilog=examples("headway schedule pause nightly", "headway schedule pause nightly --json"))
@click.argument("name")
@output_options
def pause(name: str, output: Output) -> int:
    """Submit nothing until it is resumed."""
    return _pause(name, output, True)


@schedule.command(epilog=examples("headway schedule resume nightly", "headway schedule resume nightly --json"))
@click.argument("name")
@output_options
def resume(name: str, output: Output) -> int:
    """Resume a schedule. Runs missed meanwhile are not made up for."""
    return _pause(name, output, False)


def _pause(name: str, output: Output, paused: bool) -> int:
    answer = connect(output).schedules.pause(name, paused)
    said = "is paused" if paused else "goes on"
    return done(output, answer, f"schedule {name} {said}", name)


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
    if at is None:
        return "never"
    return f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(at))}, in {show_duration(max(0.0, at - now))}"
