"""Callbacks: with small stand-ins for the libraries, and in real jobs with the real ones."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headway.training import progress
from tests.living import Living
from tests.real.torching import torch_python
from tests.waiting import wait_until

SCRIPT = Path(__file__).with_name("libraries.py")
SOURCES = Path(progress.__file__).resolve().parents[2]
LIBRARIES = ("lightning", "keras", "huggingface")


@pytest.fixture
def living(headway_home: Path, tmp_path: Path) -> Iterator[Living]:
    made = Living(headway_home, tmp_path)
    yield made
    made.end()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "checkpoints").mkdir()
    monkeypatch.setenv("HEADWAY_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    monkeypatch.setattr(progress, "_places", None)
    monkeypatch.setattr(progress, "_metrics", (-1, 0, 0))
    monkeypatch.setattr(progress, "_sure_until", 0.0)
    monkeypatch.setenv("HEADWAY_SDK_DIR", str(tmp_path / "sdk"))
    monkeypatch.setenv("HEADWAY_NOTICE_FILE", str(tmp_path / "notice"))
    monkeypatch.setattr(progress, "_listening", True)
    monkeypatch.setattr(progress, "_signalled", [])
    return tmp_path


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Our module for a library, with a stand-in for the library."""
    loaded = []

    def load(name: str, **stand_ins: Any) -> Any:
        for path, content in stand_ins.items():
            made = types.ModuleType(path.replace("__", "."))
            made.__dict__.update(content)
            monkeypatch.setitem(sys.modules, made.__name__, made)
        loaded.append(f"headway.training.{name}")
        sys.modules.pop(loaded[-1], None)
        return importlib.import_module(loaded[-1])

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


def tell(job: Path) -> None:
    (job / "notice").write_text(json.dumps({"cause": "preempted", "seconds_left": 30.0}))


def steps(job: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (job / "sdk/declared.jsonl").read_text().splitlines()]


def test_lightning_saves_now_and_then_on_notice_and_resumes(job: Path, module: Callable) -> None:
    ours = module("lightning", lightning={}, lightning__pytorch={"Callback": object})
    assert ours.resume_path() is None
    strategy = SimpleNamespace(reduce_boolean_decision=lambda stop, all: stop)
    trainer = SimpleNamespace(strategy=strategy, world_size=1, should_stop=False, global_step=0)
    trainer.save_checkpoint = lambda path: Path(path).write_text(str(trainer.global_step))
    callback = ours.HeadwayCallback(save_every=2)
    for trainer.global_step in (1, 2, 3):
        callback.on_train_batch_end(trainer)
    assert (steps(job), trainer.should_stop) == ([2], False)
    tell(job)
    callback.on_train_batch_end(trainer)
    callback.on_train_end(trainer)
    assert (steps(job), trainer.should_stop) == ([2, 3], True)
    assert Path(ours.resume_path()).read_text() == "3"


def test_keras_saves_epochs_and_begins_a_cut_one_anew(job: Path, module: Callable) -> None:
    class Callback:
        params = {"steps": 3}

    def save(path: str) -> None:
        Path(path).write_text("model")

    keras = {"callbacks": SimpleNamespace(Callback=Callback), "models": SimpleNamespace(load_model=lambda path: path)}
    ours = module("keras", keras=keras)
    assert ours.resume(lambda: "new") == ("new", 0)
    callback = ours.HeadwayCallback()
    callback.model = SimpleNamespace(stop_training=False, save=save, optimizer=SimpleNamespace(iterations=3))
    callback.on_epoch_end(0)
    assert ours.resume(lambda: "new")[1] == 1
    tell(job)
    callback.model.optimizer.iterations = 5
    callback.on_train_batch_end(1)
    assert callback.model.stop_training
    callback.on_epoch_end(1)
    model, epoch = ours.resume(lambda: "new")
    assert (os.path.basename(model), epoch) == ("model.keras", 1)
    assert steps(job) == [3, 5]


def test_the_trainer_saves_and_stops_on_notice(job: Path, module: Callable) -> None:
    ours = module("huggingface", transformers={"TrainerCallback": object})
    assert ours.resume_path() is None
    callback = ours.HeadwayCallback()
    control = SimpleNamespace(should_save=False, should_training_stop=False, should_evaluate=True)
    state = SimpleNamespace(global_step=7, is_world_process_zero=True)
    args = SimpleNamespace(output_dir=ours.directory())
    callback.on_step_end(args, state, control)
    assert not control.should_save
    tell(job)
    callback.on_step_end(args, state, control)
    assert (control.should_save, control.should_training_stop, control.should_evaluate) == (True, True, False)
    (job / "checkpoints/checkpoint-7").mkdir()
    (job / "checkpoints/checkpoint-7/w").write_text("")
    callback.on_save(args, state, control)
    callback.on_log(args, state, control, logs={"loss": 0.5, "text": "x"})
    assert steps(job) == [7]
    assert json.loads((job / "sdk/metrics.jsonl").read_text())["loss"] == 0.5
    assert ours.resume_path() == str(job / "checkpoints/checkpoint-7")


@pytest.mark.real
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_preempted_job_of_the_real_library_loses_no_step_and_ends_with_the_same_weights(
    library: str, living: Living
) -> None:
    python = torch_python()

    def result(output: str) -> str:
        return output.rpartition("RESULT ")[2].split()[0]

    job = living.submit("--no-bundle", "--", python, str(SCRIPT), library, str(living.place))
    undisturbed = subprocess.run(
        [python, str(SCRIPT), library, str(living.place / "calm")],
        cwd=living.place, env={**os.environ, "PYTHONPATH": str(SOURCES)}, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert undisturbed.returncode == 0, undisturbed.stderr
    wait_until(
        lambda: json.loads(living.ok("checkpoints", job, "--json"))["checkpoints"],
        limit_s=600,
        what=f"a checkpoint of {library}",
    )
    living.ok("preempt", job)
    ended = living.wait(job)
    assert ended["state"] == "succeeded", living.log(job)
    assert ended["attempt"] == 2
    assert ended["attempts"][1]["resumed_step"] > 0
    assert ended["account"]["total"]["steps"] == 0, ended["account"]
    assert result(living.log(job)) == result(undisturbed.stdout)
