"""Messages: what is read from JSON, what is shown in it, and how one that is wrong is named."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from headway.core.model import Cause
from headway_agent.decide.symptoms import ROWS
from headway_wire import causes
from headway_wire.digests import digest_of
from headway_wire.kinds import Beside, Flag, Many, Maybe, Message, Pair, Record, Table, Text, WholeNumber, Wrong, word
from headway_wire.tasks import split_key, task_key


@dataclass(frozen=True)
class Wheel(Message):
    size: int = word(WholeNumber(1, 100), about="in inches")
    spare: bool = word(Maybe(Flag(), False), False, "it is carried, not used")


@dataclass(frozen=True)
class Load(Message):
    weight: int = word(WholeNumber(), 0, "in kilograms")
    speed: int = word(WholeNumber(), 0, "what it allows")


@dataclass(frozen=True)
class Wagon(Message):
    name: str = word(Text(), about="what it is called")
    wheels: tuple[Wheel, ...] = word(Many(Record(Wheel)), (), "all of them", always=True)
    names: Any = word(Table(Pair(Text(), WholeNumber())), {}, "by seat")
    owner: str | None = word(Maybe(Text()), None, "null is nobody", always=True)
    load: Load | None = word(Beside(Record(Load), lambda said: "weight" in said), None, "what is on it")
    speed: int | None = word(Maybe(WholeNumber()), None, "what is driven")


def test_a_message_is_shown_as_it_was_read() -> None:
    said = {"name": "w", "wheels": [{"size": 9}, {"size": 8, "spare": True}], "names": {"a": ["x", 1]}, "owner": None}
    read = Wagon.read(json.loads(json.dumps(said)))
    assert read == Wagon("w", (Wheel(9), Wheel(8, True)), {"a": ("x", 1)})
    assert read.show() == said


def test_a_word_that_says_what_its_absence_says_is_left_out_unless_it_is_always_said() -> None:
    assert Wagon("w").show() == {"name": "w", "wheels": [], "owner": None}


def test_unknown_words_are_passed_over_and_missing_ones_are_what_was_agreed() -> None:
    assert Wagon.read({"name": "w", "colour": "red"}) == Wagon("w")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, '"name" is missing'),
        ({"name": 7}, "name: expected a text, not 7"),
        (
            {"name": "w", "wheels": [{"size": 9}, {"size": 0}]},
            r"wheels\[1\].size: expected a whole number from 1 to 100",
        ),
        ({"name": "w", "wheels": [{"spare": True}]}, r'wheels\[0\]: "size" is missing'),
        ({"name": "w", "names": {"a": ["x"]}}, "names.a: expected a list of two"),
        ({"name": "w", "weight": "heavy"}, "weight: expected a whole number"),
        ([], "expected an object"),
    ],
)
def test_a_word_of_a_wrong_type_is_named_with_the_way_to_it(said: Any, why: str) -> None:
    with pytest.raises(Wrong, match=f"^{why}"):
        Wagon.read(said)


def test_words_of_a_part_may_stand_among_those_of_the_whole_which_outrank_them() -> None:
    wagon = Wagon("w", load=Load(5, speed=10), speed=3)
    assert wagon.show() == {"name": "w", "wheels": [], "owner": None, "weight": 5, "speed": 3}
    assert Wagon.read({"name": "w", "weight": 5}).load == Load(5)
    assert Wagon.read({"name": "w"}).load is None


def test_digests_are_those_of_the_protocol() -> None:
    assert digest_of({}) == "0" * 16
    pairs = {"a/1/0": "go", "b/1/0": "claim"}
    assert digest_of(pairs) == digest_of(dict(reversed(pairs.items()))) == "d813fedc68513efe"


def test_a_task_is_named_by_its_job_attempt_and_index() -> None:
    assert split_key(task_key("k7m2qx9d", 3, 1)) == ("k7m2qx9d", 3, 1)
    with pytest.raises(ValueError):
        split_key("logs")


def test_every_cause_that_agents_name_is_one_of_the_servers() -> None:
    named = {value for name, value in vars(causes).items() if name.isupper()}
    assert named <= {cause.value for cause in Cause}
    assert {row.cause for row in ROWS} <= named
