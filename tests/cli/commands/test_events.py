"""`headway events`: what happened, and the call that each event came of."""

from __future__ import annotations

from collections.abc import Callable

from tests.client.fake_server import FakeServer

STORY = [
    {"seq": 1, "kind": "JobSubmitted", "at": 100.0, "job": "j1", "attempt": 0, "data": {"name": "x"},
     "request": "ab.3"},
    {"seq": 2, "kind": "AttemptPlaced", "at": 101.0, "job": "j1", "attempt": 1, "data": {"nodes": ["n1", "n2"]},
     "request": "turn:1.7"},
    {"seq": 3, "kind": "NodeSilent", "at": 102.0, "job": "", "attempt": 0, "data": {"node": "n2", "why": None}},
]  # fmt: skip


def test_events_are_shown_with_their_calls(fake: FakeServer, headway: Callable) -> None:
    fake.events = STORY
    lines = headway("events").out.splitlines()
    assert [line.split()[2:6] for line in lines[1:]] == [
        ["JobSubmitted", "j1", "-", "ab.3"],
        ["AttemptPlaced", "j1", "1", "turn:1.7"],
        ["NodeSilent", "-", "-", "-"],
    ]
    assert [line.split()[-1] for line in lines[1:]] == ["name=x", "nodes=n1,n2", "node=n2"]


def test_one_call_can_be_picked(fake: FakeServer, headway: Callable) -> None:
    fake.events = STORY
    assert headway("events", "--request", "turn:1.7", "-q").out == "2\n"
    assert headway("events", "--request", "nobody").out.splitlines()[1:] == []


def test_of_one_job_the_id_is_left_out_and_events_are_chosen_by_time_and_kind(
    fake: FakeServer, headway: Callable
) -> None:
    fake.add("j1")
    fake.events = STORY[:2]
    assert headway("events", "j1").out.splitlines()[0].split() == ["TIME", "EVENT", "ATTEMPT", "REQUEST", "DETAIL"]
    assert headway("events", "j1", "--since", "1970-01-01T00:01:41Z", "-q").out == "2\n"
    assert headway("events", "j1", "--until", "1970-01-01T00:01:40Z", "-q").out == "1\n"
    assert headway("events", "--kind", "AttemptPlaced", "-q").out == "2\n"


def test_following_goes_on_until_the_job_has_ended(fake: FakeServer, headway: Callable) -> None:
    fake.add("j1", state="succeeded")
    fake.events = [*STORY[:2], {"seq": 4, "kind": "JobSucceeded", "at": 103.0, "job": "j1", "attempt": 1, "data": {}}]
    assert headway("events", "j1", "-f", "-q").out.split() == ["1", "2", "4"]
