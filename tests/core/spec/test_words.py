"""A word is one entry: one that is only here is read, shown, described, stored, changed, said by flags, told nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import pytest
from click.testing import CliRunner

from headway.cli.job_flags.flags import changes_given, set_options, spec_given, spec_options
from headway.control.nodes.duties import claim_of
from headway.core.errors import BadInput
from headway.core.fields import one_of, whole
from headway.core.model import Job, Task
from headway.core.spec.job import WORDS, JobSpec, read_spec, show_spec
from headway.core.spec.words import WHOLE, Flag, Travel, Words, obj, word
from headway.store.sql.rows import read_as, to_json
from tests.builders import NOW

COLOURS = ("red", "green")
BASE: dict[str, Any] = {"command": ["true"], "name": "toy"}


@dataclass(frozen=True, slots=True)
class ToySpec(JobSpec):
    """All words of a job, and two more."""

    colour: str = word(
        "",
        key="colour",
        says="the colour of its lamp",
        read=lambda value, what: one_of(value, what, COLOURS),
        schema={"enum": list(COLOURS)},
        changeable=True,
        flags=(Flag("--colour", "Colour of its lamp.", changing="Another colour; - is none."),),
        travels=Travel("lamp"),
    )
    shine: tuple[int, int] = word(
        (0, 0),
        key="shine",
        says="how it shines",
        read=lambda raw, what: (whole(raw["level"], what, 0, 9), whole(raw.get("pause", 0), what, 0, 9)),
        show=lambda shine, _: {"level": shine[0], "pause": shine[1]},
        schema=obj(level=WHOLE, pause=WHOLE),
        flags=(Flag("--level", "How bright.", type="int", inner="level"),),
    )


TOYS = Words(ToySpec)


def test_it_is_read_and_shown_and_left_out_by_default() -> None:
    spec = read_spec({**BASE, "colour": "red", "shine": {"level": 3}}, TOYS)
    assert isinstance(spec, ToySpec)
    assert (spec.colour, spec.shine) == ("red", (3, 0))
    shown = show_spec(spec, TOYS)
    assert (shown["colour"], shown["shine"]) == ("red", {"level": 3, "pause": 0})
    assert read_spec(shown, TOYS) == spec
    assert show_spec(read_spec(BASE, TOYS), TOYS) == show_spec(read_spec(BASE))
    with pytest.raises(BadInput, match='colour: "blue" is not one of red, green'):
        read_spec({**BASE, "colour": "blue"}, TOYS)
    with pytest.raises(BadInput, match='unknown key "colour"'):
        read_spec({**BASE, "colour": "red"})


def test_it_is_described_for_openapi() -> None:
    schema = TOYS.schema()
    assert schema["properties"]["colour"] == {"enum": ["red", "green"], "description": "the colour of its lamp"}
    assert schema["required"] == ["command"]
    assert list(schema["properties"])[:-2] == list(WORDS.schema()["properties"])


def test_it_is_stored_and_a_spec_of_before_is_read() -> None:
    spec = read_spec({**BASE, "shine": {"level": 3}}, TOYS)
    assert read_as(ToySpec, to_json(spec)) == spec
    before = read_as(ToySpec, to_json(read_spec(BASE)))
    assert (before.colour, before.name) == ("", "toy")


def test_it_may_be_changed_while_a_job_waits_if_it_says_so() -> None:
    assert "colour" in TOYS.changeable
    assert "shine" not in TOYS.changeable


def test_flags_say_it_after_those_that_people_know() -> None:
    said: list[Any] = []

    def run(**given: Any) -> None:
        said.append(spec_given(given, {"shine": {"pause": 2}}, "/", TOYS))

    def change(**given: Any) -> None:
        said.append(changes_given(given, TOYS))

    command = click.command()(spec_options(run, {}, TOYS))
    CliRunner().invoke(command, ["--level", "4", "--colour", "green", "--cpus", "2"], catch_exceptions=False)
    changing = click.command()(set_options(change, TOYS))
    CliRunner().invoke(changing, ["--colour", "-", "--gpus", "1", "--cpus", "2"], catch_exceptions=False)
    assert said == [
        {"colour": "green", "shine": {"pause": 2, "level": 4}, "resources": {"cpus": 2.0}},
        {"colour": None, "resources": {"gpus": 1, "cpus": 2.0}},
    ]
    helped = CliRunner().invoke(command, ["--help"]).output
    assert helped.index("--launcher") < helped.index("--colour") < helped.index("--level")
    changed = CliRunner().invoke(changing, ["--help"]).output
    assert "Another colour; - is none." in changed
    assert "--level" not in changed


def test_nodes_are_told_of_it_if_it_travels() -> None:
    spec = read_spec({**BASE, "colour": "red", "shine": {"level": 3}}, TOYS)
    job = Job("j1", spec, "ada", NOW)
    told = claim_of(job, Task(0, "n1"), None, TOYS).show()
    assert told["lamp"] == "red"
    assert "shine" not in told
    assert claim_of(job, Task(0, "n1"), None).show().keys() == told.keys() - {"lamp"}


def test_every_word_says_what_it_is_and_no_two_are_called_alike() -> None:
    held = [(entry.group, entry.name) for entry in WORDS.all.values()]
    assert all(entry.says for entry in WORDS.all.values())
    assert len(set(held)) == len(held)
    flags = [flag.name for entry in WORDS.all.values() for flag in entry.flags]
    assert len(set(flags)) == len(flags)
