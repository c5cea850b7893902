"""Buckets keep the law of all storages: tried with the library's own memory and folder, which need no network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headway.core.errors import BadInput, Unavailable
from headway.storage.conformance import StorageConformance
from headway.storage.objects import ObjectStorage
from headway.storage.protocol import Storage


class TestObjectsInMemory(StorageConformance):
    @pytest.fixture(autouse=True)
    def _places(self) -> None:
        self.places: dict[Path, Storage] = {}

    def open_storage(self, place: Path) -> Storage:
        return self.places.setdefault(place, ObjectStorage("memory:///"))


class TestObjectsInAFolder(StorageConformance):
    def open_storage(self, place: Path) -> Storage:
        return ObjectStorage(f"file://{place}/objects")


def test_a_url_that_means_nothing_is_refused_with_the_forms_that_do() -> None:
    with pytest.raises(BadInput, match="storage_url") as refused:
        ObjectStorage("nonsense://x").size("key")
    assert "s3://" in refused.value.hint


def test_a_bucket_that_cannot_be_reached_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.storage.objects.RETRIES_MAX", 0)
    for name, value in {
        "AWS_ENDPOINT": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_REGION": "nowhere",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Unavailable, match="s3://bucket/path cannot take logs/1"):
        ObjectStorage("s3://bucket/path").put("logs/1", b"x")


def test_the_library_is_loaded_with_the_first_use_only() -> None:
    program = (
        "import sys; from headway.storage.objects import ObjectStorage; ObjectStorage('s3://b'); "
        "sys.exit('obstore' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
