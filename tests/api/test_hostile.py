"""Hostile input over real HTTP: bodies that grow without end, bundles that would, names that trick. And damage."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.core.errors import Unavailable
from headway.core.spec.bundle import Manifest, packed
from headway.storage.folder import FolderStorage
from tests.api.serving import Serving

TRICKY = [
    "../x",
    "/etc/passwd",
    "a/../../x",
    "a\0b",
    "a\nb",
    "x" * 10_000,
    "a/" * 5000 + "b",
    "\x1b[2J",
    "a\x7f",
    "",
    ".",
]
BOMB = gzip.compress(b"0" * (64 << 20), 1)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path / "objects", bundle_bytes_max=1 << 20) as made:
        yield made


def digest_of(files: list[dict[str, Any]]) -> str:
    return Manifest(tuple(sorted(files, key=lambda entry: str(entry["path"])))).digest


def upload(server: Serving, content: bytes) -> str:
    sha256 = hashlib.sha256(content).hexdigest()
    assert server.ask("PUT", f"/api/v1/bundles/files/{sha256}", content).status == 204
    return sha256


def bundle(server: Serving, files: list[dict[str, Any]]) -> tuple[int, str]:
    answer = server.ask("PUT", f"/api/v1/bundles/{digest_of(files)}", {"files": files})
    return answer.status, answer.data.decode()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"job": {"command": ["true"], "command": ["false"]}}', 'the key \\"command\\" twice in one place'),
        (b'{"job": {"command": ["true"]}, "job": {}}', 'the key \\"job\\" twice in one place'),
        (b'{"job": {"command": ["true"], "env": {"A": "1", "\\u0041": "2"}}}', 'the key \\"A\\" twice in one place'),
        (b'{"job": {"command": ["true"], "priority": ' + b"9" * 5000 + b"}}", "the body is not JSON"),
        (b'{"job": {"command": ["true"], "max_duration": "99999999999d"}}', "is longer than 100 years"),
        (b'{"job":' * 100_000, "the body is not JSON: maximum recursion depth"),
    ],
)
def test_a_body_that_says_two_things_or_too_much_is_refused(server: Serving, body: bytes, said: str) -> None:
    answer = server.ask("POST", "/api/v1/jobs", body, {"Content-Type": "application/json"})
    assert (answer.status, said in answer.data.decode()) == (422, True), answer.data


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/bundles/files", f"/api/v1/bundles/files/{'0' * 64}"])
def test_a_packed_body_is_refused_before_anybody_unpacks_it(server: Serving, path: str) -> None:
    method = "POST" if path.endswith("jobs") else "PUT"
    answer = server.ask(method, path, BOMB, {"Content-Encoding": "gzip"})
    assert answer.status == 422
    assert "packed bodies are not read" in answer.data.decode()


@pytest.mark.parametrize(
    ("pack", "said"),
    [
        (struct.pack(">32sI", b"0" * 32, 2**32 - 1) + b"x", "at most 1048576"),
        (struct.pack(">32sI", b"0" * 32, 1000) + b"x", "breaks off"),
        (b"x" * 10, "breaks off"),
        (b"".join(packed(hashlib.sha256(b"%d" % n).hexdigest(), b"%d" % n) for n in range(2001)), "more than 2,000"),
        (packed("0" * 64, b"other"), "changed on its way"),
        (bytes((16 << 20) + 1), "at most 16777216"),
    ],
)  # fmt: skip
def test_a_pack_that_claims_more_than_it_has_is_refused(server: Serving, pack: bytes, said: str) -> None:
    answer = server.ask("PUT", "/api/v1/bundles/files", pack)
    assert answer.status == 422
    assert said in answer.data.decode()
    assert not list(server.storage.list("bundles"))


def test_a_bundle_that_would_fill_a_node_is_refused(server: Serving) -> None:
    sha256 = upload(server, b"0" * 100_000)
    many = [{"path": f"f{number}", "sha256": sha256, "size": 100_000} for number in range(1000)]
    status, said = bundle(server, many)
    assert status == 422
    assert "95.4 MiB; at most 1.0 MiB are taken" in said
    for each in many:
        each["size"] = 1  # As if they were small.
    status, said = bundle(server, many)
    assert status == 422
    assert "has 100000 bytes, not 1" in said
    many[-1]["size"] = 100_000
    status, said = bundle(server, many)
    assert status == 422
    assert "another size" in said
    assert bundle(server, [{"path": "f", "sha256": sha256, "size": 100_000}])[0] == 201


@pytest.mark.parametrize("path", TRICKY)
def test_a_tricky_path_is_refused_wherever_it_is_named(server: Serving, path: str) -> None:
    sha256 = upload(server, b"x")
    assert bundle(server, [{"path": path, "sha256": sha256, "size": 1}])[0] == 422
    if path != ".":  # The directory itself: a link may lead there.
        assert bundle(server, [{"path": "ok", "link": path}])[0] == 422
    server.join()
    for method in ("PUT", "GET"):
        asked = {"node": "n1", "method": method, "keys": [f"jobs/j1/1/output/{path}"]}
        answer = server.ask("POST", "/agent/urls", asked)
        assert answer.status == 422, answer.data


class Damaging(FolderStorage):
    """A folder whose next answers are damaged on their way."""

    damaged = 0
    cut = 0

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        content = super().get(key, start, end)
        if self.damaged > 0 and content:
            self.damaged -= 1
            return bytes([content[0] ^ 1]) + content[1:]
        if self.cut > 0 and content:
            self.cut -= 1
            return content[: len(content) // 2]
        return content


def test_a_list_of_a_bundle_that_comes_damaged_is_read_again_and_never_shown(tmp_path: Path) -> None:
    storage = Damaging(tmp_path / "objects")
    with Serving(tmp_path / "objects", storage=storage) as server:
        files = [{"path": "f", "sha256": upload(server, b"x"), "size": 1}]
        assert bundle(server, files)[0] == 201
        digest = digest_of(files)
        for damage in ("damaged", "cut"):
            setattr(storage, damage, 2)
            assert server.services.part("bundles").manifest(digest)["files"] == files
            setattr(storage, damage, 3)
            with pytest.raises(Unavailable, match="damaged"):
                server.services.part("bundles").manifest(digest)
        # One that parses, and says something else.
        storage.put(f"bundles/{digest}.json", json.dumps({"files": [{**files[0], "path": "g"}]}).encode())
        answer = server.ask("GET", f"/api/v1/bundles/{digest}")
        assert answer.status == 503
        assert '"g"' not in answer.data.decode()


def test_a_log_that_comes_cut_is_read_again_and_never_shown(tmp_path: Path) -> None:
    from headway.api.routes.logs import read_piece
    from headway.store.protocol import LogRange

    storage = Damaging(tmp_path / "objects")
    with Serving(tmp_path / "objects", storage=storage) as server:
        storage.put("logs/n1/1", b"one\ntwo\nthree\n")
        ranges = [
            LogRange("j1", 1, 0, 0, "out", 0, 4, "logs/n1/1", 0),
            LogRange("j1", 1, 0, 0, "out", 4, 14, "logs/n1/1", 4),
        ]
        storage.cut = 2
        assert read_piece(server.services, ranges, 0, 1000).data == b"one\ntwo\nthree\n"
        storage.cut = 4
        with pytest.raises(Unavailable, match="of 4 bytes"):
            read_piece(server.services, ranges, 0, 1000)


def test_a_piece_of_a_log_that_is_damaged_or_lost_is_said_to_be_and_never_shown(tmp_path: Path) -> None:
    import zlib

    from headway.api.routes.logs import LogPiece, read_piece
    from headway.store.protocol import LogRange

    storage = Damaging(tmp_path / "objects")
    with Serving(tmp_path / "objects", storage=storage) as server:
        ranges = []
        for number, line in enumerate((b"one\n", b"two\n", b"six\n")):
            storage.put(f"logs/n1/{number}", line)
            at = number * 4
            ranges.append(LogRange("j1", 1, 0, 0, "out", at, at + 4, f"logs/n1/{number}", 0, 0.0, zlib.crc32(line)))

        def read(offset: int, limit: int = 1000) -> LogPiece:
            return read_piece(server.services, ranges, offset, limit)

        storage.damaged = 2
        assert read(0).data == b"one\ntwo\nsix\n", "damaged on the way, it is read again"
        storage.put("logs/n1/1", b"twx\n")
        assert read(0) == LogPiece(b"one\n", 0, 0, times=((4, 0.0),))
        assert read(4) == LogPiece(b"", 8, 4, 4)
        assert read(4).next == 8
        assert read(8) == LogPiece(b"six\n", 8, 0, times=((12, 0.0),))
        server.services.checked_logs.clear()
        assert read(5, 1) == LogPiece(b"", 8, 3, 3), "a part of it is not shown either"
        storage.delete(["logs/n1/2"])
        assert read(8) == LogPiece(b"", 12, 4, 4)
