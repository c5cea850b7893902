"""Lines of logs: cut, put in the order of time, searched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import pytest

from headway.client.log_lines import LogLine, StoryPiece, followed_together, found, lines_of, merged
from headway.client.sdk import Client
from headway.client.story import Story
from headway.core.errors import NotFound
from tests.client.fake_server import FakeServer


@pytest.fixture
def another(client: Client) -> Iterator[Callable[[], Client]]:
    made: list[Client] = []

    def make() -> Client:
        made.append(client.another())
        return made[-1]

    yield make
    for each in made:
        each.close()


def told(lines: Iterable[LogLine]) -> list[tuple[float | None, int | None, str]]:
    return [(line.at, line.rank, line.text.decode()) for line in lines]


def test_a_line_has_the_time_of_its_end() -> None:
    pieces = [StoryPiece(b"a\nb", at=1.0), StoryPiece(b"c\nd", at=2.0)]
    assert told(lines_of(pieces)) == [(1.0, None, "a"), (2.0, None, "bc"), (2.0, None, "d")]


def test_ranks_of_a_gang_come_in_the_order_of_time(fake: FakeServer, client: Client) -> None:
    fake.add("j1", state="succeeded", spec={"nodes": 1, "ranks_per_node": 2})
    for rank, data, at in ((0, b"a\nb", 1.0), (1, b"x\n", 2.0), (0, b"!\nc\n", 3.0), (1, b"y\n", 4.0)):
        fake.write("j1", data, rank=rank, at=at)
    expected = [(1.0, 0, "a"), (2.0, 1, "x"), (3.0, 0, "b!"), (3.0, 0, "c"), (4.0, 1, "y")]
    assert told(Story(client, "j1").lines()) == expected
    assert told(Story(client, "j1").lines(follow=True)) == expected
    apart = told(Story(client, "j1", merge=False).lines())
    assert [rank for _, rank, _ in apart] == [0, 0, 0, 1, 1]


def test_until_ends_before_what_was_written_later(fake: FakeServer, client: Client) -> None:
    fake.add("j1", state="succeeded")
    for number in range(4):
        fake.write("j1", b"line %d\n" % number, at=100.0 + number)
    assert [text for _, _, text in told(Story(client, "j1", until_at=101.5).lines())] == ["line 0", "line 1"]
    assert [text for _, _, text in told(Story(client, "j1", since_at=101.0, until_at=102.0).lines())] == [
        "line 1",
        "line 2",
    ]


def test_a_rank_that_a_job_does_not_have_is_an_error_that_says_which_it_has(fake: FakeServer, client: Client) -> None:
    fake.add("one", state="succeeded")
    fake.add("gang", state="succeeded", spec={"nodes": 2, "ranks_per_node": 4})
    for job, has in (("one", "rank 0 only"), ("gang", "ranks 0 to 7")):
        for lines in (Story(client, job, rank=8).lines(), Story(client, job, rank=8).lines(follow=True)):
            with pytest.raises(NotFound, match="has no rank 8") as refused:
                list(lines)
            assert refused.value.hint == f"it has {has}"


def test_several_jobs_are_read_as_one(fake: FakeServer, another: Callable[[], Client]) -> None:
    for number in range(3):
        fake.add(f"j{number}", state="succeeded")
    for at in range(6):
        fake.write(f"j{at % 3}", b"line %d\n" % at, at=float(at))

    def stories(follow: bool) -> list[Iterable[LogLine]]:
        return [Story(another(), f"j{number}").lines(follow, f"j{number}") for number in range(3)]

    assert [(line.job, line.text) for line in merged(stories(False))] == [
        (f"j{at % 3}", b"line %d" % at) for at in range(6)
    ]
    assert sorted(line.text for line in followed_together(stories(True))) == [b"line %d" % at for at in range(6)]


def test_what_fails_in_one_of_several_is_raised(fake: FakeServer, another: Callable[[], Client]) -> None:
    fake.add("j1", state="succeeded")
    several = [Story(another(), job).lines(True) for job in ("j1", "nope")]
    with pytest.raises(NotFound):
        list(followed_together(several))


LINES = [LogLine(f"{number} {'hit' if number in (3, 4, 9) else 'line'}".encode()) for number in range(12)]


@pytest.mark.parametrize(
    ("context", "tail", "expected"),
    [
        (0, None, "3 4 9"),
        (1, None, "2 3 4 5 -- 8 9 10"),
        (2, None, "1 2 3 4 5 6 7 8 9 10 11"),
        (0, 1, "9"),
        (1, 1, "8 9 10"),
        (1, 2, "4 5 -- 8 9 10"),
        (0, 0, ""),
        (0, 99, "3 4 9"),
    ],
)
def test_what_is_found_and_what_stands_around_it(context: int, tail: int | None, expected: str) -> None:
    shown = [each.line.text.split()[0].decode() if each.line else "--" for each in
             found(LINES, re.compile(b"hit"), context, tail)]  # fmt: skip
    assert " ".join(shown) == expected


def test_the_lines_around_a_match_are_those_of_its_rank() -> None:
    lines = [LogLine(b"a", rank=0), LogLine(b"b", rank=1), LogLine(b"hit", rank=0), LogLine(b"c", rank=1)]
    assert [each.line.text for each in found(lines, re.compile(b"hit"), 1) if each.line] == [b"a", b"hit"]


def test_the_mark_of_an_attempt_stays_where_a_match_follows() -> None:
    marks = [LogLine(b"attempt 2", remark=True), LogLine(b"x"), LogLine(b"attempt 3", remark=True), LogLine(b"hit")]
    shown = [each.line.text for each in found([*marks, LogLine(b"attempt 4", remark=True)], re.compile(b"hit"))
             if each.line]  # fmt: skip
    assert shown == [b"attempt 2", b"attempt 3", b"hit"]
