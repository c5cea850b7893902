"""What comes on standard input reaches the job where it was meant for it; where not, that is said."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway.cli.job_flags import standard_input
from headway.core.errors import BadInput
from headway.core.spec.program_words import STDIN_BYTES_MAX
from tests.living import Living

Take = Callable[..., tuple[str, str]]


class Stdin:
    def __init__(self, fd: int) -> None:
        self.fd = fd

    def fileno(self) -> int:
        return self.fd


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Take]:
    """Stand before a file or a pipe as standard input, and say what a job is given of it."""
    fds: list[int] = []

    def taken(
        content: bytes, *, pipe: bool = False, at: int = 0, asked: bool = False, of_the_file: bool = False
    ) -> tuple[str, str]:
        if pipe:
            fd, writer = os.pipe()
            os.write(writer, content)
            os.close(writer)
        else:
            (tmp_path / "input").write_bytes(content)
            fd = os.open(tmp_path / "input", os.O_RDONLY)
            os.lseek(fd, at, os.SEEK_SET)
        fds.append(fd)
        monkeypatch.setattr("sys.stdin", Stdin(fd))
        return standard_input.given(asked, of_the_file)

    yield taken
    for fd in fds:
        os.close(fd)


def test_a_file_from_its_beginning_is_given_and_one_that_somebody_reads_is_not(take: Take) -> None:
    assert take(b"one\ntwo\n") == ("one\ntwo\n", "")
    assert take(b"one\ntwo\n", at=4) == ("", "")
    assert take(b"") == ("", "")
    assert take(b"one\ntwo\n", at=4, asked=True) == ("two\n", "")
    assert take(b"name: x\n", of_the_file=True) == ("", "")


def test_a_pipe_is_given_when_asked_for_and_spoken_of_otherwise(take: Take) -> None:
    assert take(b"words", pipe=True, asked=True) == ("words", "")
    text, note = take(b"words", pipe=True)
    assert text == ""
    assert "-i gives it" in note
    assert take(b"", pipe=True) == ("", "")


@pytest.mark.parametrize(
    ("content", "says"), [(b"\xff\xfe", "not text"), (b"a\0b", "not text"), (b"x" * (STDIN_BYTES_MAX + 1), "64 KiB")]
)
def test_what_a_job_cannot_be_given_is_refused_with_another_way(take: Take, content: bytes, says: str) -> None:
    with pytest.raises(BadInput, match=says) as refused:
        take(content)
    assert "--input data=FILE" in refused.value.hint


@pytest.mark.real
def test_a_job_reads_what_was_redirected_or_piped_to_its_command(headway_home: Path, tmp_path: Path) -> None:
    living = Living(headway_home, tmp_path)
    try:
        (tmp_path / "data.txt").write_text("one\ntwo\n")
        with (tmp_path / "data.txt").open() as file:
            assert living.ok("run", "--", "cat", stdin=file).endswith("one\ntwo\n")
        assert living.ok("run", "-i", "--", "wc", "-c", input="four").strip().endswith("4")
        assert living.ok("run", "--", "wc", "-c", stdin=subprocess.DEVNULL).strip().endswith("0")
    finally:
        living.end()
