"""Storage that misbehaves: nothing that was acknowledged is lost, and nothing is read that was not written."""

from __future__ import annotations

import hashlib
import http.client
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from headway.core.errors import Unavailable
from headway_agent.files.parts import Known, send_files, signature_of
from headway_agent.files.restore import Bad, _checked
from headway_agent.objects.folder import Missing, StoreFailed, StoreRefused
from headway_agent.objects.remote import PAUSE_S_MAX, RemoteObjects, SignedLink
from headway_agent.server_link.http import ServerHome
from tests.api.serving import Serving
from tests.buckets import seaweed
from tests.faults import FaultyProxy
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path / "objects") as made:
        yield made


@pytest.fixture
def job(server: Serving) -> str:
    server.join()
    job = server.submit()
    server.start(f"{job}/1/0")
    return job


remotes: list[RemoteObjects] = []


@pytest.fixture(autouse=True)
def _hung_up() -> Iterator[None]:
    yield
    while remotes:
        remote = remotes.pop()
        for connection in [remote.links._connection, *(each for idle in remote._idle.values() for each in idle)]:
            connection.close()


def a_remote(tmp_path: Path, server: Serving, **more: Any) -> RemoteObjects:
    (tmp_path / "token").write_text(server.services.signer.token_for("n1"))
    remotes.append(RemoteObjects(ServerHome(server.url, "", str(tmp_path / "token")), "n1", **more))
    return remotes[-1]


def test_objects_of_a_living_attempt_travel_by_signed_addresses(server: Serving, job: str, tmp_path: Path) -> None:
    remote = a_remote(tmp_path, server)
    key = f"jobs/{job}/1/parts/0-1.0"
    remote.put(key, b"content")
    assert server.storage.get(key) == b"content"
    assert remote.read(key, 1, 4) == b"ont"
    assert remote.read_all(key) == b"content"
    with pytest.raises(Missing):
        remote.read_all(f"jobs/{job}/1/parts/none")
    for key in (f"jobs/{job}/2/parts/x", "jobs/other/1/parts/x", "logs/n2/1", "bundles/files/x"):
        with pytest.raises(StoreRefused):
            remote.put(key, b"x")


def test_a_signed_address_opens_one_object_for_one_method_and_a_while(server: Serving, job: str) -> None:
    keys = [f"jobs/{job}/1/output/<b>ü x", f"jobs/{job}/1/output/other"]

    def addresses(method: str) -> list[str]:
        answer = server.ask("POST", "/agent/urls", {"node": "n1", "method": method, "keys": keys}).json
        return [answer["urls"][key] for key in keys]

    def call(method: str, address: str, body: bytes | None = None) -> int:
        return server.ask(method, address, body, {"Authorization": ""}).status

    puts, gets = addresses("PUT"), addresses("GET")
    assert call("PUT", puts[0], b"content") == 204
    assert call("GET", gets[0]) == 200
    assert call("GET", gets[1]) == 404
    query = puts[1].partition("?")[2]
    for method, address in (
        ("GET", puts[0]),
        ("PUT", gets[0]),
        ("PUT", puts[0].partition("?")[0] + "?" + query),
        ("PUT", puts[0].replace("expires=1", "expires=2")),
        ("PUT", puts[0].replace("expires=", "expires=+")),
        ("PUT", puts[0][:-1] + ("0" if puts[0][-1] != "0" else "1")),
        ("GET", "/agent/objects/secret?xsignature=1"),
        ("PUT", f"/agent/objects/jobs/{job}/1/x?signature="),
    ):
        assert call(method, address, b"x") == 403, (method, address)
    assert call("GET", "/agent/objects/jobs/x") == 401
    mine = server.services.addresses
    late = replace(mine, good_for_s=-60.0).give("PUT", keys[:1])[0]
    assert call("PUT", late, b"x") == 403, "its time is over"
    assert server.storage.get(keys[0]) == b"content"


@pytest.mark.parametrize("key", ["jobs/../x", "/etc/x", "jobs/a\nb/1/x", "jobs//x", ".drafts/x", "jobs/\x00"])
def test_no_address_is_given_for_a_tricky_name(server: Serving, job: str, key: str) -> None:
    for method in ("PUT", "GET"):
        assert server.ask("POST", "/agent/urls", {"node": "n1", "method": method, "keys": [key]}).status == 422


def test_a_cut_upload_goes_on_with_the_chunk_where_it_broke(server: Serving, job: str, tmp_path: Path) -> None:
    pauses: list[float] = []
    remote = a_remote(tmp_path, server, pause=pauses.append)
    chunks = [f"jobs/{job}/1/parts/output-x.{number}" for number in range(3)]
    contents = [os.urandom(1000) for _ in chunks]
    sums = [hashlib.sha256(content).hexdigest() for content in contents]
    remote.put_chunk(chunks[0], contents[0], sums[0])
    with pytest.raises(StoreFailed, match="400"):
        remote.put_chunk(chunks[1], contents[1], sums[0])  # Damaged on its way, however often it is sent.
    assert len(pauses) == 6
    assert server.storage.size(chunks[1]) is None
    assert [kept.key for kept in server.storage.list(f"jobs/{job}/1/parts")] == chunks[:1]
    before = (Path(server.storage.local_dir()) / chunks[0]).stat().st_ino
    for chunk, content, sum_ in zip(chunks, contents, sums, strict=True):
        remote.put_chunk(chunk, content, sum_)
    assert (Path(server.storage.local_dir()) / chunks[0]).stat().st_ino == before, "it was sent again"
    whole = b"".join(contents)
    key = f"jobs/{job}/1/output/x"
    for _ in range(2):  # The second time as if the answer to the first was lost.
        remote.join(key, chunks, len(whole), hashlib.sha256(whole).hexdigest())
    assert server.storage.get(key) == whole
    assert not list(server.storage.list(f"jobs/{job}/1/parts"))


def test_pauses_grow_and_are_as_long_as_storage_asks_for(tmp_path: Path) -> None:
    at = urlsplit(seaweed().endpoint)
    proxy = FaultyProxy(at.hostname or "", at.port or 0, seed=1, share=1.0)
    storage = seaweed().open("pauses", f"http://127.0.0.1:{proxy.port}")
    with Serving(tmp_path / "unused", storage=storage) as again:
        again.join()
        key = f"jobs/{again.submit()}/1/parts/0-1.0"
        again.start(key.split("/")[1] + "/1/0")
        for fault, longest_s in (("500", PAUSE_S_MAX * 1.5), ("503", 7.0)):
            pauses: list[float] = []
            remote = a_remote(tmp_path, again, pause=pauses.append)
            proxy.faults, proxy.retry_after_s = [fault], 7
            with pytest.raises(StoreFailed, match=fault):
                remote.put(key, b"content")
            assert len(pauses) == 6
            assert max(pauses) <= max(longest_s, PAUSE_S_MAX * 1.5)
            if fault == "503":
                assert min(pauses) >= 7.0, "it came back before storage wanted it"
            else:
                assert pauses[0] < pauses[-1]
        proxy.retry_after_s = 86400
        with pytest.raises(StoreFailed):
            remote.put(key, b"content")
        assert max(pauses) == 30.0, "nobody may tell a node to wait for a day"
        proxy.on = False
        remote.put(key, b"content")
        assert again.storage.get(key) == b"content"
    proxy.close()


def test_a_bucket_that_is_not_found_says_nothing_of_its_objects(tmp_path: Path) -> None:
    """Else a checkpoint that is there would be set aside as lost, because a gateway has forgotten its bucket."""
    at = urlsplit(seaweed().endpoint)
    proxy = FaultyProxy(at.hostname or "", at.port or 0, seed=1, share=1.0)
    proxy.on, proxy.faults = False, ["404"]
    storage = seaweed().open("no-bucket", f"http://127.0.0.1:{proxy.port}")
    storage.identity("an-id")
    with Serving(tmp_path / "unused", storage=storage) as again:
        again.join()
        job = again.submit()
        again.start(f"{job}/1/0")
        remote = a_remote(tmp_path, again, pause=lambda _: None)
        key, none = f"jobs/{job}/1/parts/0-1.0", f"jobs/{job}/1/parts/none"
        remote.put(key, b"content")
        for each in (key, none):
            remote.links.find("GET", each)
        proxy.on = True
        for each in (key, none):
            with pytest.raises(StoreFailed, match="NoSuchBucket"):
                remote.read_all(each)
        storage._seen_at = float("-inf")
        for ask in (storage.size, storage.get):
            with pytest.raises(Unavailable, match="has lost its id"):
                ask(none)
        proxy.on = False
        assert remote.read_all(key) == b"content"
        with pytest.raises(Missing):
            remote.read_all(none)
        assert storage.size(none) is None
    proxy.close()


@pytest.mark.parametrize("url", ["server", "bucket"])
def test_an_address_that_ran_out_before_its_time_is_renewed(server: Serving, tmp_path: Path, url: str) -> None:
    """As where a clock is off, or a body was long on its way: the agent believes that it is still good."""
    storage = seaweed().open("expiring") if url == "bucket" else server.storage
    with Serving(tmp_path / "unused", storage=storage, signed_url_s=3.0) as again:
        again.join()
        job = again.submit()
        again.start(f"{job}/1/0")
        keys = [f"jobs/{job}/1/parts/0-1.{number}" for number in range(4)]
        remote = a_remote(tmp_path, again, pause=lambda _: None)
        remote.put(keys[0], b"first")
        links = [remote.links.find("PUT", key) for key in keys]
        for link in links:
            link.until_s += 3600.0
        wait_until(lambda: _refused(again, links[3]), what="the end of the address")
        for key in keys[1:3]:
            remote.put(key, key.encode())
            assert again.storage.get(key) == key.encode()
            assert remote.links.find("PUT", key) not in links


@pytest.mark.parametrize("seed", range(3))
def test_a_store_that_misbehaves_loses_and_damages_nothing(tmp_path: Path, seed: int) -> None:
    """A bucket behind a proxy that answers 500 and 503, cuts, damages, resets and dawdles, two calls in five."""
    at = urlsplit(seaweed().endpoint)
    proxy = FaultyProxy(at.hostname or "", at.port or 0, seed)
    storage = seaweed().open(f"faults-{seed}", f"http://127.0.0.1:{proxy.port}")
    with Serving(tmp_path / "unused", storage=storage) as again:
        again.join()
        job = again.submit()
        again.start(f"{job}/1/0")
        chance = random.Random(seed)
        source = tmp_path / "source"
        source.mkdir()
        for number in range(6):
            (source / f"f{number}").write_bytes(chance.randbytes(chance.randint(1, 3 << 20)))
        files = {path.name: signature_of(path.lstat()) for path in source.iterdir()}
        remote = a_remote(tmp_path, again, pause=lambda _: None)
        remote.object_bytes_max = 1 << 20
        entries = None
        known = Known()
        for attempt in range(20):
            try:
                entries, _ = send_files(remote, f"jobs/{job}/1/parts/0-{attempt}.", str(source), files, known)
                break
            except StoreFailed:
                continue
        assert entries is not None, proxy.met
        for entry in entries:
            content = b"".join(_persistent(remote, entry["path"], part) for part in entry["parts"])
            assert content == (source / entry["path"]).read_bytes()
    proxy.close()
    assert len(proxy.met) >= 4, proxy.met


def _refused(serving: Serving, link: SignedLink) -> bool:
    at = urlsplit(link.origin or f"http://127.0.0.1:{serving.port}")
    connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=PATIENCE_S)
    connection.request("PUT", link.path, b"probe", link.headers)
    status = connection.getresponse().status
    connection.close()
    return status == 403


def _persistent(remote: RemoteObjects, path: str, part: dict[str, Any]) -> bytes:
    for _ in range(20):
        try:
            return _checked(remote, path, [part])
        except StoreFailed:
            continue
        except Bad as problem:  # It may have come damaged every time that it was read.
            if "not what was stored" not in str(problem):
                raise AssertionError(f"acknowledged, and not there: {problem}") from None
    raise AssertionError("storage never answered, or never with what was stored")
