"""The SDK for asyncio: many wait at once, and what is cancelled is over. That twins are alike: tests/tidy."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.client.call_threads import CALLS_MOST
from tests.client.fake_server import FakeServer
from tests.waiting import wait_until


def loop(program: Callable[[headway.AsyncClient], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with headway.AsyncClient(patience_s=60.0) as client:
            return await program(client)

    return asyncio.run(main())


def calling() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "headway-call"]


def test_a_job_is_submitted_followed_and_stopped(fake: FakeServer, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWAY_BUNDLE", "never")

    async def program(client: headway.AsyncClient) -> list[str]:
        job = await client.submit(["true"], name="fit")
        fake.change(job.id, state="running", attempt=1)
        fake.write(job.id, b"one\ntwo\n")
        lines = []
        async for line in job.logs(follow=True):
            lines.append(line)
            if line == "two":
                fake.write(job.id, b"three")
                fake.change(job.id, state="succeeded", ended_at=time.time())
        assert await job.wait() == "succeeded"
        assert (await client.job(job.id)).name == "train"
        assert [each["id"] for each in await client.jobs(state="succeeded")] == [job.id]
        await job.stop()
        return lines

    assert loop(program) == ["one", "two", "three"]


def test_more_wait_at_once_than_there_are_connections(fake: FakeServer) -> None:
    many = CALLS_MOST * 2
    for number in range(many):
        fake.add(f"j{number}")

    async def program(client: headway.AsyncClient) -> list[str]:
        waiting = [asyncio.ensure_future(client.wait(f"j{number}")) for number in range(many)]
        await asyncio.sleep(0)
        assert (await client.detail("j0"))["state"] == "running", "others have room while all of these wait"
        assert len(calling()) <= CALLS_MOST + 1
        for number in range(many):
            fake.change(f"j{number}", state="succeeded")
        return [seen["state"] for seen, _ in await asyncio.gather(*waiting)]

    assert set(loop(program)) == {"succeeded"}


def test_jobs_are_yielded_as_they_end(fake: FakeServer) -> None:
    for name in ("a", "b"):
        fake.add(name)

    async def program(client: headway.AsyncClient) -> list[str]:
        jobs = [await client.job("a"), await client.job("b")]
        fake.change("b", state="failed")
        seen = []
        async for job in client.as_completed(jobs, timeout_s=300):
            seen.append(f"{job.id} {job.state}")
            fake.change("a", state="succeeded")
        fake.change("a", state="running")
        with pytest.raises(TimeoutError):
            [job async for job in client.as_completed(jobs[:1], timeout_s=0.01)]
        return seen

    assert loop(program) == ["b failed", "a succeeded"]


def test_what_is_cancelled_leaves_no_thread_behind(fake: FakeServer) -> None:
    fake.add("a")
    fake.write("a", b"line\n")

    async def program(client: headway.AsyncClient) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.wait("a"), 0.05)
        lines = client.each(lambda blocking: blocking.job("a").logs(follow=True))
        async for line in lines:
            assert line == "line"
            break
        await lines.aclose()
        assert (await client.detail("a"))["state"] == "running", "others are not disturbed"

    loop(program)
    wait_until(lambda: not calling(), what="the threads of what was cancelled")


def test_errors_are_those_of_the_blocking_client(fake: FakeServer) -> None:
    async def program(client: headway.AsyncClient) -> None:
        with pytest.raises(headway.NotFound, match='no job "gone"'):
            await client.job("gone")
        with pytest.raises(headway.NotFound):
            [line async for line in headway.AsyncJobHandle(client, {"id": "gone", "state": "queued"}).logs()]
        with pytest.raises(AttributeError):
            client.house.nosuch()

    loop(program)


def test_one_client_serves_one_loop_after_another(fake: FakeServer) -> None:
    client = headway.AsyncClient()
    for _ in range(2):
        assert asyncio.run(client.jobs()) == []
    asyncio.run(client.aclose())
