"""The law of all storages, as tests: a storage is right when a subclass of StorageConformance passes with it.

    class TestMyStorage(StorageConformance):
        def open_storage(self, place): return MyStorage(place)

Needs pytest. Nothing in the server imports this file.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headway.core.errors import BadInput, NotFound
from headway.storage.protocol import Storage

BAD_KEYS = {
    "empty": "",
    "absolute": "/etc/passwd",
    "leaving": "logs/../../secret",
    "only leaving": "..",
    "a dot": "logs/./x",
    "a double slash": "logs//x",
    "a trailing slash": "logs/",
    "a NUL": "logs/a\0b",
    "a newline": "logs/a\nb",
    "too long": "a/" * 256 + "x",
    "a name too long": "n" * 256,
    "a draft": ".drafts/x",
    "a backslash": "logs\\x",
    "not Unicode": "logs/\udcff",
}
ODD_KEYS = ("with space", "größe/ä", "percent%20/%2e%2e", "a=b,c;d&e", "deep/" * 40 + "x", "jobs/j1/.hidden", "a..b")
RANGES: list[tuple[int, int | None, bytes]] = [
    (0, None, b"0123456789"),
    (0, 3, b"012"),
    (2, 5, b"234"),
    (7, None, b"789"),
    (7, 100, b"789"),
    (10, 12, b""),
    (50, None, b""),
    (0, 0, b""),
    (5, 5, b""),
]


class StorageConformance:
    """Subclass it, make a storage in `open_storage`, and every test below must pass."""

    def open_storage(self, place: Path) -> Storage:
        """A storage; the same place gives the same objects."""
        raise NotImplementedError

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return self.open_storage(tmp_path)

    def test_a_file_becomes_an_object(self, storage: Storage, tmp_path: Path) -> None:
        for number, place in enumerate((Path(storage.draft_dir()), tmp_path)):
            path = place / f"draft-{number}"
            path.write_bytes(b"abc" * 1_000_000)
            storage.put_file(f"jobs/j{number}/x", str(path))
            assert storage.get(f"jobs/j{number}/x", 2_999_999) == b"c"
            assert storage.size(f"jobs/j{number}/x") == 3_000_000
            path.unlink(missing_ok=True)

    def test_what_was_put_is_given_back(self, storage: Storage) -> None:
        data = bytes(range(256)) * 1000
        storage.put("logs/n1/1", data)
        assert storage.get("logs/n1/1") == data
        assert storage.size("logs/n1/1") == len(data)

    def test_an_empty_object_is_an_object(self, storage: Storage) -> None:
        storage.put("empty", b"")
        assert storage.get("empty") == b""
        assert storage.size("empty") == 0

    def test_a_second_put_replaces_the_object(self, storage: Storage) -> None:
        storage.put("a/b", b"a longer first one")
        storage.put("a/b", b"second")
        assert storage.get("a/b") == b"second"
        assert [kept.key for kept in storage.list("a")] == ["a/b"]

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        RANGES,
    )
    def test_a_range_is_what_there_is_of_it(
        self, storage: Storage, start: int, end: int | None, expected: bytes
    ) -> None:
        storage.put("digits", b"0123456789")
        assert storage.get("digits", start, end) == expected

    def test_a_missing_object_is_not_found_and_has_no_size(self, storage: Storage) -> None:
        with pytest.raises(NotFound, match="a/b"):
            storage.get("a/b")
        with pytest.raises(NotFound):
            storage.get("a/b", 2, 5)
        assert storage.size("a/b") is None

    def test_what_lies_above_an_object_is_not_an_object(self, storage: Storage) -> None:
        storage.put("a/b/c", b"x")
        assert storage.size("a/b") is None
        with pytest.raises(NotFound):
            storage.get("a/b")

    def test_deleted_objects_are_gone_and_missing_ones_are_no_error(self, storage: Storage) -> None:
        for name in ("one", "two", "three"):
            storage.put(f"a/{name}", b"x")
        storage.delete(["a/one", "a/never-was", "a/two"])
        storage.delete(["a/one"])
        storage.delete([])
        assert [kept.key for kept in storage.list("a")] == ["a/three"]

    def test_a_listing_has_keys_sizes_and_times_below_whole_segments(self, storage: Storage) -> None:
        storage.put("logs/n1/1", b"12")
        storage.put("logs/n2/1", b"123")
        storage.put("logs-other/1", b"1")
        found = sorted(storage.list("logs/"))
        assert [(kept.key, kept.size) for kept in found] == [("logs/n1/1", 2), ("logs/n2/1", 3)]
        assert sorted(storage.list("logs")) == found
        assert all(kept.at > 1_600_000_000 for kept in found)
        assert len(list(storage.list(""))) == 3
        assert not list(storage.list("nothing-here"))

    @pytest.mark.parametrize("key", ODD_KEYS)
    def test_keys_of_users_files_are_kept_as_they_are(self, storage: Storage, key: str) -> None:
        storage.put(key, b"x")
        assert storage.get(key) == b"x"
        assert [kept.key for kept in storage.list("")] == [key]
        storage.delete([key])
        assert storage.size(key) is None

    @pytest.mark.parametrize("key", BAD_KEYS.values(), ids=BAD_KEYS)
    def test_a_key_that_could_leave_the_storage_is_refused(self, storage: Storage, key: str) -> None:
        for act in (lambda: storage.put(key, b"x"), lambda: storage.get(key), lambda: storage.size(key)):
            with pytest.raises(BadInput):
                act()
        storage.put("kept", b"x")
        with pytest.raises(BadInput):
            storage.delete(["kept", key])
        assert storage.size("kept") == 1, "a refused call changes nothing"

    def test_a_reader_never_sees_half_of_an_object(self, storage: Storage) -> None:
        old, new = b"o" * 300_000, b"n" * 300_000
        storage.put("object", old)
        done = threading.Event()

        def replace_it() -> None:
            for round_ in range(30):
                storage.put("object", new if round_ % 2 else old)
            done.set()

        writer = threading.Thread(target=replace_it)
        writer.start()
        while not done.is_set():
            assert storage.get("object") in (old, new)
        writer.join()

    def test_many_threads_may_put_at_once(self, storage: Storage) -> None:
        def put_some(number: int) -> None:
            for each in range(20):
                storage.put(f"logs/n{number}/{each}", f"{number} {each}".encode())

        threads = [threading.Thread(target=put_some, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(list(storage.list("logs"))) == 80
        assert storage.get("logs/n3/19") == b"3 19"

    def test_a_storage_that_is_opened_anew_has_everything(self, storage: Storage, tmp_path: Path) -> None:
        storage.put("a/b", b"x")
        again = self.open_storage(tmp_path)
        assert again.get("a/b") == b"x"
        assert again.local_dir() == storage.local_dir()
