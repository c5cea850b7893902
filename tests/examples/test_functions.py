"""Functions as jobs, on a living Headway."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import headway
from headway.client import calls
from tests.living import Living

pytestmark = pytest.mark.real


class OutOfRange(Exception):
    def __init__(self, number: int, limit: int) -> None:
        super().__init__(f"{number} is over {limit}")


def limited(number: int) -> int:
    if number > 9:
        raise OutOfRange(number, 9)
    return number


def square(number: int) -> int:
    if number < 0:
        raise ValueError("negative")
    return number * number


@pytest.fixture
def executor(living: Living) -> Iterator[calls.Executor]:
    made = headway.Executor(cpus=0.1)
    yield made
    made.client.close()


def test_calls_come_back_with_their_results(executor: calls.Executor, tmp_path: Path) -> None:
    assert executor.submit(square, 7).result(600) == 49
    jobs = executor.map_array(square, [1, 2, -3])
    done = {each.id for each in headway.as_completed(jobs, timeout_s=600)}
    assert done == {each.id for each in jobs}
    assert [each.result() for each in jobs[:2]] == [1, 4]
    assert isinstance(jobs[2].exception(), ValueError)
    with pytest.raises(ValueError, match="negative"):
        jobs[2].result()
    assert any("ValueError" in line for line in jobs[2].logs())


def test_an_exception_that_cannot_be_unpickled_tells_what_it_was(executor: calls.Executor) -> None:
    job = executor.submit(limited, 10)
    with pytest.raises(headway.CallFailed, match=f"OutOfRange: 10 is over 9 .in job {job.id}") as failed:
        job.result(600)
    assert "raise OutOfRange(number, 9)" in failed.value.trace
    assert failed.value.job == job.id


def test_calls_are_awaited(living: Living) -> None:
    remote = headway.job(cpus=0.1)(square)

    async def program() -> tuple[int, list[int], BaseException | None]:
        executor = headway.AsyncExecutor(cpus=0.1)
        bad = await executor.submit(square, -1)
        values = [value async for value in remote.map.aio([2, 3])]
        return await remote.remote.aio(4), values, await bad.exception(600)

    four, values, error = asyncio.run(program())
    assert (four, values) == (16, [4, 9])
    assert isinstance(error, ValueError)
