"""Callbacks, with small stand-ins for their libraries; with the real ones: tests/trainings/with_callbacks.py."""

from __future__ import annotations

import importlib
import json
import random
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headway.training import progress


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "checkpoints").mkdir()
    monkeypatch.setenv("HEADWAY_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    monkeypatch.setattr(progress, "_places", None)
    monkeypatch.setattr(progress, "_metrics", (-1, 0, 0))
    monkeypatch.setattr(progress, "_sure_until", 0.0)
    monkeypatch.setenv("HEADWAY_SDK_DIR", str(tmp_path / "sdk"))
    monkeypatch.setenv("HEADWAY_METRICS_FILE", str(tmp_path / "sdk/rank0.logged"))
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


class Fetcher:
    """As Lightning's: makes its iterator anew for each epoch."""

    def __init__(self, loader: Any) -> None:
        self.combined_loader = loader

    def setup(self, loader: Any) -> None:
        self.combined_loader = loader

    def __iter__(self) -> Fetcher:
        self.iterator = iter(self.combined_loader)
        return self

    def __next__(self) -> int:
        return int(next(self.iterator))


class Shuffled:
    """A loader that is its own iterator, as Lightning's is: whoever asks it twice gets another order."""

    def __init__(self) -> None:
        self.flattened = [self]

    def __iter__(self) -> Shuffled:
        self.left = random.sample(range(8), 8)
        return self

    def __next__(self) -> int:
        return self.left.pop()


def a_trainer() -> SimpleNamespace:
    loop = SimpleNamespace(_data_fetcher=Fetcher(Shuffled()))
    trainer = SimpleNamespace(fit_loop=loop, should_stop=False, global_step=0, is_last_batch=False, current_epoch=0)
    trainer.accumulate_grad_batches, trainer.limit_val_batches = 1, 1.0
    trainer.save_checkpoint = lambda path: Path(path).write_text(str(trainer.global_step))
    return trainer


def test_lightning_saves_now_and_then_on_notice_and_resumes(job: Path, module: Callable) -> None:
    ours = module("lightning", lightning={}, lightning__pytorch={"Callback": object})
    assert ours.resume_path() is None
    trainer, callback = a_trainer(), ours.HeadwayCallback(save_every=2)
    callback.on_train_start(trainer, None)
    for trainer.global_step in (1, 2, 3):
        callback.on_train_batch_end(trainer, None, None, None, trainer.global_step - 1)
    assert (steps(job), trainer.should_stop) == ([2], False)
    tell(job)
    callback.on_train_batch_end(trainer, None, None, None, 2)
    callback.on_train_end(trainer, None)
    assert (steps(job), trainer.should_stop) == ([2, 3], True)
    assert Path(ours.resume_path()).read_text() == "3"


def test_lightning_goes_on_within_an_epoch_with_the_same_batches_and_chance(job: Path, module: Callable) -> None:
    ours = module("lightning", lightning={}, lightning__pytorch={"Callback": object})
    trainer, callback = a_trainer(), ours.HeadwayCallback()
    callback.on_train_start(trainer, None)
    fetcher = trainer.fit_loop._data_fetcher
    for number in range(3):
        next(fetcher)
        random.random()
        callback.on_train_batch_end(trainer, None, None, None, number)
    state, left, drawn = callback.state_dict(), list(fetcher.iterator.left), random.random()
    random.seed(99)
    trainer, callback = a_trainer(), ours.HeadwayCallback()
    callback.load_state_dict(state)
    callback.on_train_start(trainer, None)
    assert trainer.fit_loop._data_fetcher.iterator.left == left
    assert random.random() == drawn


def test_lightning_saves_a_whole_epoch_when_its_validation_is_over(job: Path, module: Callable) -> None:
    ours = module("lightning", lightning={}, lightning__pytorch={"Callback": object})
    trainer, callback = a_trainer(), ours.HeadwayCallback(save_every=4)
    callback.on_train_start(trainer, None)
    trainer.global_step, trainer.is_last_batch = 4, True
    callback.on_train_batch_end(trainer, None, None, None, 3)
    assert not (job / "sdk/declared.jsonl").exists()
    callback.on_train_epoch_end(trainer, None)
    assert (steps(job), trainer.should_stop) == ([4], False)
    tell(job)
    trainer.global_step = 8
    callback.on_train_batch_end(trainer, None, None, None, 3)  # Perhaps validation takes longer than the grace.
    assert (steps(job), trainer.should_stop) == ([4, 8], False)
    callback.on_train_epoch_end(trainer, None)
    assert (steps(job), trainer.should_stop) == ([4, 8, 8], True)


def a_keras() -> dict[str, Any]:
    class Callback:
        params = {"steps": 3, "epochs": 9}

    return {
        "callbacks": SimpleNamespace(Callback=Callback),
        "models": SimpleNamespace(load_model=lambda path: path),
        "backend": SimpleNamespace(backend=lambda: "torch"),
        "ops": SimpleNamespace(convert_to_numpy=lambda value: value),
    }


def a_model() -> SimpleNamespace:
    def save(path: str) -> None:
        Path(path).write_text(str(model.optimizer.iterations))

    def load(path: str) -> None:
        model.optimizer.iterations = int(Path(path).read_text())

    def train(*data: Any) -> dict[str, float]:
        model.optimizer.iterations += 1
        return {"loss": random.random()}

    model = SimpleNamespace(stop_training=False, save=save, load_weights=load, train_function=train, built=True)
    model.optimizer = SimpleNamespace(iterations=0, built=True)
    model.weights, model.variables, model.metrics_variables = [], [], []
    model.get_metrics_result = lambda: {"loss": 0.0}
    return model


def fit(callback: Any, model: Any, epochs: range, notice_at: int = -1, job: Path | None = None) -> list[int]:
    """As Keras does it: three batches an epoch, in an order that is drawn as the epoch begins. What was trained on."""
    trained: list[int] = []
    callback.model, model.stop_training = model, False
    callback.on_train_begin()
    for epoch in epochs:
        callback.on_epoch_begin(epoch)
        for number, batch in enumerate(random.sample(range(3), 3)):
            before = model.optimizer.iterations
            model.train_function(batch)
            trained += [batch] * (model.optimizer.iterations - before)
            if job is not None and model.optimizer.iterations == notice_at:
                tell(job)
            callback.on_train_batch_end(number, {})
            if model.stop_training:
                break
        random.random()  # Validation.
        callback.on_epoch_end(epoch)
        if model.stop_training:
            break
    return trained


@pytest.mark.parametrize("notice_at", range(1, 9))
def test_keras_goes_on_within_the_epoch_that_was_cut(job: Path, module: Callable, notice_at: int) -> None:
    ours = module("keras", keras=a_keras())
    random.seed(1)
    undisturbed = fit(ours.HeadwayCallback(directory=str(job / "elsewhere")), a_model(), range(3))
    random.seed(1)
    model, first = ours.resume(a_model)
    trained = fit(ours.HeadwayCallback(), model, range(first, 3), notice_at, job)
    assert len(trained) == notice_at
    (job / "notice").unlink()
    random.seed(2)
    model, first = ours.resume(a_model)
    trained += fit(ours.HeadwayCallback(), model, range(first, 3))
    assert trained == undisturbed
    assert steps(job)[-1] == 9


def test_keras_on_another_backend_begins_a_cut_epoch_anew(job: Path, module: Callable) -> None:
    ours = module("keras", keras=a_keras() | {"backend": SimpleNamespace(backend=lambda: "jax")})
    fit(ours.HeadwayCallback(), a_model(), range(3), 5, job)
    assert steps(job) == [3]
    assert ours.resume(a_model)[1] == 1


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
    assert json.loads((job / "sdk/rank0.logged").read_text())["m"]["loss"] == 0.5
    assert ours.resume_path() == str(job / "checkpoints/checkpoint-7")


def test_lightning_that_asks_for_callbacks_gets_one_that_notes_each_step(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headway.training import lightning_steps

    stand_in = types.ModuleType("lightning.pytorch")
    monkeypatch.setattr(stand_in, "Callback", object, raising=False)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", stand_in)
    monkeypatch.setattr(progress, "_note", None)
    (callback,) = lightning_steps.for_lightning()
    callback.on_train_batch_end(SimpleNamespace(global_step=12), None)
    assert int((job / "sdk/reached").read_text().split()[0]) == 12
    monkeypatch.setattr(progress, "_note", None)
    monkeypatch.delenv("HEADWAY_SDK_DIR")
    assert lightning_steps.for_lightning() == [], "outside a job"
