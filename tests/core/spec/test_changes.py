"""Changes to a description: groups key by key, null takes away, and words that are said in two ways stay one."""

from __future__ import annotations

from typing import Any

import pytest

from headway.core.errors import BadInput
from headway.core.spec.changes import changed
from headway.core.spec.job import read_spec, show_spec

RAW: dict[str, Any] = {
    "command": ["x"],
    "resources": {"cpus": 2, "gpus": 1},
    "env": {"A": "1", "B": "2"},
    "retry": {"max": 2, "platform_max": 5},
    "notice": {"signal": "SIGUSR1", "grace": 60},
    "inputs": {"d": {"url": "/a", "sha256": "ab" * 32}},
    "outputs": ["o"],
}


@pytest.mark.parametrize(
    ("changes", "raw"),
    [
        ({}, RAW),
        ({"resources": {"gpus": 2}}, {**RAW, "resources": {"cpus": 2, "gpus": 2}}),
        ({"resources": {"gpus": None}}, {**RAW, "resources": {"cpus": 2}}),
        ({"env": {"A": None, "C": "3"}}, {**RAW, "env": {"B": "2", "C": "3"}}),
        ({"env": None}, {**RAW, "env": {}}),
        ({"outputs": ["p"]}, {**RAW, "outputs": ["p"]}),
        ({"inputs": {"d": "/b"}}, {**RAW, "inputs": {"d": "/b"}}),
        ({"retries": 7}, {**RAW, "retry": {"max": 7, "platform_max": 5}}),
        ({"retry": {"max": 7}}, {**RAW, "retry": {"max": 7, "platform_max": 5}}),
        ({"retry": {"quick_max": 1}}, {**RAW, "retry": {"max": 2, "platform_max": 5, "quick_max": 1}}),
        ({"grace": "5s"}, {**RAW, "notice": {"signal": "SIGUSR1", "grace": 5}}),
        ({"notice": {"grace": "5s"}}, {**RAW, "notice": {"signal": "SIGUSR1", "grace": 5}}),
        ({"command": "echo a"}, {**RAW, "command": ["echo", "a"], "name": "x"}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_changed_description_reads_as_if_it_had_been_written_so(changes: Any, raw: Any) -> None:
    assert show_spec(changed(read_spec(RAW), changes)) == show_spec(read_spec(raw))


def test_a_word_that_there_is_not_is_refused() -> None:
    with pytest.raises(BadInput, match="unknown key"):
        changed(read_spec(RAW), {"retires": 1})
