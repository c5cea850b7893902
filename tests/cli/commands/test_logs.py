"""`headway logs`: searched, with times, and what is said where nothing is found."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from headway.cli.frame.moments import moment
from headway.cli.screen.log_lines import paint_ranks, show_time
from headway.core.errors import BadInput
from tests.client.fake_server import FakeServer
from tests.waiting import wait_until

AT = 1_790_000_000.0


@pytest.fixture
def job(fake: FakeServer) -> str:
    fake.add("j1", state="succeeded")
    for number in range(10):
        fake.write("j1", b"step %d loss=%s\n" % (number, b"nan" if number == 6 else b"0.5"), at=AT + number)
    return "j1"


def test_lines_that_match_are_shown_with_those_around_them(job: str, headway: Callable) -> None:
    said = headway("logs", job, "--grep", "loss=NAN", "-i", "--context", "1")
    assert said.out == "step 5 loss=0.5\nstep 6 loss=nan\nstep 7 loss=0.5\n"
    assert headway("logs", job, "--grep", "step [0-3]", "--tail", "2").out == "step 2 loss=0.5\nstep 3 loss=0.5\n"


def test_that_nothing_matches_is_said(job: str, headway: Callable) -> None:
    said = headway("logs", job, "--grep", "inf$")
    assert (said.code, said.out, said.err) == (0, "", 'headway: no line of job j1 matches "inf$"\n')
    said = headway("logs", job, "--until", "2001-01-01")
    assert (said.code, said.out, said.err) == (0, "", "headway: job j1 has written nothing in that time\n")


def test_times_stand_before_the_lines(job: str, headway: Callable) -> None:
    said = headway("logs", job, "--timestamps", "--tail", "1")
    assert said.out == f"{show_time(AT + 9)} step 9 loss=0.5\n"
    since, until = show_time(AT + 3), show_time(AT + 4)
    assert headway("logs", job, "--since", since, "--until", until).out == "step 3 loss=0.5\nstep 4 loss=0.5\n"


def test_programs_get_lines_with_their_times(job: str, headway: Callable) -> None:
    (line,) = headway("logs", job, "--grep", "nan", "--json").json["lines"]
    assert line == {"at": AT + 6, "rank": None, "stream": "out", "text": "step 6 loss=nan", "match": True}


def test_a_followed_log_is_searched_too(job: str, headway: Callable) -> None:
    said = headway("logs", "-f", job, "--grep", "nan", "-t")
    assert said.out.endswith(" step 6 loss=nan\n")
    assert "succeeded" in said.err


def test_run_for_a_program_prints_the_outcome_alone(fake: FakeServer, headway: Callable, place: object) -> None:
    def end() -> None:
        wait_until(lambda: "job1" in fake.jobs, what="the job")
        fake.write("job1", b"epoch 1\n")
        fake.change("job1", state="succeeded", attempt=1, ended_at=1.0)

    threading.Thread(target=end).start()
    said = headway("run", "--json", "train.py")
    assert (said.json["state"], said.err) == ("succeeded", "")


def test_a_rank_that_is_not_there_is_named(job: str, headway: Callable) -> None:
    said = headway("logs", job, "--rank", "3")
    assert (said.code, said.out) == (5, "")
    assert said.err == 'error: job "j1" has no rank 3\nhint: it has rank 0 only\n'


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("10m", "2026-11-18 13:50:00"),
        ("90", "2026-11-18 13:58:30"),
        ("09:30", "2026-11-18 09:30:00"),
        ("9:30:15", "2026-11-18 09:30:15"),
        ("2026-11-17", "2026-11-17 00:00:00"),
        ("2026-11-17 08:00", "2026-11-17 08:00:00"),
        ("2026-11-17T08:00:01.5", "2026-11-17 08:00:01"),
        ("today", "2026-11-18 00:00:00"),
        ("yesterday", "2026-11-17 00:00:00"),
    ],
)
def test_moments_as_people_write_them(words: str, expected: str) -> None:
    now = datetime(2026, 11, 18, 14, 0).timestamp()
    found = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment(words, "--since", now)))
    assert found == expected


def test_a_moment_may_name_its_zone() -> None:
    expected = datetime(2026, 11, 18, 14, 0, tzinfo=UTC).timestamp()
    for words in ("2026-11-18T14:00:00Z", "2026-11-18 15:00+01:00"):
        assert moment(words, "--since", 0.0) == expected


@pytest.mark.parametrize("words", ["", "soon", "2026-13-01", "24:61", "10 years", "-5"])
def test_what_is_no_moment_is_refused(words: str) -> None:
    with pytest.raises(BadInput):
        moment(words, "--since", 1e9)


def test_each_rank_has_its_colour() -> None:
    painted = paint_ranks(b"[rank 0] a\n[rank 1] [rank 2] b\n")
    assert painted == b"\x1b[36m[rank 0]\x1b[0m a\n\x1b[33m[rank 1]\x1b[0m [rank 2] b\n"
