"""Words that the system could never start a program with are refused at the gate."""

from __future__ import annotations

from typing import Any

import pytest

from headway.core.errors import BadInput
from headway.core.spec.job import WORD_BYTES_MAX, read_spec


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"command": ["echo", "x" * 10 * 2**20]}, "has 10,485,760 bytes"),
        ({"command": ["echo", "x" * (WORD_BYTES_MAX + 1)]}, "has 131,072 bytes"),
        ({"command": ["echo", *["x" * 100_000] * 11]}, "bytes of arguments"),
        ({"command": ["echo", "\udcff"]}, "is not valid text"),
        ({"command": ["true"], "env": {"A": "x" * WORD_BYTES_MAX}}, "env.A: longer"),
        ({"command": ["true"], "env": {"A": "\udcff"}}, "is not valid text"),
        ({"command": ["true"], "workdir": "/\udcff"}, "is not valid text"),
    ],
)
def test_a_word_that_cannot_be_started_is_refused(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_spec(raw)
    assert message in refused.value.message
    assert len(refused.value.message) < 300


def test_the_longest_word_that_the_system_takes_is_taken() -> None:
    assert read_spec({"command": ["echo", "x" * WORD_BYTES_MAX]}).command[1]
