"""A job's log on a terminal: colours and progress bars as they were, and nothing that the terminal would obey."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.cli.screen.terminal_filter import Tame
from tests.cli.screen.test_visit import on_terminal
from tests.client.fake_server import FakeServer

ALLOWED = re.compile(r"\x1b\[[0-9;:]*m|\x1b\[[0-2]?K|[\t\n\r\b]|[^\x00-\x1f\x7f-\x9f]")
PIECES = st.sampled_from(
    ["\x1b", "\x1b[", "\x1b]", "\x1b]52;c;eA==", "\x07", "\x1b\\", "\x9b", "\x9d", "\x9c", "31m", "2J", "0;title", "\n",
     "\r", "\x1bP", "K", "ü", "text ", "\x00", "?1049h", "\x1b[31m", "\x1bc", "\x0e", "数"]
)  # fmt: skip


def tamed(*pieces: bytes, colour: bool = True) -> str:
    tame = Tame(colour)
    return (b"".join(tame.feed(each) for each in pieces) + tame.rest()).decode()


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("plain größe 数 🚂\n", "plain größe 数 🚂\n"),
        (
            "\x1b[1;31merror\x1b[0m: \x1b[38:2::255:0:0mx\x1b[m\n",
            "\x1b[1;31merror\x1b[0m: \x1b[38:2::255:0:0mx\x1b[m\n",
        ),
        (" 10%|#   |\r\x1b[K 20%|##  |\b\b!\n", " 10%|#   |\r\x1b[K 20%|##  |\b\b!\n"),
        ("a\x1b]0;root@bank\x07b\x1b]2;title\x1b\\c", "abc"),
        ("a\x1b]52;c;ZXZpbA==\x07b", "ab"),
        ("see \x1b]8;;http://x.test\x1b\\here\x1b]8;;\x1b\\", "see here"),
        ("one\n\x1b[A\x1b[2K\x1b[1;1H\x1b[2J\x1b[?1049htwo", "one\n\x1b[2Ktwo"),
        ("\x1b[6n\x1b[c\x05\x1bZ\x1bP$qm\x1b\\\x1b[21t\x1b[>4;2mx", "x"),
        ("\x1bc\x1b(0\x0ex\x0f\x00\x07\x7f", "x"),
        ("\u009b2J\u009d0;t\u009cx", "x"),
        ("\x1b]0;never ends\nnext line", "\nnext line"),
        ("\x1b[31mred and never put back", "\x1b[31mred and never put back\x1b[0m"),
        ("cut \x1b[3", "cut "),
    ],
)
def test_what_stays_and_what_goes(said: str, shown: str) -> None:
    data = said.encode()
    assert tamed(data) == shown
    assert tamed(*(data[at : at + 1] for at in range(len(data)))) == shown


@given(st.lists(PIECES, max_size=30), st.lists(st.integers(0, 200), max_size=5))
def test_no_cut_lets_anything_through(words: Sequence[str], cuts: Sequence[int]) -> None:
    data = "".join(words).encode()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[low:high] for low, high in pairwise(edges)]
    shown = tamed(*pieces)
    assert ALLOWED.sub("", shown) == ""
    assert shown == tamed(data)
    assert shown.count("\n") == data.count(b"\n")


def test_without_colour_only_colours_go_too_and_bytes_that_are_no_text_are_marked() -> None:
    assert tamed(b"\x1b[31mred\x1b[0m\r\x1b[K\n", colour=False) == "red\r\x1b[K\n"
    assert tamed(b"a\xffb\xc3", b"\xbc") == "a\ufffdbü"
    assert Tame(encoding="latin-1").feed("ü数\x1b[2J".encode()) == b"\xfc\\u6570"


def test_what_never_ends_does_not_take_the_log_with_it() -> None:
    said = tamed(b"\x1b]0;", b"y" * 5000, b"y" * 4000)
    assert set(said) == {"y"}
    assert len(said) >= 4000


def test_a_terminal_is_shown_the_colours_and_spared_the_rest(fake: FakeServer) -> None:
    fake.add("j1", state="succeeded")
    fake.write("j1", b"\x1b]0;evil\x07\x1b[32mgood\x1b[0m\x1b[2J\n")
    assert on_terminal(["logs", "j1"]) == "\x1b[32mgood\x1b[0m\r\n"
    assert on_terminal(["logs", "-f", "j1", "--no-color"]).startswith("good\r\nheadway: ")
    assert on_terminal(["logs", "j1", "--raw"]) == "\x1b]0;evil\x07\x1b[32mgood\x1b[0m\x1b[2J\r\n"
