"""The gate: what a user may write, what is refused, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.errors import BadInput
from headway.core.model import Resources
from headway.core.spec.job import WORDS, JobSpec, name_for, read_spec, show_spec

BASE = {"command": ["python", "train.py"]}

# What is wrong, the words that must be in the message, the words that must be in the hint.
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"command": None}, "no command", "give a script"),
    ({"command": []}, "no command", ""),
    ({"command": " \n"}, "no command", ""),
    ({"command": "echo 'open"}, "no closing quotation", "close the quote"),
    ({"command": {"a": 1}}, "expected words or a script, found a mapping", "command: |"),
    ({"command": ["python", True]}, "True is not a word", "quote it"),
    ({"command": "#!\necho"}, "names no interpreter", "#!/bin/bash"),
    ({"command": "#!/usr/bin/awk -f\n{}"}, '"/usr/bin/awk" is not known to take a script', "in a file"),
    ({"command": ["python", "a\0b"]}, "NUL", ""),
    ({"command": ["", "x"]}, "the program's name is empty", ""),
    ({"comand": ["x"]}, 'unknown key "comand"', 'did you mean "command"?'),
    ({"gpu": 1}, 'unknown key "gpu"', ""),
    ({"resources": {"gpu": 1}}, 'resources: unknown key "gpu"', 'did you mean "gpus"?'),
    ({"resources": {"ram": "1G"}}, 'resources: unknown key "ram"', "known keys: cpus, memory, gpus"),
    ({"resources": []}, "resources: expected keys and values, found a list", ""),
    ({"resources": {"gpus": -1}}, "resources.gpus: -1 is outside 0 to 1024", ""),
    ({"resources": {"gpus": 1.5}}, 'resources.gpus: "1.5" is not a whole number', ""),
    ({"resources": {"gpus": True}}, 'resources.gpus: "True" is not a whole number', ""),
    ({"resources": {"cpus": -0.5}}, 'resources.cpus: "-0.5" is not a number', ""),
    ({"resources": {"cpus": float("nan")}}, 'resources.cpus: "nan" is not a number', ""),
    ({"resources": {"cpus": "2"}}, 'resources.cpus: "2" is not a number', ""),
    ({"resources": {"memory": "-16G"}}, 'resources.memory: "-16G" is not a size', ""),
    ({"resources": {"memory": "16X"}}, 'has the unit "x"', "use K, M, G, T"),
    ({"resources": {"memory": "9999999T"}}, "more than any machine has", ""),
    ({"name": "no spaces"}, 'name: "no spaces" is not a name', "letters, digits"),
    ({"name": "../up"}, "is not a name", ""),
    ({"name": "x" * 64}, "is not a name", ""),
    ({"name": "ok\n"}, "is not a name", ""),
    ({"name": 7}, 'name: "7" is not a name', ""),
    ({"project": ""}, "project:", ""),
    ({"queue": "a/b"}, "queue:", ""),
    ({"pool": "-lab"}, "pool:", ""),
    ({"nodes": 0}, "nodes: 0 is outside 1 to", ""),
    ({"nodes": -2}, "nodes: -2 is outside", ""),
    ({"nodes": "2"}, 'nodes: "2" is not a whole number', ""),
    ({"ranks_per_node": 0}, "ranks_per_node: 0 is outside", ""),
    ({"priority": 10**9}, "priority:", ""),
    ({"retries": -1}, "retries: -1 is outside", ""),
    ({"max_duration": 0}, "not longer than nothing", "leave it out"),
    ({"max_duration": "6 parsecs"}, 'has the unit "parsecs"', "use s, m, h"),
    ({"max_duration": []}, "max_duration:", ""),
    ({"grace": -1}, "grace: -1 is negative", ""),
    ({"grace": "soon"}, 'grace: "soon" is not a duration', ""),
    ({"streams": "both"}, 'streams: "both" is not one of merged, split', ""),
    ({"log_max": "1k"}, "less than 4096 bytes", ""),
    ({"env": ["A=1"]}, "env: expected names and values, found a list", ""),
    ({"env": {"A B": "1"}}, 'env: "A B" is not a usable name', ""),
    ({"env": {"A\n": "1"}}, "is not a usable name", ""),
    ({"env": {7: "1"}}, 'env: "7" is not a usable name', ""),
    ({"env": {"A": None}}, "env.A: expected a text, found nothing", "quote it"),
    ({"env": {"A": True}}, "env.A: expected a text", "quote it"),
    ({"env": {"A": "x\0y"}}, "env.A: contains a NUL byte", ""),
    ({"env": {f"V{n}": "x" * 100_000 for n in range(11)}}, "at most 1,048,576 are taken", ""),
    ({"workdir": "relative"}, "not an absolute path", ""),
    ({"workdir": "/a/../b"}, "not an absolute path", ""),
    ({"workdir": "/a\0"}, "not an absolute path", ""),
    ({"tags": {"a b": "x"}}, "tags:", ""),
]


@pytest.mark.parametrize(("wrong", "message", "hint"), BAD, ids=[words[:40] for _, words, _ in BAD])
def test_bad_input_is_refused_in_words_that_help(wrong: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_spec(BASE | wrong)
    assert message in refused.value.message
    assert hint in refused.value.hint
    assert len(refused.value.message) < 300, "what the user typed is quoted, not poured out"


@pytest.mark.parametrize("raw", [None, [], "text", 7])
def test_what_is_not_a_description_at_all_is_refused(raw: Any) -> None:
    with pytest.raises(BadInput, match="expected keys and values"):
        read_spec(raw)


def test_defaults_stand_for_all_that_is_left_out() -> None:
    spec = read_spec(BASE)
    assert spec == JobSpec(("python", "train.py"), "train")
    assert spec.resources == Resources(cpus=1.0)


def test_everything_that_can_be_said_is_read() -> None:
    spec = read_spec(
        BASE
        | {"name": "n", "project": "vision", "queue": "q", "pool": "lab", "priority": -5, "nodes": 2, "retries": 3}
        | {"resources": {"cpus": 0.5, "memory": "2Gi", "gpus": 8}, "env": {"A": 1, "B": "x"}, "workdir": "/data"}
        | {"max_duration": "6h", "grace": "1m", "streams": "split", "log_max": "1G", "tags": {"t": "u"}}
        | {"ranks_per_node": 8}
    )
    assert (spec.resources, spec.env) == (Resources(0.5, 2**31, 8), (("A", "1"), ("B", "x")))
    assert (spec.wall_s_max, spec.grace_s, spec.log_bytes_max) == (21600.0, 60.0, 10**9)
    assert read_spec(show_spec(spec)) == spec
    assert set(show_spec(spec)) <= set(WORDS.says)


NAMES = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
RAW = st.fixed_dictionaries(
    {"command": st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1), min_size=1)},
    optional={
        "name": NAMES,
        "nodes": st.integers(1, 100),
        "priority": st.integers(-100, 100),
        "retries": st.integers(0, 9),
        "resources": st.fixed_dictionaries(
            {}, optional={"cpus": st.floats(0, 64), "memory": st.integers(0, 2**50), "gpus": st.integers(0, 16)}
        ),
        "grace": st.floats(0, 10_000),
        "max_duration": st.one_of(st.none(), st.floats(0.001, 10_000)),
        "env": st.dictionaries(
            st.from_regex(r"\A[A-Z_]{1,9}\Z"), st.text(st.characters(codec="ascii", min_codepoint=1))
        ),
    },
)


@given(RAW)
def test_what_was_read_can_be_shown_and_read_again(raw: dict[str, Any]) -> None:
    spec = read_spec(raw)
    assert read_spec(show_spec(spec)) == spec


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*WORDS.says, "bogus"]), JUNK))
def test_whatever_is_written_is_read_or_refused_and_nothing_else(raw: dict[str, Any]) -> None:
    try:
        read_spec(raw)
    except BadInput:
        pass


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "src/train.py", "x"], "train"),
        (["./run me.sh"], "run-me"),
        (["/usr/bin/env"], "env"),
        (["..."], "job"),
        (["größe.py"], "gr-e"),
        (["x" * 99], "x" * 40),
        (["-_-"], "job"),
    ],
)
def test_a_job_without_a_name_is_called_after_its_script(command: list[str], name: str) -> None:
    assert name_for(tuple(command)) == name
    assert read_spec({"command": command}).name == name
