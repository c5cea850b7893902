"""Schedules: which moments are due, what an overlap does, and which cron expressions are refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from headway.core.errors import BadInput
from headway.features.schedules.rules import Schedule, fire, next_at, paused, read_schedule, show_schedule, submitted


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


MONDAY = at("2030-01-07T00:00")


def a_schedule(cron: str = "0 * * * *", **fields: Any) -> Schedule:
    made = read_schedule("s", {"cron": cron, "job": {"command": ["true"]}}, "ada", MONDAY)
    return replace(made, **fields)


def test_nothing_is_due_before_the_first_moment_and_each_moment_once() -> None:
    schedule = a_schedule()
    assert next_at(schedule) == MONDAY + 3600
    assert fire(schedule, (), MONDAY + 3599) is None
    fired = fire(schedule, (), MONDAY + 3600)
    assert fired is not None
    assert fired.submit
    assert fire(fired.schedule, (), MONDAY + 3601) is None


def test_moments_that_were_missed_are_made_up_for_once() -> None:
    fired = fire(a_schedule(), (), MONDAY + 50 * 3600 + 5)
    assert fired is not None
    assert fired.schedule.fired == 1
    assert next_at(fired.schedule) == MONDAY + 51 * 3600


@pytest.mark.parametrize(
    ("overlap", "submit", "after", "stop"),
    [("skip", False, (), ()), ("queue", True, ("j2",), ()), ("replace", True, ("j2",), ("j1", "j2"))],
)
def test_what_an_overlap_does(overlap: str, submit: bool, after: tuple[str, ...], stop: tuple[str, ...]) -> None:
    schedule = a_schedule(overlap=overlap, jobs=("j0", "j1", "j2"))
    fired = fire(schedule, {"j1", "j2"}, MONDAY + 3600)
    assert fired is not None
    assert (fired.submit, fired.after, fired.stop) == (submit, after, stop)
    assert fired.schedule.jobs == ("j1", "j2"), "what has ended is forgotten"
    assert (fired.schedule.fired, fired.schedule.skipped) == ((1, 0) if submit else (0, 1))


def test_a_queue_of_its_own_jobs_has_an_end() -> None:
    schedule = a_schedule(overlap="queue", jobs=tuple(f"j{number}" for number in range(10)))
    fired = fire(schedule, set(schedule.jobs), MONDAY + 3600)
    assert fired is not None
    assert not fired.submit
    assert fired.detail == "10 of its jobs have not ended"


def test_a_pause_is_not_made_up_for() -> None:
    waiting = paused(a_schedule(), True, MONDAY)
    assert next_at(waiting) is None
    assert fire(waiting, (), MONDAY + 9 * 3600) is None
    again = paused(waiting, False, MONDAY + 9 * 3600 + 5)
    assert fire(again, (), MONDAY + 9 * 3600 + 6) is None
    assert next_at(again) == MONDAY + 10 * 3600


def test_a_schedule_follows_the_clock_of_its_zone() -> None:
    raw = {"cron": "30 6 * * *", "zone": "Europe/Berlin", "job": {"command": ["true"]}}
    assert next_at(read_schedule("s", raw, "ada", at("2030-07-01T00:00"))) == at("2030-07-01T04:30")
    assert next_at(read_schedule("s", raw, "ada", at("2030-01-01T00:00"))) == at("2030-01-01T05:30")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"cron": "0 0 30 2 *"}, 'cron: "0 0 30 2 *" never fires'),
        ({"cron": "61 * * * *"}, "bad minute"),
        ({"cron": "* * *"}, "has not five fields"),
        ({"cron": "* * * * * *"}, "has not five fields"),
        ({"cron": 5}, "expected a text"),
        ({"zone": "Mars/Base"}, '"Mars/Base" is not a time zone'),
        ({"overlap": "maybe"}, "is not one of skip, queue, replace"),
        ({"job": {"command": ["true"], "start_at": 5}}, "the schedule says when it starts"),
        ({"when": "now"}, 'unknown key "when"'),
    ],
)
def test_nonsense_is_refused_with_a_reason(words: dict[str, Any], message: str) -> None:
    raw = {"cron": "0 * * * *", "job": {"command": ["true"]}, **words}
    with pytest.raises(BadInput) as refused:
        read_schedule("s", raw, "ada", MONDAY)
    assert message in refused.value.message


def test_nicknames_are_read() -> None:
    assert next_at(a_schedule("@daily")) == MONDAY + 86400


def test_a_schedule_is_shown_with_its_next_moment() -> None:
    shown = show_schedule(submitted(a_schedule(), "j1"))
    assert (shown["next_at"], shown["jobs"], shown["job"]["command"]) == (MONDAY + 3600, ["j1"], ["true"])
