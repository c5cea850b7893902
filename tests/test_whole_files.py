"""Small files that are replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headway import whole_files
from headway.whole_files import write_durably, write_first, write_whole


@pytest.mark.parametrize("write", [write_whole, write_durably, write_first])
def test_a_file_that_was_not_there_is_private_and_nothing_lies_beside_it(tmp_path: Path, write: object) -> None:
    write(tmp_path / "x", "text")  # type: ignore[operator]
    assert (tmp_path / "x").read_text() == "text"
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("write", [write_whole, write_durably])
def test_a_write_that_fails_leaves_the_file_of_before_and_no_draft(
    tmp_path: Path, write: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "x", b"before")  # type: ignore[operator]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole_files.os, "fsync" if write is write_durably else "replace", full)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / "x", b"after")  # type: ignore[operator]
    assert (tmp_path / "x").read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["x"]


def test_the_first_of_two_who_make_a_file_is_kept(tmp_path: Path) -> None:
    assert write_first(tmp_path / "x", "one")
    assert not write_first(tmp_path / "x", "two")
    assert (tmp_path / "x").read_text() == "one"
