"""Real object stores keep the law of all storages, over HTTP; GCS can only be opened and signed for here."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from headway.storage.conformance import StorageConformance
from headway.storage.objects import ObjectStorage
from headway.storage.protocol import Storage
from tests.buckets import Bucket, azurite, seaweed

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
