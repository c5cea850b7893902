"""The blocking SDK and the one for asyncio are twins: what one has, with its parameters, the other has too."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import headway

# What only one of the two needs: to close, to be shared by threads, and what the command line asks.
ALONE = {"another", "close", "on_trouble", "prepare"}
MORE = {"aclose", "as_completed", "call", "each"}


def methods(of: type) -> dict[str, Any]:
    return {name: each for name, each in inspect.getmembers(of) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("blocking", "twin"),
    [
        (headway.Client, headway.AsyncClient),
        (headway.JobHandle, headway.AsyncJobHandle),
        (headway.Executor, headway.AsyncExecutor),
        (headway.FunctionCall, headway.AsyncFunctionCall),
    ],
)
def test_twins_have_the_same_methods_with_the_same_parameters(blocking: type, twin: type) -> None:
    one, other = methods(blocking), methods(twin)
    assert set(one) - ALONE - {"client"} == set(other) - MORE
    for name in set(one) - ALONE - {"client"}:
        if callable(one[name]):
            assert list(inspect.signature(one[name]).parameters) == list(inspect.signature(other[name]).parameters), (
                name
            )
        assert inspect.getdoc(other[name]), f"{twin.__name__}.{name} says nothing of itself"
