"""Real object stores keep the law of all storages, over HTTP; GCS can only be opened and signed for here."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from headway.storage.conformance import StorageConformance
from headway.storage.objects import ObjectStorage
from headway.storage.protocol import Storage
from tests.buckets import Bucket, azurite, seaweed
from tests.waiting import wait_until

numbers = itertools.count(1)


class BucketConformance(StorageConformance):
    bucket: Bucket

    @pytest.fixture(autouse=True)
    def _places(self) -> None:
        self.below: dict[Path, str] = {}

    def open_storage(self, place: Path) -> Storage:
        return self.bucket.open(self.below.setdefault(place, f"conformance-{next(numbers)}"))


class TestSeaweedFS(BucketConformance):
    @pytest.fixture(autouse=True)
    def _bucket(self) -> None:
        self.bucket = seaweed()


class TestAzurite(BucketConformance):
    @pytest.fixture(autouse=True)
    def _bucket(self) -> None:
        self.bucket = azurite()


def test_addresses_of_google_cloud_storage_are_signed_with_the_service_account(tmp_path: Path) -> None:
    """Made-up keys and no network: no emulator of GCS keeps preconditions and signatures, so this is all there is."""
    made = subprocess.run(["openssl", "genpkey", "-algorithm", "RSA"], capture_output=True, text=True, check=True)
    account = {
        "type": "service_account",
        "private_key": made.stdout,
        "private_key_id": "1",
        "client_email": "tests@example.invalid",
        "disable_oauth": False,
    }
    file = tmp_path / "account.json"
    file.write_text(json.dumps(account))
    storage = ObjectStorage("gs://bucket/below", options={"GOOGLE_SERVICE_ACCOUNT": str(file)})
    (address,) = storage.sign("PUT", ["jobs/j1/1/output/x"], 60) or ()
    parts = urlsplit(address)
    said = parse_qs(parts.query)
    assert (parts.netloc, parts.path) == ("storage.googleapis.com", "/bucket/below/jobs/j1/1/output/x")
    assert said["X-Goog-Expires"] == ["60"]
    assert said["X-Goog-Credential"][0].startswith("tests@example.invalid/")
    assert len(bytes.fromhex(said["X-Goog-Signature"][0])) == 256


def test_a_store_does_not_outlive_a_test_process_that_was_killed(tmp_path: Path) -> None:
    code = (
        "import os, sys; from tests.buckets import watched; watched(['sleep', '1000']); "
        "print('started', flush=True); sys.stdin.read()"
    )
    env = {**os.environ, "MARK": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)

    def left() -> list[str]:
        mine = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if os.fsencode(tmp_path) in (entry / "environ").read_bytes():
                    mine.append((entry / "cmdline").read_bytes().decode())
            except OSError:
                continue
        return mine

    assert parent.stdout is not None
    assert parent.stdin is not None
    assert parent.stdout.readline() == b"started\n"
    wait_until(lambda: len(left()) == 3, what="the process and its watch")
    parent.kill()
    parent.wait()
    wait_until(lambda: not left(), what="the end of both")
    parent.stdin.close()
    parent.stdout.close()
