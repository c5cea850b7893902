"""Which storage place a server works with, and what of a node's words lies there."""

from __future__ import annotations

import pytest

from headway.core.files.storage_identity import Identity, Place, StrangePlace, recognise, recognise_silent
from headway_wire.storage_marks import is_here

HERE = Place(1, "aaa", "17", "/srv/one", 5.0)
MOVED = Place(2, "aaa", "18", "/srv/two", 6.0)


def test_the_first_place_is_taken_as_it_is() -> None:
    assert recognise([], Identity("aaa", "17"), "/srv/one", 5.0) == HERE
    assert HERE.mark == "aaa.1"


def test_the_same_place_is_known_again() -> None:
    assert recognise([HERE], Identity("aaa", "17"), "/srv/one", 9.0) is HERE


@pytest.mark.parametrize(
    ("found", "at"),
    [(Identity("aaa", "18"), "/srv/two"), (Identity("aaa", "18"), "/srv/one"), (Identity("aaa", "17"), "/srv/two")],
    ids=["copied elsewhere", "replaced by a copy", "called otherwise"],
)
def test_a_copy_of_the_objects_is_the_next_turn(found: Identity, at: str) -> None:
    assert recognise([HERE], found, at, 6.0) == Place(2, *found, at, 6.0)


@pytest.mark.parametrize("found", [None, Identity("bbb", "17")], ids=["no id", "another id"])
def test_a_place_without_the_objects_is_refused_unless_it_is_accepted(found: Identity | None) -> None:
    with pytest.raises(StrangePlace, match="/srv/two, which is not where") as refused:
        recognise([HERE], found, "/srv/two", 6.0)
    assert "--accept-storage" in refused.value.hint
    accepted = recognise([HERE], Identity("bbb", "17"), "/srv/two", 6.0, accept=True)
    assert accepted.mark == "bbb.2"


def test_a_place_that_the_objects_were_moved_away_from_is_refused() -> None:
    with pytest.raises(StrangePlace, match="moved away from there"):
        recognise([HERE, MOVED], Identity("aaa", "17"), "/srv/one", 9.0)
    back = recognise([HERE, MOVED], Identity("aaa", "17"), "/srv/one", 9.0, accept=True)
    assert back.mark == "aaa.3", "what was told under its first mark is not there"


def test_two_servers_may_call_one_place_by_two_paths() -> None:
    places = [HERE, Place(2, "aaa", "17", "/mnt/one", 6.0)]
    assert recognise(places, Identity("aaa", "17"), "/srv/one", 7.0).turn == 3


def test_a_silent_place_is_taken_for_the_known_one_only_under_its_name() -> None:
    assert recognise_silent([HERE], "/srv/one", 9.0, "new", "timeout") is HERE
    with pytest.raises(StrangePlace, match="cannot be asked"):
        recognise_silent([HERE], "/srv/two", 9.0, "new", "timeout")
    first = recognise_silent([], "/srv/one", 9.0, "new", "timeout")
    assert not is_here("", first.mark), "nobody knows whether it is the first one"
    assert is_here(first.mark, first.mark)


def test_an_agent_that_names_no_mark_means_the_first_place() -> None:
    assert is_here("", HERE.mark)
    assert not is_here("", MOVED.mark)
    assert not is_here(HERE.mark, MOVED.mark)
    assert is_here("", "")
