"""A loop that keeps its place: cut anywhere, it goes on with the same batches and the same chance."""

from __future__ import annotations

import json
import pickle
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headway.training import chance, files, loaders, progress, ranks
from headway.training.accelerate import Progress as Accelerated
from headway.training.loops import STOPPED, Loop
from headway.training.pytorch import Progress

EPOCHS, BATCHES = 3, 5


@pytest.fixture(autouse=True)
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "checkpoints").mkdir()
    monkeypatch.setenv("HEADWAY_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("HEADWAY_SDK_DIR", str(tmp_path / "sdk"))
    monkeypatch.setenv("HEADWAY_METRICS_FILE", str(tmp_path / "sdk/rank0.logged"))
    monkeypatch.setenv("HEADWAY_NOTICE_FILE", str(tmp_path / "notice"))
    monkeypatch.setattr(progress, "_places", None)
    monkeypatch.setattr(progress, "_signalled", [])
    monkeypatch.setattr(progress, "_listening", True)
    return tmp_path


class Loader:
    """Shuffles, and puts noise on each batch as it is read; `ahead` batches are read before they are asked for."""

    def __init__(self, ahead: int = 0) -> None:
        self.ahead = ahead
        self.epoch = -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[tuple[int, int, float]]:
        order, read = random.sample(range(BATCHES), BATCHES), []
        for number in order:
            read.append((self.epoch, number, random.random()))
            if len(read) > self.ahead:
                yield read.pop(0)
        yield from read


class Weights(Loop):
    ending = ".pkl"
    value = 0.0

    def _write(self, step: int, position: dict[str, Any], everyone: list[Any]) -> None:
        content = pickle.dumps((self.value, position, everyone))
        files.save(self.folder, step, self.ending, lambda path: Path(path).write_bytes(content))

    def _read(self, path: str) -> tuple[dict[str, Any], list[Any]]:
        self.value, position, everyone = pickle.loads(Path(path).read_bytes())
        return position, everyone


def train(loader: Loader, notice: Path | None = None, at: int = -1, **more: Any) -> tuple[float, list[Any]]:
    """The weights at the end, and the batches that were seen. A notice comes in the middle of the step `at`."""
    random.seed(1)
    loop, seen = Weights(**more), []
    for _ in loop.epochs(EPOCHS):
        for batch in loop.batches(loader):
            if notice is not None and loop.done == at:
                notice.write_text(json.dumps({"cause": "preempted", "seconds_left": 30.0}))
            seen.append(batch)
            loop.value = loop.value * 0.9 + batch[2] + random.random()
        random.random()
    return loop.value, seen


@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("at", range(EPOCHS * BATCHES))
def test_cut_anywhere_it_ends_as_if_it_had_not_been(job: Path, at: int, ahead: int) -> None:
    notice = job / "notice"
    undisturbed = train(Loader(ahead), directory=str(job / "elsewhere"))
    with pytest.raises(SystemExit) as end:
        train(Loader(ahead), notice, at)
    assert end.value.code == STOPPED
    notice.unlink()
    value, seen = train(Loader(ahead))
    assert value == undisturbed[0]
    assert seen == undisturbed[1][at + 1 :]


def test_cut_twice_in_one_epoch_it_still_knows_how_the_epoch_began(job: Path) -> None:
    undisturbed = train(Loader(1), directory=str(job / "elsewhere"))
    for at in (6, 7):
        with pytest.raises(SystemExit):
            train(Loader(1), job / "notice", at)
        (job / "notice").unlink()
    assert train(Loader(1))[0] == undisturbed[0]


def test_it_stops_only_when_gathered_gradients_are_used_up(job: Path) -> None:
    (job / "notice").write_text("{}")
    loop, seen = Weights(), 0
    with pytest.raises(SystemExit):
        for _ in loop.batches(Loader(), accumulate=3):
            seen += 1
    assert (seen, loop.done) == (3, 3)
    (job / "notice").unlink()
    (job / "notice").write_text("{}")
    with pytest.raises(SystemExit):  # The last two of the epoch are used up with it.
        for _ in Weights().batches(Loader(), accumulate=3):
            seen += 1
    assert seen == 5


def test_ranks_that_begin_from_different_steps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "gathered", lambda mine: [mine, 30])
    with pytest.raises(RuntimeError, match=r"different steps: \[0, 30\]"):
        Weights().restore()


def test_with_another_number_of_ranks_chance_begins_anew_and_it_is_said(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        train(Loader(), job / "notice", 6)
    monkeypatch.setattr(ranks, "count", lambda: 2)
    assert Weights().restore() == 7
    assert "the checkpoint is of 1 ranks, and there are 2" in capsys.readouterr().err


def test_a_checkpoint_is_told_when_it_has_its_name(job: Path) -> None:
    with pytest.raises(SystemExit):
        train(Loader(), job / "notice", 6, save_every=3)
    told = [json.loads(line) for line in (job / "sdk/declared.jsonl").read_text().splitlines()]
    assert [(each["step"], each["path"]) for each in told] == [(step, f"step-{step:09d}.pkl") for step in (3, 6, 7)]
    assert sorted(each.name for each in (job / "checkpoints").iterdir()) == ["step-000000006.pkl", "step-000000007.pkl"]


def test_samplers_inside_samplers_are_told_of_the_epoch_and_their_generators_kept() -> None:
    class Generator:
        state = 0

        def get_state(self) -> int:
            return self.state

        def set_state(self, state: int) -> None:
            self.state = state

    class Place:
        sampler = batch_sampler = generator = None
        epoch = -1

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

    inner, middle, outer = Place(), Place(), Place()
    outer.batch_sampler, middle.sampler, inner.generator = middle, inner, Generator()
    loaders.set_epoch(outer, 4)
    assert [each.epoch for each in (outer, middle, inner)] == [4, 4, 4]
    taken = chance.take(outer)
    inner.generator.state = 9
    chance.put(taken, outer)
    assert inner.generator.state == 0


def test_what_can_not_be_saved_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="model: has no state_dict"):
        Progress(model=object())

    named = SimpleNamespace(project_configuration=SimpleNamespace(automatic_checkpoint_naming=True))
    with pytest.raises(ValueError, match="automatic_checkpoint_naming"):
        Accelerated(named)


def test_a_generator_of_the_script_is_each_ranks_own() -> None:
    mine = random.Random(5)
    loop = Progress(mine=mine)
    own = loop._own()
    drawn = mine.random()
    loop._take_back(own)
    assert mine.random() == drawn


def test_workers_begin_deaf_to_the_signal_that_goes_to_all_processes_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    class Starting:
        def __iter__(self) -> Iterator[Any]:
            self.deaf_to = signal.pthread_sigmask(signal.SIG_BLOCK, [])
            return iter([])

    loader = Starting()
    list(loaders.opened(loader))
    assert signal.SIGTERM not in loader.deaf_to
    monkeypatch.setenv("HEADWAY_JOB_ID", "abc")
    list(loaders.opened(loader))
    assert signal.SIGTERM in loader.deaf_to
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
