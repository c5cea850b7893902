"""Looks that many callers share, and followers of one log, who share them over real HTTP."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from headway.api.content.shared_reads import FRESH_S, KEPT_BYTES_MAX, Looks
from headway.store.memory.store import MemoryStore
from headway.store.protocol import LogRange
from tests.api.serving import Serving
from tests.waiting import PATIENCE_S, wait_until

FOLLOWERS = 20


class Book:
    """Something to look at, which counts the looks."""

    def __init__(self) -> None:
        self.looks = 0
        self.now = 100.0
        self.content: bytes | Exception = b"one"
        self.shared = Looks(lambda: self.now)

    def look(self) -> bytes:
        self.looks += 1
        if isinstance(self.content, Exception):
            raise self.content
        return self.content

    async def ask(self, what: str = "all", keep: bool = True) -> bytes:
        return await self.shared.share("j1", what, self.look, len, keep)


def test_who_wants_the_same_shares_one_look_until_there_is_news() -> None:
    async def story(book: Book) -> None:
        assert await asyncio.gather(*(book.ask() for _ in range(50))) == [b"one"] * 50
        assert await book.ask() == b"one"
        assert book.looks == 1
        await book.ask("other")
        assert book.looks == 2
        book.content = b"two"
        book.shared.forget("j1")
        assert await book.ask() == b"two"
        assert book.looks == 3

    asyncio.run(story(Book()))


def test_a_look_is_made_anew_when_it_is_old_or_large_or_failed_or_no_news_would_come() -> None:
    async def story(book: Book) -> None:
        await book.ask()
        book.now += FRESH_S + 0.1
        await book.ask()
        assert book.looks == 2
        book.shared.forget("j1")
        book.content = b"x" * (KEPT_BYTES_MAX + 1)
        await asyncio.gather(book.ask(), book.ask())
        await book.ask()
        assert book.looks == 4
        await book.ask("led elsewhere", keep=False)
        await book.ask("led elsewhere", keep=False)
        assert book.looks == 6
        book.content = OSError("away")
        for _ in range(2):
            with pytest.raises(OSError, match="away"):
                await book.ask("more")
        assert book.looks == 8
        assert not book.shared._kept

    asyncio.run(story(Book()))


def test_a_caller_who_goes_away_takes_nothing_from_the_others() -> None:
    async def story(book: Book) -> None:
        first = asyncio.ensure_future(book.ask())
        await asyncio.sleep(0)
        second = asyncio.ensure_future(book.ask())
        await asyncio.sleep(0)
        first.cancel()
        assert await second == b"one"
        assert book.looks == 1

    asyncio.run(story(Book()))


def all_have(read: list[bytearray], size: int) -> bool:
    return all(len(mine) == size for mine in read)


class Counting(MemoryStore):
    """A store that counts how often an index of logs is read."""

    def __init__(self) -> None:
        super().__init__()
        self.log_reads = 0

    def logs(self, job: str, attempt: int | None = None) -> list[LogRange]:
        self.log_reads += 1
        return super().logs(job, attempt)


def test_followers_of_one_log_share_its_reads_and_each_gets_every_byte(tmp_path: Path) -> None:
    store = Counting()
    lines = [f"line {number}\n".encode() for number in range(5)]
    with Serving(tmp_path, store) as server, ThreadPoolExecutor(FOLLOWERS) as pool:
        server.join()
        job = server.submit()
        server.start(f"{job}/1/0")
        read: list[bytearray] = [bytearray() for _ in range(FOLLOWERS)]

        def follow(mine: bytearray) -> None:
            while True:
                path = f"/api/v1/jobs/{job}/logs/raw?attempt=1&offset={len(mine)}&wait_s=20"
                answer = server.ask("GET", path)
                assert answer.status == 200, answer.data
                mine += answer.data
                if answer.headers["headway-done"] == "true":
                    return

        followers = [pool.submit(follow, mine) for mine in read]
        waiters = server.services.hub._log_waiters
        at = 0
        for number, line in enumerate(lines):
            wait_until(lambda: len(waiters.get(job, ())) == FOLLOWERS, what="all followers waiting")
            key = f"logs/n1/{number}"
            server.storage.put(key, line)
            piece = {"rank": 0, "stream": "out", "start": at, "end": at + len(line), "key": key, "key_offset": 0}
            server.sync(logs=[{"task": f"{job}/1/0", **piece}])
            at += len(line)
            wait_until(partial(all_have, read, at), what="the line at all followers")
        server.end(f"{job}/1/0")
        for each in followers:
            each.result(timeout=PATIENCE_S)
    assert all(bytes(mine) == b"".join(lines) for mine in read)
    assert not server.services.hub._log_waiters
    assert not server.services.hub.looks._kept
    # Without sharing it would be two for every line and follower.
    assert store.log_reads < FOLLOWERS * len(lines)
