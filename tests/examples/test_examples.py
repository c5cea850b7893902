"""The examples on a living Headway: preempted and resumed, their model is that of an undisturbed job, bit for bit."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.examples.conftest import EXAMPLES, made
from tests.living import Living
from tests.waiting import wait_until

pytestmark = pytest.mark.real
INSTALL_AND_TRAIN_S = 900
SEED = "7"


def submit(living: Living, name: str, *words: str) -> str:
    """The example runs from a bundle, with an interpreter that has no Headway installed."""
    place = living.place / name
    if not place.exists():
        place.mkdir()
        (place / "train.py").write_text((EXAMPLES / name / "train.py").read_text())
    living.env["VIRTUAL_ENV"] = str(made(name).parent.parent)
    flags = ["--bundle", "--workdir", str(place), "--outputs", "output", "--seed", SEED]
    return living.submit(*flags, "train.py", *words)


def model(living: Living, job: str, path: str) -> str:
    """The hash of the final model, as its artifact was fetched."""
    target = living.place / f"{job}.model"
    living.ok("cp", f"{job}:{path}", str(target))
    return hashlib.sha256(target.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("name", "result", "words"),
    [
        ("digits", "output/weights.npy", ["--steps", "800", "--pause", "0.015"]),
        ("torch_digits", "output/result.json", ["--steps", "600", "--pause", "0.02"]),
    ],
)
def test_a_preempted_example_ends_with_the_same_model(living: Living, name: str, result: str, words: list[str]) -> None:
    job = submit(living, name, *words)
    preempted = 0
    for wanted in (1, 200):
        wait_until(
            lambda job=job, wanted=wanted: reached(living, job, wanted),  # type: ignore[misc]
            limit_s=INSTALL_AND_TRAIN_S,
            what=f"step {wanted} of {name}",
        )
        preempted += living.run("preempt", job).returncode == 0
    assert preempted >= 1
    disturbed = living.wait(job)
    assert disturbed["state"] == "succeeded", living.log(job)
    assert disturbed["attempt"] == preempted + 1
    assert "resume" in living.ok("logs", job) or name != "digits"
    account = disturbed["account"]
    assert account["total"]["steps"] == 0, account

    calm = submit(living, name, *words[:-2])
    assert living.wait(calm)["state"] == "succeeded", living.log(calm)
    assert model(living, job, result) == model(living, calm, result)


def reached(living: Living, job: str, step: int) -> bool:
    """Whether the attempt under way has been seen at this step, or the job is over."""
    detail = living.job(job)
    if detail["state"] in ("succeeded", "failed", "cancelled"):
        return True
    running = detail["state"] == "running" and detail["attempts"][-1]
    return bool(running) and int(running.get("seen_step") or 0) >= step


@pytest.mark.parametrize("name", ["digits", "torch_digits"])
def test_an_example_runs_without_headway(name: str, tmp_path: Path) -> None:
    """Where `import headway` finds the package but no job is around, all of it does nothing."""
    import subprocess

    sources = Path(EXAMPLES).parent / "src"
    done = subprocess.run(
        [str(made(name)), str(EXAMPLES / name / "train.py"), "--steps", "60"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(sources)},
        capture_output=True,
        text=True,
        timeout=INSTALL_AND_TRAIN_S,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output/result.json").exists()
