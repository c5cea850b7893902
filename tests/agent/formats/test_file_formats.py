"""Files of each format, whole and cut: what a look at their structure says of them.

The files are made by hand here, with the standard library; those of the real libraries are in test_real_formats.py.
"""

from __future__ import annotations

import collections
import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway_agent.formats.file_formats import CUT, UNKNOWN, WHOLE, Verdict, check

DATA = {
    "epoch": 3,
    "model": collections.OrderedDict((f"layer.{n}", [float(n)] * 20) for n in range(30)),
    "raw": b"\x80\x04." * 30_000,
    "odd": [None, True, 10**30, "ü", (1,), {1, 2}, frozenset("ab"), -1, 1.5, "x" * 300],
}


def zipped(*names: str, comment: bytes = b"", compression: int = zipfile.ZIP_STORED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", compression) as archive:
        for name in names:
            archive.writestr(name, name.encode() * 50)
        archive.comment = comment
    return held.getvalue()


def npy(descr: Any = "<f4", shape: tuple[int, ...] = (3, 5), data: bytes | None = None) -> bytes:
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    items = 1
    for side in shape:
        items *= side
    width = {"<f4": 4, "<U3": 12, "|b1": 1}.get(descr if isinstance(descr, str) else "", 24)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + (data or bytes(items * width))


def safetensors(metadata: dict[str, str] | None = None) -> bytes:
    entries: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    entries["b"] = {"dtype": "F32", "shape": [8], "data_offsets": [64, 96]}
    entries["a"] = {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]}
    header = json.dumps(entries).encode()
    return struct.pack("<Q", len(header)) + header + bytes(96)


def hdf5(version: int = 0, flags: int = 0, size: int = 300) -> bytes:
    if version == 0:
        start = b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0\x04\0\x10\0\0\0\0\0"
    else:
        start = b"\x89HDF\r\n\x1a\n" + bytes([version, 8, 8, flags])
    start += struct.pack("<QQQQ", 0, 2**64 - 1, size, 2**64 - 1)
    return start + bytes(size - len(start))


def old_torch() -> bytes:
    """As torch wrote before it wrote zips: two storages of 5 floats and 3 bytes."""

    def storage(name: bytes, kind: bytes, items: int) -> bytes:
        return b"(X\x07\0\0\0storagectorch\n%s\nX\x01\0\0\0%sX\x03\0\0\0cpuK%cNtQ" % (kind, name, items)

    held = b"\x80\x02}(X\x01\0\0\0w" + storage(b"1", b"FloatStorage", 5)
    held += b"X\x01\0\0\0b" + storage(b"2", b"ByteStorage", 3) + b"u."
    start = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + pickle.dumps({"little_endian": True}, 2)
    return start + held + pickle.dumps(["1", "2"], 2) + struct.pack("<q20xq3x", 5, 3)


def gguf() -> bytes:
    def string(text: bytes) -> bytes:
        return struct.pack("<Q", len(text)) + text

    values = string(b"general.alignment") + struct.pack("<II", 4, 64)
    values += string(b"tokens") + struct.pack("<IIQ", 9, 8, 2) + string(b"a") + string(b"b")
    values += string(b"scores") + struct.pack("<IIQ2f", 9, 6, 2, 0.5, 1.5)
    tensors = string(b"w") + struct.pack("<IQQIQ", 2, 4, 8, 0, 0) + string(b"q") + struct.pack("<IQIQ", 1, 64, 2, 128)
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 3) + values + tensors
    return head + bytes(-len(head) % 64 + 128 + 36)


def msgpack() -> bytes:
    array = b"\xc7\x06\x01" + b"\x93\x91\x02\xa1f\xc4"  # Of flax, as an extension.
    words = b"\xd9\x28" + b"w" * 40 + b"\xda\x01\x00" + b"x" * 256 + b"\xc0\xc3\xcb" + bytes(8) + b"\xcd\x12\x34\xff"
    return b"\x83\xa4step\x07\xa6params\xde\x00\x01\xa1w" + array + b"\xa1o\xdc\x00\x07" + words


def tarred() -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for name in ("a", "b" * 120):
            entry = tarfile.TarInfo(name)
            entry.size = 700
            archive.addfile(entry, io.BytesIO(bytes(700)))
    return held.getvalue()


WHOLE_FILES = {
    "model.pt": ("torch", zipped("model/data.pkl", "model/data/0", "model/version")),
    "a.npz": ("npz", zipped("a.npy", "b.npy")),
    "deflated.npz": ("npz", zipped("a.npy", "b.npy", compression=zipfile.ZIP_DEFLATED)),
    "m.keras": ("keras", zipped("metadata.json", "config.json", "model.weights.h5")),
    "any.zip": ("zip", zipped("one", "two", comment=b"made by hand")),
    "empty.zip": ("zip", zipped()),
    "many.pt": ("torch", zipped("m/data.pkl", *(f"m/data/{n}" for n in range(300)))),
    "a.npy": ("npy", npy()),
    "text.npy": ("npy", npy("<U3", (4,))),
    "scalar.npy": ("npy", npy("|b1", ())),
    "fields.npy": ("npy", npy([("a", "<f8"), ("b", "<i4", (2, 2))], (2,))),
    "objects.npy": ("npy", npy("|O", (2,), pickle.dumps([1, "b"], 3))),
    "two.npy": ("npy", npy() + npy()),
    "m.safetensors": ("safetensors", safetensors()),
    "named.safetensors": ("safetensors", safetensors({"step": "3"})),
    "w.h5": ("hdf5", hdf5()),
    "w.weights.h5": ("hdf5", hdf5(2)),
    "w3.h5": ("hdf5", hdf5(3)),
    "old.pt": ("torch, old format", old_torch()),
    "m.gguf": ("gguf", gguf()),
    "flax.msgpack": ("msgpack", msgpack()),
    "model.nemo": ("tar", tarred()),
    "t.parquet": ("parquet", b"PAR1" + bytes(100) + b"PAR1"),
    "t.arrow": ("arrow", b"ARROW1\0\0" + bytes(100) + b"ARROW1"),
    **{f"p{n}.pkl": ("pickle", pickle.dumps(DATA, n)) for n in range(6)},
    "several.pkl": ("pickle", pickle.dumps(DATA, 2) + pickle.dumps([1], 4) + pickle.dumps(DATA, 5)),
    "log.pickle": ("pickle", b"".join(pickle.dumps(n) for n in range(300))),
    "s.json": ("json", json.dumps({"step": 4, "log": [1, 2]}).encode()),
    "m.jsonl": ("lines", b'{"a": 1}\n{"a": 2}\n'),
    "m.csv": ("lines", b"a,b\n1,2\n"),
    "t.txt": ("lines", b"done\n"),
}
LENGTHS = {"model.nemo": 2560}  # What comes behind the end of a tar is only there to fill a block.
# Those in which nothing says how long they are to be, or where a shorter one is whole as well.
OPEN_ENDED = {"t.arrow", "several.pkl", "log.pickle", "two.npy", "m.jsonl", "m.csv", "t.txt"}
CLOSED = sorted(set(WHOLE_FILES) - OPEN_ENDED)


def verdict_of(folder: Path, name: str, data: bytes) -> Verdict:
    path = folder / name
    path.write_bytes(data)
    return check(str(path))


@pytest.mark.parametrize("name", WHOLE_FILES)
def test_a_whole_file_is_whole(tmp_path: Path, name: str) -> None:
    kind, data = WHOLE_FILES[name]
    assert verdict_of(tmp_path, name, data) == (WHOLE, kind, "")


@pytest.mark.parametrize("name", CLOSED)
def test_a_file_cut_anywhere_is_not_whole(tmp_path: Path, name: str) -> None:
    data = WHOLE_FILES[name][1][: LENGTHS.get(name)]
    some = {*range(1, min(len(data), 32)), *range(32, len(data), len(data) // 60 + 1), len(data) - 2, len(data) - 1}
    for length in sorted(some):
        found = verdict_of(tmp_path, name, data[:length])
        assert found.verdict == CUT, (length, found)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(CLOSED), st.data())
def test_a_file_cut_at_random_is_not_whole(tmp_path: Path, name: str, chance: st.DataObject) -> None:
    data = WHOLE_FILES[name][1][: LENGTHS.get(name)]
    length = chance.draw(st.integers(1, len(data) - 1))
    assert verdict_of(tmp_path, name, data[:length]).verdict == CUT


@pytest.mark.parametrize("name", ["several.pkl", "log.pickle", "two.npy", "t.arrow"])
def test_of_several_things_in_one_file_the_last_must_be_whole(tmp_path: Path, name: str) -> None:
    assert verdict_of(tmp_path, name, WHOLE_FILES[name][1][:-1]).verdict == CUT


def test_an_hdf5_file_that_nobody_closed_is_cut(tmp_path: Path) -> None:
    assert verdict_of(tmp_path, "w.h5", hdf5(3, flags=1)).verdict == CUT
    assert verdict_of(tmp_path, "w.h5", hdf5() + bytes(100)).verdict == CUT


def test_a_safetensors_file_longer_than_its_header_says_is_not_whole(tmp_path: Path) -> None:
    assert verdict_of(tmp_path, "m.safetensors", safetensors() + b"x").verdict == CUT


def test_a_zip_with_a_damaged_directory_is_not_whole(tmp_path: Path) -> None:
    data = WHOLE_FILES["model.pt"][1]
    at = data.index(b"PK\x01\x02")
    assert verdict_of(tmp_path, "model.pt", data[:at] + b"PK\x01\x00" + data[at + 4 :]).verdict == CUT
    assert verdict_of(tmp_path, "model.pt", b"PK\x03\x04" + data[at:]).verdict == CUT


def test_content_counts_more_than_the_ending(tmp_path: Path) -> None:
    assert verdict_of(tmp_path, "model", WHOLE_FILES["model.pt"][1])[:2] == (WHOLE, "torch")
    assert verdict_of(tmp_path, "model.json", WHOLE_FILES["model.pt"][1][:-1])[:2] == (CUT, "zip")
    assert verdict_of(tmp_path, "model.bin", safetensors())[:2] == (WHOLE, "safetensors")
    assert verdict_of(tmp_path, "model.bin", WHOLE_FILES["p4.pkl"][1])[:2] == (WHOLE, "pickle")


@pytest.mark.parametrize("name", ["model.pt", "a.npz", "a.safetensors", "s.json", "x.pkl", "w.h5", "a.ckpt"])
def test_an_empty_file_is_cut_where_its_ending_promises_more(tmp_path: Path, name: str) -> None:
    assert verdict_of(tmp_path, name, b"")[:2] == (CUT, "empty")


@pytest.mark.parametrize("name", ["DONE", "a.txt", "log.log", "x"])
def test_an_empty_file_says_nothing_otherwise(tmp_path: Path, name: str) -> None:
    assert verdict_of(tmp_path, name, b"")[:2] == (UNKNOWN, "empty")


@pytest.mark.parametrize("name", ["model.pt", "a.pth", "a.pkl", "w.h5", "a.npy"])
def test_a_file_of_zeros_is_cut(tmp_path: Path, name: str) -> None:
    assert verdict_of(tmp_path, name, bytes(5000)).verdict == CUT


def test_what_has_no_structure_is_unknown(tmp_path: Path) -> None:
    for name in ("a.bin", "notes", "a.yaml", "model.pt"):
        assert verdict_of(tmp_path, name, b"just some words").verdict == UNKNOWN


def test_what_says_nothing_of_its_length_is_unknown(tmp_path: Path) -> None:
    for name, data in (("__0_0.distcp", zipped("a/data.pkl", "a/version")), ("a.gz", b"\x1f\x8b\x08 and so on")):
        assert verdict_of(tmp_path, name, data + data).verdict == UNKNOWN
        assert verdict_of(tmp_path, name, data[:-1]).verdict == UNKNOWN
    assert verdict_of(tmp_path, "two.pt", WHOLE_FILES["model.pt"][1] * 2).verdict == UNKNOWN


def test_a_text_needs_no_newline_at_its_end(tmp_path: Path) -> None:
    for name in ("commit_success.txt", "a.csv", "a.log"):
        assert verdict_of(tmp_path, name, b"done").verdict == UNKNOWN


def test_a_line_of_json_must_be_whole(tmp_path: Path) -> None:
    for name in ("m.jsonl", "metrics.json"):
        assert verdict_of(tmp_path, name, b'{"a": 1}\n{"a": 2}\n')[:2] == (WHOLE, "lines")
        assert verdict_of(tmp_path, name, b'{"a": 1}\n{"a": 2}')[:2] == (WHOLE, "lines")
        assert verdict_of(tmp_path, name, b'{"a": 1}\n{"a": 2').verdict == CUT


def test_what_is_almost_json_is_not_called_cut(tmp_path: Path) -> None:
    for text in ("// a comment\n{}", "{'a': 1, 'b': [1, 2, 3]}", "{a: 1, b: 2, c: 3, d: 4}"):
        assert verdict_of(tmp_path, "a.json", text.encode()).verdict == UNKNOWN
    assert verdict_of(tmp_path, "a.json", b'{"a": "\xff and so on"}').verdict == UNKNOWN


def test_a_long_json_is_known_by_its_last_line(tmp_path: Path) -> None:
    held = {str(number): "x" * 100 for number in range(50_000)}
    assert verdict_of(tmp_path, "a.json", json.dumps(held, indent=2).encode()).verdict == WHOLE
    assert verdict_of(tmp_path, "a.json", json.dumps(held, indent=2).encode()[:-1]).verdict == CUT
    assert verdict_of(tmp_path, "a.json", json.dumps([held, held]).encode()).verdict == UNKNOWN


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pt")
    for path in ("no.pt", "pipe.pt", ".", "no\0name"):
        assert check(f"{tmp_path}/{path}").verdict == UNKNOWN


def test_a_large_file_is_judged_by_a_few_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/version", b"3")
        archive.writestr("m/data.pkl", b"")
    tail = path.read_bytes()
    read = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, count, at: read.append(count) or pread(fd, count, at))
    assert check(str(path)).verdict == WHOLE
    with open(path, "wb") as file:  # Sparse: no bytes are written in between.
        file.write(tail[:40])
        file.seek(2 << 30)
        file.write(tail)
    assert check(str(path)).verdict != WHOLE
    assert sum(read) < 1 << 20


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(sorted(WHOLE_FILES)), st.randoms(use_true_random=False))
def test_no_damage_makes_it_raise_or_loop(tmp_path: Path, name: str, chance: Any) -> None:
    data = bytearray(WHOLE_FILES[name][1])
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(min(len(data), 4096) if chance.random() < 0.5 else len(data))
        data[at : at + chance.randint(0, 4)] = chance.randbytes(chance.randint(0, 4))
        data = data or bytearray(b"x")
    assert verdict_of(tmp_path, name, bytes(data)).verdict in (WHOLE, CUT, UNKNOWN)
