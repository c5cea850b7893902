"""Deaths in the middle of a commit, and zombies: what is restored is whole, committed, and of the newest attempt."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from tests.living import Living
from tests.real.training import Training
from tests.waiting import wait_until

pytestmark = pytest.mark.real

MOMENTS_S = (0.0, 0.002, 0.005, 0.01, 0.02, 0.04)  # After the manifest has arrived: before, within, after its commit.
TWO_HOURS_S = 7200.0


def manifests(living: Living, job: str) -> set[Path]:
    return set((living.home / f"data/storage/jobs/{job}").glob("*/checkpoints/*.json"))


def a_new_manifest(training: Training, attempt: int) -> None:
    before = manifests(training.living, training.job)
    training.allow(max(training.words(attempt, "step") + training.words(attempt, "from")) + training.ahead)
    wait_until(lambda: manifests(training.living, training.job) - before, every_s=0.0005, what="a manifest")


def committed_keys(living: Living, job: str) -> dict[str, int]:
    """The manifests that the store says exist, with their steps."""
    store = sqlite3.connect(f"file:{living.home}/data/headway.db?mode=ro", uri=True)
    try:
        return dict(store.execute("select key, step from checkpoints where job = ?", [job]).fetchall())
    finally:
        store.close()


def whole(living: Living, key: str) -> dict[str, Any]:
    """A manifest; every part that it names has the hash that it should have."""
    storage = living.home / "data/storage"
    manifest: dict[str, Any] = json.loads((storage / key).read_text())
    for part in [part for file in manifest["files"] for part in file["parts"]]:
        content = (storage / part["key"]).read_bytes()[part["offset"] : part["offset"] + part["size"]]
        assert hashlib.sha256(content).hexdigest() == part["sha256"], part
    return manifest


def test_a_server_killed_inside_a_commit_leaves_no_half_checkpoint(living: Living) -> None:
    training = Training(living, steps=600).begin("--max-retries", "100")
    training.began(1)
    for attempt, moment_s in enumerate(MOMENTS_S, 1):
        a_new_manifest(training, attempt)
        give_up_at = time.monotonic() + moment_s
        while time.monotonic() < give_up_at:
            pass  # Finer than any sleep.
        living.kill(living.server)
        if attempt % 2:
            living.kill(living.agent, living.keeper)  # Nobody is left who remembers what was not committed.
        else:
            living.kill(living.keeper)
        living.ok("ps")  # Starts the server again.
        training.ended(attempt)
        living.run("retry", training.job)
        resumed = training.began(attempt + 1)
        committed = [step for number, step, _ in training.commits() if number <= attempt]
        assert resumed == max(committed, default=0), "not the newest that was committed"
        for key, step in committed_keys(living, training.job).items():
            assert whole(living, key)["step"] == step
    training.finished_like_an_undisturbed_one()


def test_a_zombie_that_wakes_late_cannot_write(living: Living) -> None:
    living.env = {
        "HEADWAY_LOCAL_NODES": "2",
        "HEADWAY_LOCAL_LEASE_S": "30",  # It must not run out under a busy machine before the node is stopped.
        "HEADWAY_LEASE_MARGIN_S": "0.5",
        "HEADWAY_TICK_EVERY_S": "0.2",
        "HEADWAY_SILENT_AFTER_S": "2",
    }
    training = Training(living, steps=700, pace_s=0.02).begin("--max-retries", "100", "--grace", "1s")
    training.began(1)
    wait_until(lambda: training.checkpoints(), what="a checkpoint")
    node = training.directory(1).parents[1]
    zombies = [json.loads((node / name).read_text())["pid"] for name in ("agent.pid", "keeper.pid")]
    rank = training.pid()
    agent, keeper = zombies
    living.kill(agent, keeper, rank, sign=signal.SIGSTOP)
    try:
        resumed = training.began(2)
        old = manifests(living, training.job)
        saved = len(training.words(1, "saved"))
        training.allow(training.steps)
        # The rank wakes first and goes on training: the keeper, which would end it, sleeps on.
        os.kill(rank, signal.SIGCONT)
        wait_until(lambda: len(training.words(1, "saved")) > saved + 2, what="what the zombie saves")
        os.kill(agent, signal.SIGCONT)
        wait_until(lambda: len(training.words(1, "saved")) > saved + 5, what="what the zombie saves beside its agent")
    finally:
        for pid in (rank, agent, keeper):
            os.kill(pid, signal.SIGCONT) if Path(f"/proc/{pid}").exists() else None
    ended = training.finished_like_an_undisturbed_one()
    # A machine that is too busy for its agents may lose the second one too; what counts is where that began.
    assert ended["attempt"] >= 2
    assert ended["attempts"][1]["resumed_step"] == resumed
    late = [each for each in training.checkpoints() if each["attempt"] == 1 and each["step"] > resumed]
    assert late == [], "the zombie's checkpoint was committed"
    strays = {path for path in manifests(living, training.job) - old if path.parts[-3] == "1"}
    collected(living, training, strays)


def collected(living: Living, training: Training, strays: set[Path]) -> None:
    """What the zombie wrote straight into the folder goes when it is old; what is committed stays."""
    attempt = living.home / f"data/storage/jobs/{training.job}/1"
    for path in attempt.rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - TWO_HOURS_S,) * 2)
    living.kill(living.server)
    living.env["HEADWAY_HOUSEKEEPING_EVERY_S"] = "0.2"
    living.ok("ps")
    named = set(committed_keys(living, training.job))
    parts = {part["key"] for key in named for file in whole(living, key)["files"] for part in file["parts"]}
    storage = living.home / "data/storage"

    def unnamed() -> set[str]:
        kept = {str(path.relative_to(storage)) for path in attempt.rglob("*") if path.is_file()}
        return {key for key in kept if "/parts/" in key or "/checkpoints/" in key} - named - parts

    wait_until(lambda: not unnamed(), what="the collection of what the zombie left")
    assert not [path for path in strays if path.exists()]
    for key in named:
        whole(living, key)
