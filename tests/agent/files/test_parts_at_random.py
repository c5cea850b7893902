"""Directories at random, changed at random, sent in several rounds: each round comes back bit for bit.

All sizes that parts.py works with are smaller here, so that a few seconds see thousands of borders: of blocks, of
buffers, of objects, between small parts and large ones. A failing seed is in the name of its test.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from headway_agent.files import parts
from headway_agent.files.parts import Changed, Known, send_files
from headway_agent.files.restore import look, restore
from headway_agent.objects import direct_io
from headway_agent.objects import folder as object_folder
from headway_agent.objects.direct_io import BLOCK_BYTES
from headway_agent.objects.folder import Folder, StoreFailed

KIB = 1 << 10
SMALL, LARGE, LARGE_FILE, OBJECT = 64 * KIB, 256 * KIB, 700 * KIB, 300 * KIB
SEEDS = range(16)
ROUNDS = 6
FILES_MAX = 14


@pytest.fixture(autouse=True)
def _all_is_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "SMALL_PART_BYTES", SMALL)
    monkeypatch.setattr(parts, "PART_BYTES_MAX", LARGE)
    monkeypatch.setattr(parts, "LARGE_FILE_BYTES", LARGE_FILE)
    monkeypatch.setattr(parts, "ALONE_BYTES_MAX", 100 * KIB)
    monkeypatch.setattr(direct_io, "BYTES_MIN", 2 * BLOCK_BYTES)
    monkeypatch.setattr(parts, "_spare", [])


class SlowDraft(object_folder.FolderDraft):
    def write(self, piece: object_folder.Piece) -> None:
        for _ in range(20):
            hashlib.sha256(piece)  # Whoever reads is ahead: all buffers are in use.
        super().write(piece)


class Shaky(Folder):
    """A folder with small objects, whose disk is slow and now and then has no room for one of them."""

    object_bytes_max = OBJECT

    def __init__(self, path: str, chance: random.Random) -> None:
        super().__init__(path)
        self.chance, self.fails = chance, 0.0

    def draft(self) -> object_folder.FolderDraft:
        if self.chance.random() < self.fails:
            raise StoreFailed("no room for another object")
        return SlowDraft(self, os.path.join(self.path, object_folder.DRAFTS, str(self.chance.getrandbits(60))))

    def place(self, key: str) -> str:
        if self.chance.random() < self.fails:
            raise OSError(28, "No space left on device")
        return super().place(key)


class Life:
    """One task's directory, as it is changed and sent."""

    def __init__(self, home: Path, objects: Folder, name: str, chance: random.Random) -> None:
        self.source, self.objects, self.name, self.chance = home / f"source-{name}", objects, name, chance
        self.back = home / f"back-{name}"
        self.source.mkdir()
        self.known, self.serial = Known(), 0
        self.sent: list[tuple[str, dict[str, bytes]]] = []  # Manifest keys, with what the files held.

    def live(self) -> None:
        for _ in range(ROUNDS):
            for _ in range(self.chance.randint(1, 8)):
                self._change()
            self._send()
        for key, held in self.sent:
            self._compare(key, held)

    def _change(self) -> None:
        chance = self.chance
        files = [path for path in sorted(self.source.rglob("*")) if path.is_file() and not path.is_symlink()]
        what = chance.choice(["new", "new", "many", "bytes", "grow", "cut", "copy", "link", "hole", "move", "remove"])
        new = self.source / chance.choice(["", "a", "a/b"]) / f"f{chance.randrange(FILES_MAX)}"
        new.parent.mkdir(parents=True, exist_ok=True)
        old = chance.choice(files) if files else None
        if what == "new" or old is None:
            new.unlink(missing_ok=True)
            new.write_bytes(chance.randbytes(self._size()))
        elif what == "many":
            for number in range(chance.randrange(40)):
                (self.source / f"s{number}").write_bytes(chance.randbytes(chance.randrange(20 * KIB)))
        elif what == "bytes" and old.stat().st_size:
            with old.open("r+b") as file:
                file.seek(chance.randrange(old.stat().st_size))
                file.write(chance.randbytes(1))
        elif what in ("grow", "cut"):
            os.truncate(old, self._size() if what == "grow" else chance.randint(0, old.stat().st_size))
        elif what == "hole":
            with old.open("r+b") as file:
                file.seek(self._size())
                file.write(b"behind a hole")
        elif what == "remove":
            old.unlink()
        elif new != old and not new.exists():
            {"copy": shutil.copyfile, "link": os.link, "move": os.rename}.get(what, shutil.copyfile)(old, new)

    def _size(self) -> int:
        chance = self.chance
        near = chance.choice([0, 1, BLOCK_BYTES, 2 * BLOCK_BYTES, 3 * BLOCK_BYTES, SMALL, 2 * SMALL, LARGE, OBJECT])
        if chance.random() < 0.1:
            near = chance.choice([LARGE_FILE, 2 * OBJECT, LARGE_FILE + LARGE])
        return max(0, near + chance.choice([0, 0, -1, 1, -chance.randrange(5000), chance.randrange(5000)]))

    def _send(self) -> None:
        """Send the directory as it is; after a failure again, with what arrived taken as known."""
        for tries in range(9):
            self.serial += 1
            files = look(str(self.source))
            prefix = f"parts/{self.name}.{self.serial}."
            if isinstance(self.objects, Shaky):
                self.objects.fails = 0.0 if tries == 8 else self.chance.choice([0.0, 0.3])
            seen = dict(files)
            if files and tries < 8 and self.chance.random() < 0.1:
                name = self.chance.choice(sorted(files))
                seen[name] = (files[name][0] + self.chance.choice([0, 5000]), 1, files[name][2])  # It was another then.
            try:
                entries, _ = send_files(self.objects, prefix, str(self.source), seen, self.known)
            except (Changed, StoreFailed):
                continue
            self.known.take({entry["path"]: (files[entry["path"]], entry["parts"]) for entry in entries})
            self._is_where_it_says(entries)
            key = f"{self.name}.{self.serial}.json"
            content = json.dumps({"version": 1, "how": "renamed", "files": entries}).encode()
            (Path(self.objects.path) / key).write_bytes(content)
            self.sent.append((key, {name: (self.source / name).read_bytes() for name in files}))
            return
        raise AssertionError("not reached")

    def _is_where_it_says(self, entries: list[dict[str, Any]]) -> None:
        taken: dict[tuple[str, int], int] = {}
        for part in (part for entry in entries for part in entry["parts"]):
            with open(os.path.join(self.objects.path, part["key"]), "rb") as file:
                file.seek(part["offset"])
                assert hashlib.sha256(file.read(part["size"])).hexdigest() == part["sha256"], part
            assert part["offset"] + part["size"] <= self.objects.object_bytes_max
            assert taken.setdefault((part["key"], part["offset"]), part["size"]) == part["size"]
        ends: dict[str, int] = {}
        for (key, offset), size in sorted(taken.items()):
            assert ends.get(key, 0) <= offset, f"two parts share bytes of {key}"
            ends[key] = offset + size

    def _compare(self, key: str, held: dict[str, bytes]) -> None:
        restore(self.objects, key, str(self.back), lambda: None)
        assert set(look(str(self.back))) == set(held)
        for name, content in held.items():
            assert (self.back / name).read_bytes() == content, f"{key}: {name}"


@pytest.mark.parametrize("seed", SEEDS)
def test_each_round_of_a_changing_directory_comes_back_bit_for_bit(tmp_path: Path, seed: int) -> None:
    (tmp_path / "storage").mkdir()
    chance = random.Random(seed)
    folder = Shaky(str(tmp_path / "storage"), random.Random(seed)) if seed % 2 else Folder(str(tmp_path / "storage"))
    Life(tmp_path, folder, "0", chance).live()
    assert not list((tmp_path / "storage" / object_folder.DRAFTS).iterdir()), "half an object was left behind"
    assert not [thread.name for thread in threading.enumerate() if thread.name.endswith(" parts")]


def test_directories_that_are_sent_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    """They share one folder, and the one buffer that is kept between checkpoints."""
    (tmp_path / "storage").mkdir()
    folder = Folder(str(tmp_path / "storage"))
    problems: list[BaseException] = []

    def live(number: int) -> None:
        try:
            Life(tmp_path, folder, str(number), random.Random(1000 + number)).live()
        except BaseException as problem:
            problems.append(problem)

    lives = [threading.Thread(target=live, args=(number,)) for number in range(4)]
    for life in lives:
        life.start()
    for life in lives:
        life.join()
    if problems:
        raise problems[0]
    assert len(parts._spare) <= len(lives)
