"""Only what nobody needs is deleted: never what is named, never what a running attempt may be about to name."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from headway.control.files.bundle_objects import content_key, manifest_key
from headway.control.files.garbage import ORPHAN_S, REST_S, SWEEP_EVERY_S, Collecting
from headway.control.jobs.commands import ForgetJob, Submit
from headway.control.jobs.derive import forked
from headway.core.errors import Conflict
from headway.core.spec.bundle import Manifest, read_manifest
from headway.core.spec.job import read_spec
from headway.features.bundles.shelf import BundleStore
from headway.features.bundles.tables import BUNDLES
from headway.storage.folder import FolderStorage
from tests.control.nodes.test_file_reports import Played


class Place(Played):
    """A played leader with a storage folder, a shelf, and a collector that a test runs by hand."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.storage = FolderStorage(folder)
        self.shelf = BundleStore(self.store, self.storage, self.leader)
        self.open_collecting()

    def open_collecting(self) -> None:
        """As after a restart of the server: what it remembered is gone."""
        clock = lambda: self.leader.now  # noqa: E731
        self.collecting = Collecting(self.store, self.storage, self, clock, clock, also=[self.let_go])
        self.told = len(self.leader.said)

    def let_go(self) -> None:
        self.shelf.let_go(self.leader.now - ORPHAN_S)

    @property
    def cycle(self) -> Any:
        return self.leader.cycle

    def put(self, key: str, data: bytes = b"x") -> str:
        self.storage.put(key, data)
        os.utime(Path(self.storage.local_dir(), key), (self.leader.now, self.leader.now))
        return key

    def checkpoint(self, task: str, step: int, *parts: str, named: bool = True) -> list[str]:
        """A manifest with these parts (new ones are put), committed or only put."""
        job, attempt, index = task.split("/")
        for part in parts:
            if self.storage.size(part) is None:
                self.put(part)
        entries = [{"path": part, "parts": [{"key": part, "offset": 0, "size": 1}]} for part in parts]
        key = self.put(f"jobs/{job}/{attempt}/checkpoints/{step}-{index}.json", json.dumps({"files": entries}).encode())
        if named:
            self.save(task, step)
        return [key, *parts]

    def later(self, seconds: float) -> None:
        self.leader.now += seconds
        for said in self.leader.said[self.told :]:
            self.collecting.dropped(said.dropped)
        self.told = len(self.leader.said)
        self.collecting.collect_unnamed()

    def objects(self, prefix: str = "jobs") -> set[str]:
        return {kept.key for kept in self.storage.list(prefix)}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_retention_let_go_is_deleted_soon_and_shared_parts_stay(place: Place) -> None:
    job = place.start(checkpoint={"keep_last": 1})
    parts = f"jobs/{job}/1/parts/"
    place.checkpoint(f"{job}/1/0", 1, parts + "a", parts + "b")
    second = place.checkpoint(f"{job}/1/0", 2, parts + "b", parts + "c")
    place.later(0)
    place.later(REST_S - 1)
    assert parts + "a" in place.objects(), "somebody may have begun to read it"
    place.later(2)
    assert place.objects() == set(second)


def test_in_the_folder_of_a_running_attempt_nothing_unnamed_is_touched_however_old(place: Place) -> None:
    job = place.start()
    unnamed = place.checkpoint(f"{job}/1/0", 1, f"jobs/{job}/1/parts/a", named=False)
    place.later(10 * ORPHAN_S)
    assert place.objects() == set(unnamed)
    place.save(f"{job}/1/0", 1)
    place.end(f"{job}/1/0")
    place.later(10 * ORPHAN_S)
    assert place.objects() == set(unnamed), "it was named in time"


def test_what_an_ended_attempt_left_unnamed_is_deleted_after_a_while(place: Place) -> None:
    job = place.start(retries=1)
    kept = place.checkpoint(f"{job}/1/0", 1, f"jobs/{job}/1/parts/a")
    place.checkpoint(f"{job}/1/0", 2, f"jobs/{job}/1/parts/b", named=False)
    artifact = place.put(f"jobs/{job}/1/output/m.pt")
    place.say(artifacts=[{"task": f"{job}/1/0", "path": "m.pt", "size": 1, "keys": [artifact]}])
    place.put(f"jobs/{job}/1/output/half")
    dump = place.put(f"jobs/{job}/1/dumps/1")
    place.end(f"{job}/1/0")
    place.later(ORPHAN_S / 2)
    assert f"jobs/{job}/1/parts/b" in place.objects(), "too young"
    place.later(ORPHAN_S)
    assert place.objects() == {*kept, artifact, dump}


def test_a_forgotten_job_leaves_nothing_but_what_its_fork_needs(place: Place) -> None:
    job = place.start()
    first = place.checkpoint(f"{job}/1/0", 1, f"jobs/{job}/1/parts/a")
    place.checkpoint(f"{job}/1/0", 2, f"jobs/{job}/1/parts/b")
    place.put(f"jobs/{job}/1/dumps/1")
    place.end(f"{job}/1/0")
    spec = forked(place.job(job), 1, {})
    (fork,) = place.leader.do(Submit((spec,), "ada", lambda: "fork", like=job)).result()
    place.leader.do(ForgetJob(job, "ada")).result()
    place.claim(fork)
    place.later(2 * ORPHAN_S)
    assert place.objects() == set(first)
    # The fork's own manifests may name parts of the job that it began from.
    own = place.checkpoint(f"{fork}/1/0", 5, f"jobs/{job}/1/parts/a", f"jobs/{fork}/1/parts/c")
    place.end(f"{fork}/1/0", exit_code=0, cause=None)
    place.later(2 * ORPHAN_S)
    assert place.objects() == {*first, *own}
    place.leader.do(ForgetJob(fork, "ada")).result()
    place.later(SWEEP_EVERY_S + ORPHAN_S)
    assert place.objects() == set()


def test_when_a_manifest_cannot_be_read_nothing_of_its_job_is_deleted(place: Place) -> None:
    job = place.start()
    manifest, _ = place.checkpoint(f"{job}/1/0", 1, f"jobs/{job}/1/parts/a")
    place.put(f"jobs/{job}/1/parts/orphan")
    place.end(f"{job}/1/0")
    place.storage.delete([manifest])
    before = place.objects()
    place.later(2 * ORPHAN_S)
    assert place.objects() == before
    place.put(manifest, b"not json")
    place.later(2 * ORPHAN_S)
    assert place.objects() == {*before, manifest}


def test_after_a_restart_drops_that_were_forgotten_are_found_once_the_attempt_is_over(place: Place) -> None:
    job = place.start(checkpoint={"keep_last": 1})
    place.checkpoint(f"{job}/1/0", 1, f"jobs/{job}/1/parts/a")
    second = place.checkpoint(f"{job}/1/0", 2, f"jobs/{job}/1/parts/b")
    place.open_collecting()
    place.later(2 * ORPHAN_S)
    assert f"jobs/{job}/1/parts/a" in place.objects()
    place.end(f"{job}/1/0")
    place.later(2 * ORPHAN_S)
    assert place.objects() == set(second)


def test_an_object_that_was_written_again_under_the_name_of_a_dropped_one_is_left_alone(place: Place) -> None:
    job = place.start(checkpoint={"keep_last": 1})
    first = place.checkpoint(f"{job}/1/0", 1, f"jobs/{job}/1/parts/a")
    place.checkpoint(f"{job}/1/0", 2, f"jobs/{job}/1/parts/b")
    place.leader.now += 5
    for said in place.leader.said:
        place.collecting.dropped(said.dropped)
    place.told = len(place.leader.said)
    place.leader.now += REST_S
    place.put(first[0], json.dumps({"files": []}).encode())
    place.collecting.collect_unnamed()
    assert first[0] in place.objects()


# --- bundles ----------------------------------------------------------------------------------------------------------


def a_manifest(**contents: bytes) -> Manifest:
    entries = [
        {"path": path, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "mode": 420}
        for path, data in contents.items()
    ]
    return read_manifest({"files": entries})


def upload(place: Place, **contents: bytes) -> str:
    manifest = a_manifest(**contents)
    for data in contents.values():
        sha256 = hashlib.sha256(data).hexdigest()
        place.shelf.take(sha256, len(data), lambda key, data=data: place.put(key, data))  # type: ignore[misc]
    place.shelf.complete(manifest)
    path = Path(place.storage.local_dir(), manifest_key(manifest.digest))
    os.utime(path, (place.leader.now, place.leader.now))
    return manifest.digest


def test_a_bundle_that_no_job_uses_is_let_go_and_contents_that_others_share_stay(place: Place) -> None:
    used, unused = upload(place, a=b"1", b=b"2"), upload(place, b=b"2", c=b"3")
    job = place.start(bundle=used)
    place.end(f"{job}/1/0")
    place.later(2 * ORPHAN_S)
    left = {content_key(hashlib.sha256(data).hexdigest()) for data in (b"1", b"2")}
    assert place.objects("bundles") == {*left, manifest_key(used)}
    assert place.store.row(BUNDLES, unused) is None
    assert place.shelf.missing([hashlib.sha256(b"3").hexdigest()]) != []
    place.leader.do(ForgetJob(job, "ada")).result()
    place.later(2 * ORPHAN_S)
    assert place.objects("bundles") == set()
    with pytest.raises(Conflict, match="was not uploaded"):
        place.shelf.complete(a_manifest(a=b"1"))


def test_a_bundle_is_kept_for_a_while_before_a_job_names_it(place: Place) -> None:
    digest = upload(place, a=b"1")
    place.later(ORPHAN_S / 2)
    raw = {"command": ["x"], "bundle": digest}
    (job,) = place.leader.do(Submit((read_spec(raw),), "ada", lambda: "late")).result()
    place.later(2 * ORPHAN_S)
    assert place.store.users("bundle", digest) == [job]
    assert manifest_key(digest) in place.objects("bundles")
