"""Who waits for whom, for a time, or for a word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.core.explain import explain_state
from headway.core.job.lifecycle import step
from headway.core.job.signals import CancelAsked, CanNeverRun
from headway.core.model import Cause, Job, State
from headway.core.scheduling.dependencies import cycle_in
from headway.core.scheduling.scheduler import plan, view_of, why_waiting
from headway.core.scheduling.view import View
from headway.core.spec.scheduling import After, Wishes
from headway.core.units import show_time
from tests.builders import NOW, a_job, a_node, cancelled, failed, running, succeeded


def heir(*after: After, id: str = "heir", **fields: object) -> Job:
    return a_job(id, seq=9, wishes=Wishes(after=after), **fields)


def ready(view: View, now: float = NOW) -> list[str]:
    return [each.job for each in plan(view, now).placements]


@pytest.mark.parametrize(
    ("when", "end", "goes"),
    [
        ("ok", succeeded, True),
        ("ok", failed, False),
        ("ok", cancelled, False),
        ("any", succeeded, True),
        ("any", failed, True),
        ("any", cancelled, True),
        ("failed", failed, True),
        ("failed", succeeded, False),
    ],
)
@pytest.mark.parametrize("told", ["while it waits", "before", "by the store"])
def test_an_end_frees_its_heirs_or_ends_their_hope(when: str, end: object, goes: bool, told: str) -> None:
    first = a_job("first")
    ended: Job = end(first)  # type: ignore[operator]
    waiting = heir(After("first", when))
    if told == "while it waits":
        view = view_of([first, waiting], [a_node()])
        assert ready(view) == ["first"]
        view.saw(first, ended)
    elif told == "before":
        view = view_of([waiting, ended], [a_node()])
    else:
        view = view_of([waiting], [a_node()])
        assert view.unresolved() == {"first"}
        view.resolve("first", ended.state)
    assert ready(view) == (["heir"] if goes else [])
    assert [each.job for each in plan(view, NOW).never] == ([] if goes else ["heir"])
    assert not view.unresolved()


@pytest.mark.parametrize(
    ("afters", "needless", "says"),
    [
        ([After("one", "failed")], True, "it waits for the failure of one, which succeeded"),
        ([After("two", "ok")], False, "it waits for the success of two, which ended as failed"),
        ([After("three", "ok")], True, "it waits for the success of three, which ended as cancelled"),
        ([After("one", "failed"), After("two", "ok")], False, "it waits for the success of two, which ended as failed"),
        ([After("two", "ok"), After("three", "ok")], False, "it waits for the success of two, which ended as failed"),
    ],
)
def test_who_waits_in_vain_is_cancelled_where_nothing_failed_that_it_needs(
    afters: list[After], needless: bool, says: str
) -> None:
    view = view_of([heir(*afters)], [a_node()])
    for name, state in (("one", State.SUCCEEDED), ("two", State.FAILED), ("three", State.CANCELLED)):
        view.resolve(name, state)
    (never,) = plan(view, NOW).never
    assert (never.needless, never.detail) == (needless, says)
    ended = step(heir(*afters), CanNeverRun(never.detail, never.needless), NOW)
    assert (ended.state, ended.cause) == (
        (State.CANCELLED, Cause.NOT_NEEDED) if needless else (State.FAILED, Cause.BAD_SPEC)
    )


def test_a_job_that_is_not_there_will_never_end() -> None:
    view = view_of([heir(After("ghost"))], [a_node()])
    view.resolve("ghost", None)
    (never,) = plan(view, NOW).never
    assert never.detail == "it waits for ghost, and there is no such job"


def test_all_of_them_must_have_ended() -> None:
    one, two = a_job("one", seq=1), a_job("two", seq=2)
    view = view_of([one, two, heir(After("one"), After("two"))], [a_node(cpus=0)])
    view.saw(one, succeeded(one))
    assert set(view.blocked) == {"heir"}
    view.saw(two, succeeded(two))
    assert "heir" in view.queued


def test_a_whole_array_must_have_ended() -> None:
    members = [a_job(f"m{number}", seq=number, array_id="many", array_index=number) for number in range(3)]
    view = view_of([*members, heir(After("many"))], [a_node(cpus=0)])
    view.resolve("many", State.QUEUED)
    for member in members:
        assert "heir" in view.blocked
        view.saw(member, succeeded(member))
    assert "heir" in view.queued


def test_one_bad_member_spoils_an_array() -> None:
    members = [a_job(f"m{number}", seq=number, array_id="many", array_index=number) for number in range(2)]
    view = view_of([*members, heir(After("many")), heir(After("many", "any"), id="other")], [a_node(cpus=0)])
    view.saw(members[0], failed(members[0]))
    view.saw(members[1], succeeded(members[1]))
    assert "other" in view.queued
    assert [each.job for each in plan(view, NOW).never] == ["heir"]


def test_who_waits_for_himself_is_told() -> None:
    a, b = heir(After("b"), id="a"), heir(After("a"), id="b")
    view = view_of([a, b], [a_node()])
    (never,) = plan(view, NOW).never
    assert never.detail == "it waits for itself: b, which waits for a, which waits for b"
    assert cycle_in({"a": ("b",), "b": ("c",), "c": ("a",), "d": ("a",)}) == ("a", "b", "c", "a")
    assert cycle_in({"a": ("b", "c"), "b": ("c",), "c": ()}) == ()
    assert cycle_in({str(n): (str(n + 1),) for n in range(50_000)}) == (), "depth costs no stack"


def test_who_was_placed_once_waits_for_nobody_when_he_comes_back() -> None:
    again = replace(running(heir(After("gone"))), state=State.QUEUED)
    assert ready(view_of([again], [a_node("n1")])) == ["heir"]


def test_a_cancelled_heir_waits_for_nothing() -> None:
    first, waiting = a_job("first"), heir(After("first"))
    view = view_of([first, waiting], [a_node()])
    view.saw(waiting, step(waiting, CancelAsked(), NOW))
    view.saw(first, succeeded(first))
    assert not view.queued
    assert not view.blocked


def test_a_held_job_waits_for_a_word() -> None:
    job = a_job(wishes=Wishes(hold=True))
    view = view_of([job], [a_node()])
    assert ready(view) == []
    assert explain_state(job, why_waiting(job, view, NOW), NOW) == "waits: held until somebody releases it"
    view.saw(job, replace(job, spec=replace(job.spec, wishes=Wishes())))
    assert ready(view) == ["j1"]


def test_a_start_time_is_waited_for() -> None:
    job = a_job(wishes=Wishes(start_at=NOW + 60))
    view = view_of([job], [a_node()])
    assert view.next_wake() == NOW + 60
    assert ready(view) == []
    said = explain_state(job, why_waiting(job, view, NOW), NOW)
    assert said == f"waits: will not start before {show_time(NOW + 60)}, in 1 m 00 s"
    assert ready(view, NOW + 60) == ["j1"]


def test_waiting_for_others_is_said_with_their_names() -> None:
    job = heir(After("first"), After("second", "any"))
    view = view_of([a_job("first"), job, a_job("second", seq=2)], [a_node()])
    assert explain_state(job, why_waiting(job, view, NOW)) == "waits: for the end of first (ok), second (any)"
