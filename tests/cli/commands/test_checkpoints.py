"""The commands around progress: what they ask of the server and what they say."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.cli.frame.output import Output
from headway.cli.screen import jobs as job_pages
from tests.client.fake_server import FakeServer


def checkpoint(step: int, **more: Any) -> dict[str, Any]:
    made = {"step": step, "attempt": 1, "how": "declared", "bytes": 2048, "files": 2, "at": time.time() - 60}
    return {**made, "metrics": {}, "complete": True, "pinned": False, "state": "kept", "resumable": True, **more}


@pytest.fixture
def job(fake: FakeServer) -> str:
    fake.add("j1", name="mnist")
    fake.checkpoints["j1"] = [
        checkpoint(100),
        checkpoint(200, pinned=True, metrics={"val_loss": 0.25}),
        checkpoint(300, resumable=False, state="bad"),
        checkpoint(400, complete=False),
    ]
    return "j1"


def test_checkpoints_for_people(job: str, headway: Callable, golden: Callable) -> None:
    said = headway("checkpoints", job)
    assert (said.code, said.err) == (0, "")
    golden("checkpoints.txt", said.out)
    assert headway("checkpoints", job, "-q").out.split() == ["400", "300", "200", "100"]


def test_checkpoints_are_named_by_what_their_step_counts(fake: FakeServer, headway: Callable) -> None:
    fake.add("j1", name="mnist")
    fake.checkpoints["j1"] = [checkpoint(6, unit="epoch"), checkpoint(3, unit="save"), checkpoint(2, unit="step")]
    shown = [line.split("  ")[0] for line in headway("checkpoints", "j1").out.splitlines()]
    assert shown == ["STEP", "epoch 6", "save 3", "2"]
    assert headway("checkpoints", "j1", "-q").out.split() == ["6", "3", "2"]


def test_describe_tells_where_a_job_saves_and_from_where_it_went_on(fake: FakeServer, headway: Callable) -> None:
    found = "outputs/checkpoint-*, found as Hugging Face Trainer"
    loss, on = {"steps": 2, "seconds": 90.0, "money": None}, [{"node": "local-1"}]
    fake.add(
        "j1",
        name="mnist",
        attempt=2,
        checkpoint=checkpoint(6, unit="epoch", found=found),
        attempts=[
            {"number": 1, "tasks": on, "sentence": "attempt 1 lost its node", "resumed_step": None},
            {"number": 2, "tasks": on, "resumed_step": 6, "resumed_unit": "epoch"},
        ],
        account={"unit": "epoch", "total": loss, "by_cause": {"node_lost": loss}},
    )
    shown = headway("describe", "j1").out
    assert "checkpoint:  epoch 6, 2.0 KiB" in shown
    assert f"keeps:       {found}\n" in shown
    assert "lost:        2 epochs, 1 m 30 s (node_lost: 2 epochs, 1 m 30 s)\n" in shown
    rows = [line.split("  ") for line in shown.splitlines()[-3:]]
    assert [[cell.strip() for cell in row if cell][3] for row in rows] == ["FROM", "-", "epoch 6"]


def test_a_checkpoint_is_pinned_and_unpinned(job: str, fake: FakeServer, headway: Callable) -> None:
    assert headway("checkpoints", job, "--pin", "100", "--unpin", "200", "--json").code == 0
    assert fake.asked[:2] == ["POST /jobs/j1/checkpoints/100/pin", "POST /jobs/j1/checkpoints/200/pin"]
    assert fake.bodies[:2] == [{"pinned": True}, {"pinned": False}]
    assert headway("checkpoints", job, "--pin", "x").code == 2


@pytest.mark.parametrize(("which", "step"), [("j1@1200", 1200), ("j1", None), ("j1@last", None)])
def test_fork_reads_the_step_and_the_parameters(
    job: str, fake: FakeServer, headway: Callable, which: str, step: int | None
) -> None:
    said = headway("fork", which, "--param", "lr=3e-5", "--param", "name=a b", "--param", "amp=true", "-d", "-q")
    assert (said.code, said.out) == (0, "j1\n")
    sent = fake.bodies[-1]
    assert sent.pop("key")
    assert sent == {"step": step, "set": {"lr": 3e-5, "name": "a b", "amp": True}}
    assert headway("fork", "j1@x", "-d").code == 2
    assert headway("fork", "j1@best", "-d").code == 2, "best by which metric?"


def test_rerun_and_fork_say_what_is_different(job: str, fake: FakeServer, headway: Callable, place: Path) -> None:
    fake.jobs["j1"]["spec"]["outputs"] = ["output"]
    words = ["--gpus", "2", "--name", "n", "--env", "A=1", "--param", "lr=1", "--set", "retry.max=3"]
    words += ["--set", "max_duration=", "--outputs", "more", "--workdir", ".", "--pool", "-", "--mem", "-"]
    words += ["--set", "env.V=1.10", "--set", "command=[a, 0.10, true]"]
    for command in ("rerun", "fork"):
        assert headway(command, job, *words, "-d", "-q").code == 0
        assert fake.bodies[-1]["set"] == {"lr": 1}
        assert fake.bodies[-1]["changes"] == {
            "resources": {"gpus": 2, "memory": None}, "name": "n", "env": {"A": "1", "V": "1.10"}, "retry": {"max": 3},
            "max_duration": None, "outputs": ["output", "more"], "workdir": str(place), "pool": None,
            "command": ["a", "0.10", "true"],
        }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["--set", "lr=1"], '--set: "lr" is not a key of a job', "--param lr=1 sets a parameter"),
        (["--set", "retires=1"], "is not a key of a job", 'did you mean "retries"?'),
        (["--set", "retries"], "not of the form KEY=VALUE", ""),
        (["--array", "3"], 'unknown flag "--array"', ""),
        (["--workdir", "nowhere"], '"nowhere" does not exist', ""),
    ],
)
def test_a_change_that_cannot_be_is_refused_before_anything_is_sent(
    job: str, fake: FakeServer, headway: Callable, place: Path, words: list[str], message: str, hint: str
) -> None:
    said = headway("rerun", job, *words)
    assert said.code == 2
    assert message in said.err
    assert hint in said.err
    assert not any(asked.startswith("POST") for asked in fake.asked)


def test_rerun_says_what_it_cannot_repeat(job: str, fake: FakeServer, headway: Callable) -> None:
    said = headway("rerun", job, "-d")
    assert said.code == 0
    assert "ran in place" in said.err
    fake.jobs["j1"]["spec"]["bundle"] = "ab" * 32
    assert "ran in place" not in headway("rerun", job, "-d").err


def test_preempt_passes_the_grace_on(job: str, fake: FakeServer, headway: Callable) -> None:
    assert headway("preempt", job, "--grace", "2m").code == 0
    assert fake.bodies[-1] == {"grace_s": 120.0}


def test_diff_shows_what_differs(job: str, headway: Callable) -> None:
    assert headway("diff", job, job).out == "code: the same\nparams:\n  lr: 0.1 → 0.2\nresults:\n  exit_code: 0 → 1\n"


@pytest.fixture
def saved(job: str, fake: FakeServer) -> str:
    for each in fake.checkpoints[job]:
        each["paths"] = ["model.pt", "optim/state.pt"]
    fake.checkpoints[job][0]["metrics"] = {"val_loss": 0.5}
    fake.contents.update({"model.pt": b"weights", "optim/state.pt": b"momentum" * 1000})
    return job


def test_a_checkpoint_is_fetched_by_its_step_or_as_the_best_or_the_last(
    saved: str, fake: FakeServer, headway: Callable, place: Path
) -> None:
    said = headway("checkpoint", "get", "j1@100", "here")
    assert (said.code, said.out) == (0, "here\n")
    assert said.err == "headway: checkpoint of j1 at step 100: 2 files, 7.8 KiB\n"
    assert (place / "here/optim/state.pt").read_bytes() == b"momentum" * 1000
    fake.asked.clear()
    assert headway("checkpoint", "get", "j1@100", "here").code == 0
    assert not any(asked.endswith("/raw") for asked in fake.asked), "what is here and right was fetched again"
    assert headway("checkpoint", "get", "j1@last").out == "mnist-step-200\n"  # 300 is bad, 400 is not complete.
    assert headway("checkpoint", "get", "j1@best", "--metric", "val_loss").out == "mnist-step-200\n"
    said = headway("checkpoint", "get", "j1@best", "--metric", "val_loss", "--mode", "max", "--json")
    assert said.json["fetched"]["step"] == 100
    fake.jobs["j1"]["spec"]["checkpoint"] = {"keep_best": {"metric": "val_loss", "mode": "max"}}
    assert headway("checkpoint", "get", "j1@best").out == "mnist-step-100\n"


def test_a_fetched_checkpoint_leaves_files_of_mine_alone(
    saved: str, fake: FakeServer, headway: Callable, place: Path
) -> None:
    (place / "model.pt").write_text("mine")
    refused = headway("checkpoint", "get", "j1@100", ".")
    assert (refused.code, (place / "model.pt").read_text()) == (2, "mine")
    assert "./model.pt would be overwritten; nothing was fetched" in refused.err
    assert headway("checkpoint", "get", "j1@100", ".", "--force").code == 0
    assert (place / "model.pt").read_bytes() == b"weights"


@pytest.mark.parametrize(
    ("ref", "code", "message", "hint"),
    [
        ("j1@", 2, "not of the form JOB@STEP", "mnist@1200"),
        ("@100", 2, "not of the form JOB@STEP", ""),
        ("j1@newest", 2, "not the number of a step", "j1@last"),
        ("j1@-5", 2, "not the number of a step", ""),
        ("j1@150", 5, "no complete checkpoint at step 150", "100"),
        ("j1@400", 5, "no complete checkpoint at step 400", ""),
        ("j1@best", 2, "by which metric", "--metric val_loss"),
        ("nope@1", 5, "nope", ""),
    ],
)
def test_a_checkpoint_that_is_not_there_is_named(
    saved: str, headway: Callable, place: Path, ref: str, code: int, message: str, hint: str
) -> None:
    said = headway("checkpoint", "get", ref)
    assert said.code == code
    assert message in said.err
    assert hint in said.err


def test_checkpoints_are_pinned_by_the_same_words(saved: str, fake: FakeServer, headway: Callable) -> None:
    said = headway("checkpoint", "pin", "j1@100", "j1@last", "-q")
    assert (said.code, said.out) == (0, "j1@100\nj1@200\n")
    assert [body for body in fake.bodies if body] == [{"pinned": True}, {"pinned": True}]
    assert headway("checkpoint", "unpin", "j1@100").out == "j1@100 is kept as long as the retention says\n"
    assert headway("checkpoint", "pin", "j1").code == 2


def test_the_words_of_before_still_list(saved: str, headway: Callable) -> None:
    assert headway("checkpoints", "j1", "--pin", "100").out == headway("checkpoint", "ls", "j1").out
    assert headway("artifacts", "ls", "j1").code == 0


def test_artifacts_are_chosen_by_patterns(job: str, fake: FakeServer, headway: Callable, place: Path) -> None:
    for path in ("a.pt", "output/b.pt", "output/deep/c.pt", "output/d.csv"):
        made = {"attempt": 1, "task": 0, "path": path, "size": 1, "sha256": "", "at": time.time()}
        fake.artifacts.setdefault("j1", []).append(made)
        fake.contents[path] = b"x"

    def listed(*words: str) -> list[str]:
        return list(headway("artifact", "ls", "j1", "-q", *words).out.split())

    assert listed("*.pt") == ["a.pt", "output/b.pt", "output/deep/c.pt"]
    assert listed("output/*.pt") == ["output/b.pt"]
    assert listed("output/**/*.pt") == ["output/b.pt", "output/deep/c.pt"]
    assert listed("**/d.csv", "[ab].pt") == ["output/d.csv", "a.pt", "output/b.pt"]
    assert listed("output/?.csv") == ["output/d.csv"]
    assert headway("artifact", "get", "j1", "*.gz").code == 5
    assert headway("artifact", "get", "j1", "deep/*", "-C", "x").code == 5
    assert headway("artifact", "get", "j1", "output/deep/*", "-C", "x").out == "x/output/deep/c.pt\n"


def test_artifacts_are_listed_fetched_and_copied(job: str, fake: FakeServer, headway: Callable, place: Path) -> None:
    for path, content in (("output/model.pt", b"weights"), ("output/plots/a.png", b"png")):
        sha256 = hashlib.sha256(content).hexdigest()
        made = {"attempt": 1, "task": 0, "path": path, "size": len(content), "sha256": sha256, "at": time.time()}
        fake.artifacts.setdefault("j1", []).append(made)
        fake.contents[path] = content
    assert headway("artifacts", "ls", job, "-q").out.split() == ["output/model.pt", "output/plots/a.png"]
    assert "7 B" in headway("artifacts", "ls", job).out
    assert headway("artifacts", "get", job, "-C", "here").code == 0
    assert (place / "here/output/plots/a.png").read_bytes() == b"png"
    assert headway("cp", "j1:output/model.pt", "m.pt").out == "m.pt\n"
    assert (place / "m.pt").read_bytes() == b"weights"
    assert headway("cp", "j1:output/model.pt", ".").code == 0
    assert (place / "model.pt").exists()
    assert headway("cp", "j1:output/plots", ".").code == 0
    assert (place / "plots/a.png").exists()
    assert headway("cp", "j1:output/nope", ".").code == 5
    assert headway("cp", "j1", ".").code == 2


def test_a_file_of_mine_is_not_overwritten_unless_i_say_so(
    job: str, fake: FakeServer, headway: Callable, place: Path
) -> None:
    for path in ("a.txt", "b.txt"):
        sha256 = hashlib.sha256(b"theirs").hexdigest()
        made = {"attempt": 1, "task": 0, "path": path, "size": 6, "sha256": sha256, "at": time.time()}
        fake.artifacts.setdefault("j1", []).append(made)
        fake.contents[path] = b"theirs"
    (place / "b.txt").write_text("mine")
    refused = headway("artifacts", "get", job)
    assert (refused.code, (place / "b.txt").read_text()) == (2, "mine")
    assert "b.txt would be overwritten; nothing was fetched" in refused.err
    assert not (place / "a.txt").exists()
    assert headway("artifacts", "get", job, "--force").code == 0
    assert (place / "b.txt").read_text() == "theirs"
    assert headway("artifacts", "get", job).code == 0  # What is here and the same is in nobody's way.


def test_the_flags_become_words_of_the_job(fake: FakeServer, headway: Callable, place: Path) -> None:
    flags = ["--param", "lr=0.1", "--seed", "7", "--input", "data=x.csv", "--input", "web=https://h/x"]
    flags += ["--volume", "scratch=/mnt", "--outputs", "output/", "--checkpoint-keep", "5", "--notice-signal", "usr1"]
    flags += ["--stalled-after", "30m", "--pending-max", "2h"]
    flags += ["--max-retries", "4", "--max-losses", "7", "--max-losses-per-day", "30"]
    flags += ["--checkpoint-dir", "outputs/", "--checkpoint-dir", "runs", "--saved-by", "first"]
    shown = headway("run", "--dry-run", "--json", "--no-bundle", *flags, "train.py").json
    assert shown["params"] == {"lr": 0.1}
    assert shown["seed"] == 7
    assert shown["inputs"]["data"]["url"] == str(place / "x.csv")
    assert shown["inputs"]["web"]["url"] == "https://h/x"
    assert shown["volumes"] == {"scratch": "/mnt"}
    assert shown["outputs"] == ["output"]
    assert shown["checkpoint"]["keep_last"] == 5
    assert (shown["checkpoint"]["dir"], shown["checkpoint"]["saved_by"]) == (["outputs", "runs"], "first")
    assert shown["notice"]["signal"] == "SIGUSR1"
    assert (shown["retries"], shown["retry"]["platform_max"], shown["retry"]["platform_max_per_day"]) == (4, 7, 30)
    assert (shown["limits"]["stalled_after"], shown["limits"]["pending"]) == (1800.0, 7200.0)
    assert shown["workdir"] == str(place)


@pytest.mark.parametrize("flag", ["--input", "--volume"])
def test_a_name_without_a_place_is_not_the_current_directory(fake: FakeServer, headway: Callable, flag: str) -> None:
    said = headway("run", "--dry-run", flag, "data=", "train.py")
    assert said.code == 2
    assert f'{flag}: "data=" names no place' in said.err


def test_a_bundle_is_sent_and_shown_when_the_job_is_submitted(fake: FakeServer, headway: Callable, place: Path) -> None:
    said = headway("run", "-d", "--bundle", "train.py")
    assert said.code == 0, said
    (digest,) = fake.bundles
    assert f"headway: bundle {digest[:8]}… (1 file, 15 B); sent 1, 15 B\n" in said.err
    assert fake.jobs["job1"]["spec"]["bundle"] == digest
    assert "all of it is known" in headway("run", "-d", "--bundle", "train.py").err
    (place / "out").symlink_to("/etc")
    refused = headway("run", "-d", "--bundle", "train.py")
    assert refused.code == 2
    assert '"out" is a link that leaves the project' in refused.err


def test_the_account_of_lost_work_is_one_line() -> None:
    loss = {"steps": 12, "seconds": 90.0, "money": 0.5}
    account = {"total": loss, "by_cause": {"node_lost": loss, "preempted": {"steps": 0, "seconds": 0.0}}}
    assert job_pages.lost(account) == "12 steps, 1 m 30 s, 0.50 in money (node_lost: 12 steps, 1 m 30 s, 0.50 in money)"
    assert job_pages.lost({"total": {}, "by_cause": {"preempted": {}}}) == "nothing"
    assert job_pages.lost(None) == ""
    assert job_pages.checkpoints(Output(), [], 0.0) == ""
