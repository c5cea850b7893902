"""The schema for editors takes what is read, and refuses what the gate refuses for its form."""

from __future__ import annotations

from typing import Any

import pytest

from headway.cli.job_flags.commented_file import SAMPLES
from headway.core.errors import BadInput
from headway.core.spec.job import WORDS, read_spec, show_spec
from headway.core.spec.job_schema import IN_A_FILE, job_schema
from tests.core.spec.schema_check import problems
from tests.core.spec.test_job import BAD, BASE

SCHEMA = job_schema()
FORMS: list[dict[str, Any]] = [
    {"command": "python train.py"},
    {"command": ["a", 1, 0.5]},
    {"after": "prep"},
    {"after": {"job": "prep", "when": "any"}},
    {"after": ["prep", {"job": "b", "each": True}], "array": 3},
    {"secrets": ["hf-token"]},
    {"secrets": {"A": "a", "B": {"name": "b", "file": True}}},
    {"on_failure": "hold 30m"},
    {"inputs": {"a": "/data", "b": {"url": "s3://b/c"}}},
    {"env": {"A": 1, "B": "x", "C": 0.5}},
    {"checkpoint": {"dir": "x", "keep_best": None}},
    {"checkpoint": {"dir": ["x", "y"], "keep_best": {"metric": "m"}}},
    {"limits": {"open_files": None, "output": None, "pending": 3.5}},
    {"retry": {"on_exit_codes": None, "capacity_max_per_day": 3}},
    {"params": {"lr": 0.1, "deep": True, "name": "x"}},
    {"start_at": 2e9},
]
# Refused by their form, so an editor can tell; what else is refused needs a parser, or the rest of the job.
SEEN_IN_AN_EDITOR = ("unknown key", "is not a whole number", "expected keys and values", "is not one of")


@pytest.mark.parametrize("said", FORMS, ids=str)
def test_every_form_that_is_read_is_in_the_schema(said: dict[str, Any]) -> None:
    read_spec(BASE | said)
    assert not list(problems(BASE | said, SCHEMA))


@pytest.mark.parametrize("key", [key for key in SAMPLES if key not in IN_A_FILE])
def test_the_sample_of_every_word_is_read_and_in_the_schema(key: str) -> None:
    beside = {"resources": {"gpus": 1}} if key == "gpu_type" else {}
    value = "/work" if key == "workdir" else SAMPLES[key]
    read_spec({**BASE, **beside, key: value})
    assert not list(problems({**BASE, key: value}, SCHEMA))


def test_every_word_has_a_sample_and_every_key_inside_has_a_sentence() -> None:
    assert set(SAMPLES) == set(WORDS.all)
    for key, schema in SCHEMA["properties"].items():
        assert schema["description"], key
        for inner in [schema, *schema.get("anyOf", ())]:
            assert all(each.get("description") for each in inner.get("properties", {}).values()), key


def test_null_leaves_a_word_out_where_the_schema_says_so() -> None:
    for key, schema in SCHEMA["properties"].items():
        taken = not list(problems(None, schema))
        try:
            read_spec({**BASE, key: None})
            read = key != "command"
        except BadInput:
            read = False
        assert taken == read or key == "command", key


def test_what_is_shown_of_a_job_is_in_the_schema() -> None:
    raw = {key: value for key, value in SAMPLES.items() if key not in IN_A_FILE}
    shown = show_spec(read_spec({**raw, "workdir": "/work"}))
    assert not list(problems(shown, SCHEMA))


@pytest.mark.parametrize(
    "wrong", [wrong for wrong, words, _ in BAD if any(form in words for form in SEEN_IN_AN_EDITOR)], ids=str
)
def test_what_is_refused_for_its_form_is_not_in_the_schema(wrong: dict[str, Any]) -> None:
    assert list(problems(BASE | wrong, SCHEMA))
