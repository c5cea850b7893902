"""The folder keeps the law of all storages, and what it promises beyond: synced, atomic, with plain sentences."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from headway.core.errors import Unavailable
from headway.storage import folder
from headway.storage.conformance import StorageConformance
from headway.storage.folder import FolderStorage
from headway.storage.protocol import Storage


class TestFolderStorage(StorageConformance):
    def open_storage(self, place: Path) -> Storage:
        return FolderStorage(place / "objects")


def test_an_object_is_a_plain_file_that_a_process_of_this_host_may_write_itself(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    storage.put("logs/n1/1", b"x")
    assert (tmp_path / "logs/n1/1").read_bytes() == b"x"
    Path(storage.local_dir(), "logs/n1/2").write_bytes(b"yz")
    assert storage.get("logs/n1/2") == b"yz"


def test_a_put_syncs_the_file_before_the_rename_and_the_directories_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = FolderStorage(tmp_path)
    steps: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(handle: int) -> None:
        steps.append("sync " + os.path.relpath(os.readlink(f"/proc/self/fd/{handle}"), tmp_path).split("/")[0])
        real_fsync(handle)

    def replace(source: Any, target: Any) -> None:
        steps.append("rename")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    storage.put("logs/one", b"x")
    assert steps == ["sync .", "sync .drafts", "rename", "sync logs"]


@pytest.mark.parametrize(
    ("number", "sentence"), [(errno.ENOSPC, "the disk is full"), (errno.EIO, "input/output error")]
)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_put_says_why_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, sentence: str, call: str
) -> None:
    storage = FolderStorage(tmp_path)
    storage.put("logs/one", b"old")

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(Unavailable, match=sentence):
        storage.put("logs/one", b"new")
    assert storage.get("logs/one") == b"old"
    assert not list((tmp_path / folder.DRAFTS).iterdir())


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unavailable, match="cannot be opened: file exists"):
        FolderStorage(tmp_path / "file")


def test_half_written_objects_are_not_listed(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    (tmp_path / folder.DRAFTS / "half").write_bytes(b"ha")
    assert not list(storage.list(""))


def test_others_cannot_read_the_objects(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "objects")
    storage.put("logs/one", b"x")
    assert (tmp_path / "objects").stat().st_mode & 0o077 == 0
    assert (tmp_path / "objects/logs/one").stat().st_mode & 0o077 == 0


def test_old_drafts_of_writers_that_ended_are_removed_and_young_ones_are_not(tmp_path: Path) -> None:
    FolderStorage(tmp_path)
    old, young = tmp_path / folder.DRAFTS / "old", tmp_path / folder.DRAFTS / "young"
    old.write_bytes(b"x")
    young.write_bytes(b"x")
    os.utime(old, (1000, 1000))
    FolderStorage(tmp_path)
    assert young.exists()
    assert not old.exists()


def test_a_folder_that_another_stands_in_the_place_of_takes_nothing_and_denies_nothing(tmp_path: Path) -> None:
    place, away = tmp_path / "mounted", tmp_path / "away"
    storage = FolderStorage(place)
    storage.identity("one")
    storage.put("logs/one", b"x")
    place.rename(away)  # As when the disk that was mounted there is gone, and only its mount point is left.
    (place / folder.DRAFTS).mkdir(parents=True)
    for act in (lambda: storage.put("logs/two", b"y"), lambda: storage.get("logs/one"), lambda: storage.size("a")):
        with pytest.raises(Unavailable, match="is it mounted"):
            act()
    assert [path.name for path in place.iterdir()] == [folder.DRAFTS]
    (place / folder.DRAFTS).rmdir()
    place.rmdir()
    away.rename(place)
    assert storage.get("logs/one") == b"x"
    storage.put("logs/two", b"y")
