"""Cutting, storing and restoring: only what is new travels, and nothing but what was stored comes back."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from headway_agent.files import parts
from headway_agent.files import restore as file_restore
from headway_agent.files.parts import Changed, Known, send_files, signature_of
from headway_agent.files.restore import Bad, look, restore
from headway_agent.objects import direct_io, folder
from headway_agent.objects.folder import Folder
from headway_wire.manifest_seal import is_whole, sealed

MIB = 1 << 20


class Kept:
    """A directory, a storage folder beside it, and what is known to lie there."""

    def __init__(self, home: Path) -> None:
        self.source, self.storage = home / "source", home / "storage"
        self.source.mkdir()
        self.storage.mkdir()
        self.objects, self.known, self.number = Folder(str(self.storage)), Known(), 0

    def send(self) -> tuple[list[dict[str, Any]], int]:
        self.number += 1
        files = look(str(self.source))
        entries, sent = send_files(self.objects, f"parts/{self.number}.", str(self.source), files, self.known)
        self.known.take({entry["path"]: (files[entry["path"]], entry["parts"]) for entry in entries})
        return entries, sent

    def manifest(self, entries: list[dict[str, Any]]) -> str:
        manifest = {"version": 1, "how": "renamed", "files": entries}
        folder.put(self.objects, "m.json", json.dumps(manifest).encode())
        return "m.json"


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_what_was_stored_comes_back_bit_by_bit(kept: Kept, tmp_path: Path) -> None:
    sizes = {"a/large": 9 * MIB + 17, "empty": 0, "small": 3, "b": MIB, "c": 70 * MIB}
    for name, size in sizes.items():
        (kept.source / name).parent.mkdir(exist_ok=True)
        (kept.source / name).write_bytes(os.urandom(size))
    (kept.source / "small").chmod(0o640)
    (kept.source / "latest").symlink_to("a/large")
    entries, sent = kept.send()
    assert sent == sum(sizes.values())
    restore(kept.objects, kept.manifest(entries), str(tmp_path / "back"), lambda: None)
    for name in sizes:
        assert (tmp_path / "back" / name).read_bytes() == (kept.source / name).read_bytes()
        assert (tmp_path / "back" / name).stat().st_mtime_ns == (kept.source / name).stat().st_mtime_ns
    assert (tmp_path / "back/small").stat().st_mode & 0o777 == 0o640
    assert os.readlink(tmp_path / "back/latest") == "a/large"
    assert look(str(tmp_path / "back")).keys() == look(str(kept.source)).keys()


def test_only_changed_parts_travel(kept: Kept) -> None:
    large = kept.source / "model"
    large.write_bytes(os.urandom(20 * MIB))
    for number in range(50):
        (kept.source / f"shard-{number}").write_bytes(os.urandom(1000))
    kept.send()
    with large.open("r+b") as file:
        file.seek(5 * MIB)
        file.write(b"changed")
    (kept.source / "shard-7").write_bytes(os.urandom(900))
    assert kept.send()[1] == MIB + 900
    assert kept.send()[1] == 0
    large.rename(kept.source / "model-2")
    assert kept.send()[1] == 0


def test_ten_thousand_small_files_are_a_few_objects(kept: Kept) -> None:
    for number in range(2000):
        (kept.source / f"{number}").write_bytes(number.to_bytes(4, "big") * 50)
    kept.send()
    assert len(list((kept.storage / "parts").iterdir())) == 1
    assert list((kept.storage / ".drafts").iterdir()) == []


def test_a_file_that_is_not_what_was_seen_stops_the_snapshot(kept: Kept) -> None:
    path = kept.source / "model"
    path.write_bytes(b"one")
    seen = {"model": signature_of(path.lstat())}
    path.write_bytes(b"other")
    with pytest.raises(Changed):
        send_files(kept.objects, "parts/1.", str(kept.source), seen, kept.known)
    path.unlink()
    with pytest.raises(Changed):
        send_files(kept.objects, "parts/2.", str(kept.source), seen, kept.known)


@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_part_is_found_and_nothing_is_restored(kept: Kept, tmp_path: Path, damage: str) -> None:
    (kept.source / "model").write_bytes(os.urandom(3 * MIB))
    (kept.source / "other").write_bytes(b"fine")
    key = kept.manifest(kept.send()[0])
    part = next((kept.storage / "parts").iterdir())
    content = bytearray(part.read_bytes())
    content[2 * MIB] ^= 1
    if damage == "remove":
        part.unlink()
    else:
        part.write_bytes(content if damage == "flip" else content[:-1])
    with pytest.raises(Bad):
        restore(kept.objects, key, str(tmp_path / "back"), lambda: None)
    assert not (tmp_path / "back").exists()
    assert not (tmp_path / "back.restoring").exists()


@pytest.mark.parametrize("path", ["../x", "/x", "a//b", ""])
def test_a_manifest_cannot_write_outside_its_directory(kept: Kept, tmp_path: Path, path: str) -> None:
    key = kept.manifest([{"path": path, "size": 0, "mode": 0o600, "parts": []}])
    with pytest.raises(Bad):
        restore(kept.objects, key, str(tmp_path / "back"), lambda: None)


class Damaging(Folder):
    """A folder from which manifests come damaged a few times."""

    times = 0

    def read_all(self, key: str) -> bytes:
        content = super().read_all(key)
        self.times -= 1
        return content.replace(b'"a"', b'"b"') if self.times >= 0 else content


def test_a_manifest_that_comes_damaged_is_read_again_and_never_restored(kept: Kept, tmp_path: Path) -> None:
    (kept.source / "a").write_bytes(b"content")
    manifest = json.dumps({"version": 1, "how": "renamed", "files": kept.send()[0]}).encode()
    folder.put(kept.objects, "m.json", sealed(manifest))
    assert json.loads(sealed(manifest))["files"] == json.loads(manifest)["files"]
    assert is_whole(sealed(manifest))
    assert is_whole(manifest), "one of an older agent"
    assert not is_whole(sealed(manifest).replace(b'"a"', b'"b"'))
    assert not is_whole(sealed(manifest)[:-3] + b'0"}') or sealed(manifest)[-3:-2] == b"0"
    objects = Damaging(str(kept.storage))
    objects.times = 2
    restore(objects, "m.json", str(tmp_path / "back"), lambda: None)
    assert os.listdir(tmp_path / "back") == ["a"]
    objects.times = 3
    with pytest.raises(Bad, match="not what was stored"):
        restore(objects, "m.json", str(tmp_path / "again"), lambda: None)
    assert not (tmp_path / "again").exists()


def test_what_cannot_be_kept_is_left_out_and_said(kept: Kept) -> None:
    os.mkfifo(kept.source / "pipe")
    (kept.source / "out").symlink_to("/etc/passwd")
    (kept.source / "two\nlines").write_bytes(b"")
    (kept.source / "fine").write_bytes(b"")
    troubles: list[str] = []
    assert set(look(str(kept.source), troubles)) == {"fine"}
    assert len(troubles) == 3


def test_a_failed_send_goes_on_where_it_stopped(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    (kept.source / "model").write_bytes(os.urandom(150 * MIB))
    finish = folder.FolderDraft.finish
    calls: list[str] = []

    def fails_the_second_time(self: folder.FolderDraft, key: str) -> None:
        calls.append(key)
        if len(calls) == 2:
            self.drop()
            raise folder.StoreFailed("full")
        finish(self, key)

    monkeypatch.setattr(folder.FolderDraft, "finish", fails_the_second_time)
    with pytest.raises(folder.StoreFailed):
        kept.send()
    assert kept.send()[1] == (150 - 64) * MIB


def test_a_checkpoint_takes_no_room_in_the_page_cache(kept: Kept) -> None:
    """What the training reads again and again stays there instead: files of any size, one after the other."""
    for name, size in {"a": 5 * MIB + 17, "b": 3, "c": 3 * MIB, "d": 700_000}.items():
        (kept.source / name).write_bytes(os.urandom(size))
    if not _goes_past_the_cache(kept.storage / "probe"):
        pytest.skip(f"the file system of {kept.storage} keeps everything in memory")
    kept.send()
    stored = list((kept.storage / "parts").iterdir())
    pages = sum(path.stat().st_size // 4096 + 1 for path in stored)
    assert sum(_cached_pages(path) for path in stored) < pages / 20


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP, errno.EIO])
@pytest.mark.parametrize("where", ["fcntl", "write"])
def test_where_nothing_goes_past_the_page_cache_all_is_stored_the_same(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, number: int
) -> None:
    content = os.urandom(3 * MIB + 5)
    (kept.source / "model").write_bytes(content)
    refused: list[str] = []
    control, write = fcntl.fcntl, os.write

    def controls(fd: int, what: int, flags: int = 0) -> int:
        if flags & os.O_DIRECT and where == "fcntl":
            refused.append(where)
            raise OSError(number, "not past the page cache")
        return control(fd, what, flags)

    def writes(fd: int, piece: bytes) -> int:
        if control(fd, fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(where)
            raise OSError(number, "not past the page cache")
        return write(fd, piece)

    monkeypatch.setattr(fcntl, "fcntl", controls)
    monkeypatch.setattr(os, "write", writes)
    entries, _ = kept.send()
    restore(kept.objects, kept.manifest(entries), str(tmp_path / "back"), lambda: None)
    assert refused
    assert (tmp_path / "back/model").read_bytes() == content


def test_a_disk_that_fails_past_the_page_cache_is_said(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    (kept.source / "model").write_bytes(os.urandom(3 * MIB))

    def full(fd: int, piece: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(folder.StoreFailed, match="no space left"):
        kept.send()
    assert not list((kept.storage / ".drafts").iterdir())


def test_a_file_that_changes_while_it_is_read_stops_the_snapshot(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kept.source / "model"
    path.write_bytes(os.urandom(3 * MIB))
    read = os.readv

    def writes_behind(fd: int, room: list[memoryview]) -> int:
        count = read(fd, room)
        with path.open("r+b") as file:
            file.write(os.urandom(16))
        return count

    monkeypatch.setattr(os, "readv", writes_behind)
    with pytest.raises(Changed):
        kept.send()
    monkeypatch.undo()
    assert sum(part["size"] for part in kept.send()[0][0]["parts"]) == 3 * MIB


def test_names_that_could_not_be_synced_are_synced_by_the_next_try(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts are known to be there: it writes none, and a power cut must not find them without names."""
    (kept.source / "model").write_bytes(os.urandom(MIB))
    synced: list[str] = []
    sync = folder.sync_directory

    def fails_once(directory: str) -> None:
        synced.append(os.path.relpath(directory, kept.storage))
        if synced.count("parts") == 1 and synced[-1] == "parts":
            raise OSError(errno.EIO, "Input/output error")
        sync(directory)

    monkeypatch.setattr(folder, "sync_directory", fails_once)
    with pytest.raises(folder.StoreFailed, match="input/output error"):
        kept.send()
    assert kept.send()[1] == 0
    assert synced.count("parts") == 2


@pytest.mark.parametrize("allowed", [0, 1])
def test_where_no_thread_can_be_started_a_checkpoint_is_kept_all_the_same(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    content = os.urandom(9 * MIB + 17)
    (kept.source / "model").write_bytes(content)
    start, started = threading.Thread.start, []

    def starts(self: threading.Thread) -> None:
        if len(started) == allowed:
            raise RuntimeError("can't start new thread")
        started.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", starts)
    entries, _ = kept.send()
    restore(kept.objects, kept.manifest(entries), str(tmp_path / "back"), lambda: None)
    assert (tmp_path / "back/model").read_bytes() == content
    for thread in started:
        thread.join(60)
        assert not thread.is_alive()


def test_where_there_is_no_memory_for_a_buffer_no_thread_is_left_behind(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kept.source / "model").write_bytes(os.urandom(5 * MIB))
    before = threading.active_count()

    def none_left(size: int) -> mmap.mmap:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(parts, "_spare", [])
    monkeypatch.setattr(direct_io, "buffer", none_left)
    with pytest.raises(OSError, match="Cannot allocate memory"):
        kept.send()
    assert threading.active_count() == before
    monkeypatch.undo()
    assert kept.send()[1] == 5 * MIB


def test_parts_that_adjoin_are_read_together() -> None:
    parts = [
        {"key": "a", "offset": 0, "size": 4},
        {"key": "a", "offset": 4, "size": 4},
        {"key": "b", "offset": 8, "size": 1},
    ]
    assert [len(run) for run in file_restore.runs(parts)] == [2, 1]


def test_a_file_that_vanishes_while_its_directory_is_looked_at_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / f"step-{number}.pt").write_bytes(b"x")
    real, seen = os.lstat, []

    def lstat(path: str) -> os.stat_result:
        if not seen:
            seen.append(path)
            os.unlink(path)
        return real(path)

    monkeypatch.setattr("headway_agent.files.restore.os.lstat", lstat)
    assert len(look(str(tmp_path))) == 19


def test_a_part_that_came_short_once_is_read_again_before_its_checkpoint_counts_as_bad() -> None:
    import hashlib

    from headway_agent.files.restore import Bad, _checked
    from headway_agent.objects.folder import Missing

    class Halves:
        """Storage whose first answers are too short."""

        def __init__(self, short: int) -> None:
            self.short = short

        def read(self, key: str, start: int, end: int) -> bytes:
            self.short -= 1
            if self.short >= 0:
                raise Missing(f"{key} has no {end - start} bytes from {start} on")
            return b"content"

    part = {"key": "k", "offset": 0, "size": 7, "sha256": hashlib.sha256(b"content").hexdigest()}
    assert _checked(Halves(1), "model.bin", [part]) == b"content"  # type: ignore[arg-type]
    with pytest.raises(Bad, match="has no 7 bytes"):
        _checked(Halves(9), "model.bin", [part])  # type: ignore[arg-type]


def test_the_first_pack_of_a_node_outlives_a_power_cut_with_the_directories_that_were_made_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(str(tmp_path))
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    folder.put("logs/n1/1-1", b"x")
    assert [name for name in synced if not name.startswith(".drafts/")] == [".", "logs", "logs/n1"]
    synced.clear()
    folder.put("logs/n1/1-2", b"x")
    assert [name for name in synced if not name.startswith(".drafts/")] == ["logs/n1"]


def _goes_past_the_cache(probe: Path) -> bool:
    fd = os.open(probe, os.O_WRONLY | os.O_CREAT)
    try:
        draft = direct_io.buffer(1 << 16)
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_DIRECT)
        os.write(fd, draft)
    except OSError:
        return False
    finally:
        os.close(fd)
    return not _cached_pages(probe)


def _cached_pages(path: Path) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    size = path.stat().st_size
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE) as pages:
        resident = (ctypes.c_ubyte * (-(-size // 4096)))()
        first = ctypes.c_char.from_buffer(pages)
        try:
            if libc.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), resident):
                raise OSError(ctypes.get_errno(), "mincore")
        finally:
            del first
    return sum(page & 1 for page in resident)
