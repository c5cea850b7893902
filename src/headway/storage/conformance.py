"""The law of all storages, as tests: a storage is right when a subclass of StorageConformance passes with it.

    class TestMyStorage(StorageConformance):
        def open_storage(self, place): return MyStorage(place)

Needs pytest. Nothing in the server imports this file.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from headway.core.errors import BadInput, NotFound
from headway.core.files.storage_identity import Identity
from headway.storage.protocol import ID_KEY, Storage, WrongContent

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

    def test_parts_are_joined_to_one_object_only_if_they_are_what_was_announced(self, storage: Storage) -> None:
        storage.put("parts/0", b"a" * 6_000_000)
        storage.put("parts/1", b"b" * 6_000_000)
        whole = b"a" * 6_000_000 + b"b" * 6_000_000
        storage.join("output/x", ["parts/0", "parts/1"], hashlib.sha256(whole).hexdigest())
        assert storage.get("output/x") == whole
        assert storage.size("parts/0") == 6_000_000
        with pytest.raises(WrongContent, match="output/y"):
            storage.join("output/y", ["parts/1", "parts/0"], hashlib.sha256(whole).hexdigest())
        with pytest.raises(NotFound):
            storage.join("output/y", ["parts/0", "parts/2"], hashlib.sha256(whole).hexdigest())
        assert storage.size("output/y") is None

    def test_a_signed_address_opens_one_object_for_one_method(self, storage: Storage) -> None:
        keys = ["jobs/j1/one", "jobs/j1/other"]
        puts, gets = storage.sign("PUT", keys, 60), storage.sign("GET", keys, 60)
        if puts is None or gets is None:
            pytest.skip("the place of the objects has no address of its own; the server signs for it")
        headers = storage.put_headers()
        assert _call("PUT", puts[0], b"content", headers)[0] < 300
        assert storage.get(keys[0]) == b"content"
        assert _call("GET", gets[0]) == (200, b"content")
        assert _call("GET", gets[0], headers={"Range": "bytes=1-3"}) == (206, b"ont")
        assert _call("GET", gets[1])[0] == 404
        assert _call("GET", puts[0])[0] == 403
        assert _call("PUT", gets[0], b"other", headers)[0] == 403
        other = gets[0].replace("/one?", "/other?")
        assert _call("GET", other)[0] == 403, "an address for one object opens another"
        assert storage.get(keys[0]) == b"content"

    @pytest.mark.parametrize("key", ODD_KEYS)
    def test_an_address_for_an_odd_key_opens_it_or_is_not_given(self, storage: Storage, key: str) -> None:
        (address,) = storage.sign("PUT", [key], 60) or ("",)
        if address:
            assert _call("PUT", address, b"content", storage.put_headers())[0] < 300
            assert storage.get(key) == b"content"

    def test_what_was_damaged_on_its_way_is_refused(self, storage: Storage) -> None:
        puts = storage.sign("PUT", ["sum"], 60)
        if puts is None:
            pytest.skip("the place of the objects has no address of its own; the server signs for it")
        announced = base64.b64encode(hashlib.md5(b"content").digest()).decode()
        headers = {**storage.put_headers(), "Content-MD5": announced}
        assert _call("PUT", puts[0], b"cantent", headers)[0] == 400
        assert storage.size("sum") is None
        assert _call("PUT", puts[0], b"content", headers)[0] < 300

    def test_a_storage_has_one_id_however_many_give_it_one_and_it_is_found_again(
        self, storage: Storage, tmp_path: Path
    ) -> None:
        assert storage.identity() is None
        found: list[Identity | None] = []
        threads = [
            threading.Thread(target=lambda name=f"id-{number}": found.append(storage.identity(name)))
            for number in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(found)) == 1, found
        assert found[0] is not None
        assert found[0].id.startswith("id-")
        assert self.open_storage(tmp_path).identity("another") == found[0]
        assert storage.get(ID_KEY).decode() == found[0].id

    def test_a_storage_that_is_opened_anew_has_everything(self, storage: Storage, tmp_path: Path) -> None:
        storage.put("a/b", b"x")
        again = self.open_storage(tmp_path)
        assert again.get("a/b") == b"x"
        assert again.local_dir() == storage.local_dir()


def _call(method: str, url: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, b""
