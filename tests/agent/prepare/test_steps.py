"""What a task is prepared with: bundles are checked and unpacked, inputs fetched once, volumes looked at."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headway_agent.prepare import inputs
from headway_agent.prepare.cache import Cache
from headway_agent.prepare.steps import NotHere, StepFailed, Unwanted, check_workdir, needed, prepare
from headway_wire.claim import Claim
from tests.agent.stores import Site80, a_bundle, a_manifest, a_work


@pytest.fixture
def site() -> Iterator[Site80]:
    site = Site80()
    yield site
    site.close()


def failure(work: object) -> StepFailed:
    with pytest.raises(StepFailed) as raised:
        prepare(work)  # type: ignore[arg-type]
    return raised.value


def test_a_plain_task_needs_no_preparation() -> None:
    assert not needed(Claim.read({"task": "a/1/0", "argv": ["true"]}))
    assert not needed(
        Claim.read({"task": "a/1/0", "argv": ["true"], "progress": {"seed": 7, "limits": {"open_files": 100}}})
    )
    assert needed(Claim.read({"task": "a/1/0", "argv": ["true"], "progress": {"bundle": "d" * 64}}))


# --- bundles --------------------------------------------------------------------------------------------------------


def test_a_bundle_is_unpacked_with_its_modes_and_links_and_runs_in_its_subdir(tmp_path: Path) -> None:
    digest = a_bundle(
        tmp_path / "storage",
        {"src/train.py": "print(1)\n", "src/big.bin": b"x" * 100_000, "run.sh": "#!/bin/sh\n"},
        {"src/again.py": "train.py", "root": "src/../run.sh"},
        mode=0o755,
    )
    work = a_work(tmp_path, bundle=digest, subdir="src")
    prepared = prepare(work)
    root = Path(work.directory) / "work"
    assert prepared.cwd == str(root / "src")
    assert (root / "src/again.py").read_text() == "print(1)\n"
    assert (root / "src/again.py").is_symlink()
    assert (root / "src/big.bin").stat().st_size == 100_000
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o755


def test_a_claim_that_is_made_again_unpacks_anew(tmp_path: Path) -> None:
    work = a_work(tmp_path, bundle=a_bundle(tmp_path / "storage", {"a": "1"}))
    prepare(work)
    (Path(work.directory) / "work/left").touch()
    prepare(work)
    assert os.listdir(f"{work.directory}/work") == ["a"]


def test_a_bundle_that_is_not_in_storage_is_said(tmp_path: Path) -> None:
    problem = failure(a_work(tmp_path, bundle="d" * 64))
    assert problem.cause == "bundle_missing"
    assert problem.detail.startswith("storage has no object bundles/ddd")


def test_a_file_with_another_content_is_not_used(tmp_path: Path) -> None:
    digest = a_bundle(tmp_path / "storage", {"a": "1"})
    file = tmp_path / "storage/bundles/files" / hashlib.sha256(b"1").hexdigest()
    file.write_text("2")
    assert "another content" in failure(a_work(tmp_path, bundle=digest)).detail


@pytest.mark.parametrize("what", [".json", "files/"])
def test_what_comes_damaged_once_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    digest = a_bundle(tmp_path / "storage", {"a": "1"})
    work = a_work(tmp_path, bundle=digest)
    read, damaged = work.site.objects.pieces, [True]

    def pieces(key: str, *more: Any) -> Iterator[bytes]:
        for piece in read(key, *more):
            yield piece.replace(b"1", b"2") if what in key and damaged and damaged.pop() else piece

    monkeypatch.setattr(work.site.objects, "pieces", pieces)
    prepare(work)
    assert not damaged
    assert (Path(work.directory) / "work/a").read_text() == "1"


def test_a_list_that_was_changed_is_not_used(tmp_path: Path) -> None:
    digest = a_bundle(tmp_path / "storage", {"a": "1"})
    path = tmp_path / f"storage/bundles/{digest}.json"
    path.write_text(path.read_text().replace('"a"', '"b"'))
    assert "not what its name says" in failure(a_work(tmp_path, bundle=digest)).detail


@pytest.mark.parametrize(
    "entries",
    [
        [{"path": "../x", "link": "a", "mode": 0}],
        [{"path": "/etc/x", "link": "a", "mode": 0}],
        [{"path": "a//b", "link": "a", "mode": 0}],
        [{"path": "a\nb", "link": "a", "mode": 0}],
        [{"path": "a", "link": "/etc/passwd", "mode": 0}],
        [{"path": "a/b", "link": "../../x", "mode": 0}],
        [{"path": "a", "link": "..", "mode": 0}],
        [{"path": "a", "link": "b", "mode": 0}, {"path": "a/b", "link": "c", "mode": 0}],
    ],
)
def test_nothing_leaves_the_tree(tmp_path: Path, entries: list[dict[str, object]]) -> None:
    digest = a_manifest(tmp_path / "storage", entries)
    assert failure(a_work(tmp_path, bundle=digest)).cause == "bundle_missing"


def test_a_subdir_that_is_not_in_the_bundle_is_said(tmp_path: Path) -> None:
    digest = a_bundle(tmp_path / "storage", {"a": "1"})
    assert 'no directory "src"' in failure(a_work(tmp_path, bundle=digest, subdir="src")).detail


def test_a_task_that_is_given_back_is_not_prepared_further(tmp_path: Path) -> None:
    work = a_work(tmp_path, bundle=a_bundle(tmp_path / "storage", {"a": "1"}))
    work.wanted = lambda: False
    with pytest.raises(Unwanted):
        prepare(work)


# --- inputs and volumes ---------------------------------------------------------------------------------------------


def test_ten_tasks_at_once_fetch_an_input_once(tmp_path: Path, site: Site80) -> None:
    site.files["/data.csv"] = b"1,2\n" * 300_000
    works = [a_work(tmp_path, f"job{n}/1/0", inputs={"data": {"url": f"{site.url}/data.csv"}}) for n in range(10)]
    threads = [threading.Thread(target=prepare, args=(work,)) for work in works]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    paths = {work.prepared.env["HEADWAY_INPUT_DATA"] for work in works}
    assert len(paths) == 1
    path = Path(paths.pop())
    assert path.name == "data.csv"
    assert path.read_bytes() == site.files["/data.csv"]
    assert site.fetched == ["/data.csv"]


def test_a_new_version_at_the_same_address_is_fetched_and_the_old_one_stays_for_its_users(
    tmp_path: Path, site: Site80
) -> None:
    site.files["/a"] = b"old"
    first = a_work(tmp_path, "a/1/0", inputs={"data": {"url": f"{site.url}/a"}})
    old = Path(prepare(first).env["HEADWAY_INPUT_DATA"])
    site.files["/a"] = b"new"
    second = a_work(tmp_path, "b/1/0", inputs={"data": {"url": f"{site.url}/a"}})
    assert Path(prepare(second).env["HEADWAY_INPUT_DATA"]).read_bytes() == b"new"
    assert old.read_bytes() == b"old"


def test_a_transfer_that_breaks_off_is_tried_again_and_half_a_file_is_never_seen(tmp_path: Path, site: Site80) -> None:
    site.files["/a"] = b"x" * 10_000
    site.cut_short = 1
    work = a_work(tmp_path, inputs={"data": {"url": f"{site.url}/a"}})
    assert Path(prepare(work).env["HEADWAY_INPUT_DATA"]).stat().st_size == 10_000
    site.cut_short = inputs.TRIES
    site.files["/b"] = b"y" * 10_000
    problem = failure(a_work(tmp_path, inputs={"data": {"url": f"{site.url}/b"}}))
    assert problem.cause == "unreachable"
    assert "broke off" in problem.detail
    assert not [name for name in os.listdir(tmp_path / "cache/inputs") if name.endswith(".new")]


def test_a_missing_input_is_named_with_its_address_and_status(tmp_path: Path, site: Site80) -> None:
    problem = failure(a_work(tmp_path, inputs={"data": {"url": f"{site.url}/no?token=secret"}}))
    assert (problem.cause, problem.detail) == ("input_missing", f'input "data": {site.url}/no answered 404')


def test_a_server_that_is_busy_or_silent_is_no_fault_of_the_input(tmp_path: Path, site: Site80) -> None:
    site.busy = True
    problem = failure(a_work(tmp_path, inputs={"data": {"url": f"{site.url}/a"}}))
    assert (problem.cause, problem.detail) == ("unreachable", f'input "data": {site.url}/a answered 503')
    problem = failure(a_work(tmp_path, inputs={"data": {"url": "http://127.0.0.1:9/x"}}))
    assert problem.cause == "unreachable"
    assert "could not be reached" in problem.detail
    problem = failure(a_work(tmp_path, inputs={"data": {"url": "http://no-such-host.invalid/x"}}))
    if "Temporary failure" not in problem.detail:  # There, no name can be looked up.
        assert (problem.cause, "a host that nobody knows" in problem.detail) == ("input_missing", True), problem.detail


def test_an_input_with_another_hash_is_not_used(tmp_path: Path, site: Site80) -> None:
    site.files["/a"] = b"x"
    right = hashlib.sha256(b"x").hexdigest()
    good = a_work(tmp_path, inputs={"data": {"url": f"{site.url}/a", "sha256": right}})
    assert Path(prepare(good).env["HEADWAY_INPUT_DATA"]).read_bytes() == b"x"
    bad = a_work(tmp_path, inputs={"data": {"url": f"{site.url}/a", "sha256": "0" * 64}})
    assert f"has the sha256 {right}" in failure(bad).detail


def test_paths_and_volumes_are_used_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "file").write_text("x")
    place = str(tmp_path / "data")
    work = a_work(
        tmp_path, inputs={"d": {"url": place}, "f": {"url": f"file://{tmp_path}/file"}}, volumes={"nfs": place}
    )
    assert prepare(work).env == {
        "HEADWAY_INPUT_D": place, "HEADWAY_INPUT_F": f"{tmp_path}/file", "HEADWAY_VOLUME_NFS": place,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        ({"inputs": {"d": {"url": "/no/such"}}}, 'input "d": /no/such is not there on this node'),
        ({"inputs": {"d": {"url": "gs://bucket/x"}}}, 'input "d": gs://bucket/x: gs:// cannot be fetched'),
        ({"volumes": {"v": "/no/such"}}, 'volume "v": /no/such is not there on this node'),
        ({"volumes": {"v": "/etc/passwd"}}, "is not a directory"),
    ],
)
def test_what_is_not_there_is_said(tmp_path: Path, progress: dict[str, object], said: str) -> None:
    problem = failure(a_work(tmp_path, **progress))
    assert problem.cause == "input_missing"
    assert said in problem.detail


# --- the cache ------------------------------------------------------------------------------------------------------


def test_the_least_recently_used_go_first_and_never_one_in_use(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path / "cache"), 1 << 30)
    for number, name in enumerate("abcd"):
        user = tmp_path / f"task-{name}"
        user.mkdir()
        path, _ = cache.get(name, str(user), lambda draft: Path(draft).write_bytes(b"x" * 100_000) and None)
        os.utime(path + ".json", (number, number))
    for name in "bcd":
        (tmp_path / f"task-{name}").rmdir()
    cache.bytes_max = 250_000
    assert cache.evict() == ["b", "c"]
    assert cache.noted("a")
    assert cache.noted("d")
    assert not os.path.exists(cache.path("b"))


def test_what_could_not_be_made_is_not_there_and_is_made_by_the_next(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path / "cache"), 1 << 30)

    def fail(draft: str) -> None:
        Path(draft).mkdir()
        (Path(draft) / "half").touch()
        raise ValueError("no")

    with pytest.raises(ValueError):
        cache.get("a", str(tmp_path), fail)
    assert cache.noted("a") is None
    assert not os.path.exists(cache.path("a") + ".new")
    path, noted = cache.get("a", str(tmp_path), lambda draft: Path(draft).mkdir() or {"kind": "b"})
    assert os.path.isdir(path)
    assert noted["kind"] == "b"


def refusal(path: Path) -> tuple[str, str]:
    with pytest.raises(NotHere) as raised:
        check_workdir(str(path))
    return raised.value.cause, str(raised.value)


def test_a_directory_in_which_nobody_could_run_is_the_jobs_own_trouble(tmp_path: Path) -> None:
    check_workdir(str(tmp_path))
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "none") == ("workdir_missing", f"there is no {tmp_path}/none")
    assert refusal(tmp_path / "file" / "x") == ("workdir_missing", f"there is no {tmp_path}/file/x")
    assert refusal(tmp_path / "file") == ("workdir_missing", f"{tmp_path}/file is not a directory")


def test_a_directory_that_the_agent_may_not_enter_is_told_as_that(tmp_path: Path) -> None:
    (tmp_path / "shut/inner").mkdir(parents=True)
    (tmp_path / "shut").chmod(0o600)
    tmp_path.chmod(0o755)
    try:
        with as_somebody_else():
            inner, outer = refusal(tmp_path / "shut/inner"), refusal(tmp_path / "shut")
    finally:
        (tmp_path / "shut").chmod(0o700)
    assert inner == ("permission_denied", f"the agent's user may not enter {tmp_path}/shut/inner")
    assert outer == ("permission_denied", f"the agent's user may not enter {tmp_path}/shut")


@contextmanager
def as_somebody_else() -> Iterator[None]:
    """Whoever is root may enter everything: for a moment this process is another user, also for access()."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
