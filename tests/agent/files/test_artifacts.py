"""Outputs in a storage folder: every size comes back, and a file that is being written never spoils its older copy."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headway_agent.files import artifacts
from headway_agent.files.parts import Changed, signature_of
from headway_agent.files.task_files import TaskFiles
from headway_agent.objects.folder import Folder

KEY = "jobs/job1/1/output/model.bin"


class Kept:
    """A task with one output, and the folder that it goes to."""

    def __init__(self, home: Path) -> None:
        self.folder = Folder(str(home / "storage"))
        (home / "storage").mkdir()
        (home / "task").mkdir()
        self.charge = TaskFiles("job1/1/0", str(home / "task"), 1)
        self.file = home / "model.bin"

    def store(self) -> dict[str, object]:
        return artifacts.store(self.folder, self.charge, "model.bin", str(self.file), signature_of(os.stat(self.file)))

    def stored(self, key: str = KEY) -> bytes:
        return self.folder.read_all(key)

    def meanwhile(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
        """Do this once a draft was begun: after the first look at the file, before its end is read."""
        draft = self.folder.draft

        def begun() -> object:
            found = draft()
            act()
            return found

        monkeypatch.setattr(self.folder, "draft", begun)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 65537, (4 << 20) - 1, 4 << 20, (4 << 20) + 4097])
def test_a_file_of_any_size_comes_back(kept: Kept, size: int) -> None:
    kept.file.write_bytes(os.urandom(size))
    told = kept.store()
    assert (told.size, told.keys) == (size, (KEY,))
    assert kept.stored() == kept.file.read_bytes()
    assert told.sha256 == hashlib.sha256(kept.file.read_bytes()).hexdigest()


def test_a_large_file_is_numbered_parts_that_joined_are_the_file(kept: Kept) -> None:
    kept.folder.artifact_bytes_max = 100_000
    kept.file.write_bytes(os.urandom(250_001))
    told = kept.store()
    assert told.keys == tuple(f"{KEY}.part-000{number}" for number in (1, 2, 3))
    assert b"".join(kept.stored(f"{KEY}.part-000{number}") for number in (1, 2, 3)) == kept.file.read_bytes()


@pytest.mark.parametrize("change", ["shorter", "longer", "another"])
def test_a_file_that_changes_while_it_is_read_leaves_what_was_stored_before(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    kept.file.write_bytes(b"1" * 5_000_000)
    kept.store()
    kept.file.write_bytes(b"2" * 5_000_000)
    acts = {
        "shorter": lambda: os.truncate(kept.file, 1_000_000),
        "longer": lambda: kept.file.write_bytes(b"3" * 6_000_000),
        "another": lambda: (kept.file.write_bytes(b"3" * 5_000_000), os.utime(kept.file, ns=(1, 1))),
    }
    kept.meanwhile(monkeypatch, acts[change])
    with pytest.raises(Changed, match=r"model\.bin was changed"):
        kept.store()
    assert kept.stored() == b"1" * 5_000_000
    assert os.listdir(f"{kept.folder.path}/.drafts") == []


def test_a_path_is_what_the_rank_called_it(tmp_path: Path) -> None:
    charge = running_in(tmp_path, outputs=["output", "results/*.csv", "./logs/"])
    for path in ("work/output/a.txt", "work/results/r.csv", "work/logs/x", "task/output/b.txt"):
        put(tmp_path / path)
    assert set(artifacts.found(charge, [])) == {"output/a.txt", "results/r.csv", "logs/x", "b.txt"}


def test_two_files_of_one_name_are_both_kept(tmp_path: Path) -> None:
    charge = running_in(tmp_path, outputs=["model.pt", "output", "*.pt"])
    for path in ("task/output/model.pt", "task/output/output/a", "work/model.pt", "work/output/a"):
        put(tmp_path / path)
    kept = artifacts.found(charge, [])
    found = {path: Path(file).relative_to(tmp_path).as_posix() for path, (file, _) in kept.items()}
    assert found == {
        "model.pt": "task/output/model.pt",
        "output/a": "task/output/output/a",
        "workdir/model.pt": "work/model.pt",
        "workdir/output/a": "work/output/a",
    }


def running_in(home: Path, outputs: list[str]) -> TaskFiles:
    (home / "task").mkdir()
    charge = TaskFiles("job1/1/0", str(home / "task"), 1)
    charge.cwd, charge.outputs = str(home / "work"), outputs
    return charge


def put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("content")
