from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from headway_agent.collect.printed_metrics import LINE_BYTES_MAX, NAMES_MAX, PrintedMetrics

PRINTED = Path(__file__).with_name("printed")


def read(text: str | bytes) -> dict[str, list[tuple[int | None, float]]]:
    series: dict[str, list[tuple[int | None, float]]] = {}
    data = text.encode() if isinstance(text, str) else text
    for name, value, step, _, _ in PrintedMetrics().feed(data, 1.0, final=True):
        series.setdefault(name, []).append((step, value))
    return series


REAL = {
    "keras_bar": {"accuracy": (3, 1, 3), "loss": (3, 1, 3), "val_accuracy": (3, 1, 3), "val_loss": (3, 1, 3)},
    "keras_lines": {"accuracy": (3, 1, 3), "loss": (3, 1, 3), "val_accuracy": (3, 1, 3), "val_loss": (3, 1, 3)},
    "xgboost": {"train-rmse": (8, 0, 7), "eval-rmse": (8, 0, 7)},
    "lightgbm": {
        "training/l2": (4, 5, 20), "training/l1": (4, 5, 20), "valid_1/l2": (4, 5, 20), "valid_1/l1": (4, 5, 20),
    },
    "lightning": {"train_loss": (1, 2, 2), "val_loss": (2, 2, 2)},
    "tqdm": {"loss": (15, 0, 20), "acc": (12, 0, 110)},
    "huggingface": {
        **dict.fromkeys(("loss", "grad_norm", "learning_rate"), (12, None, None)),
        **dict.fromkeys(("eval_loss", "eval_runtime"), (3, None, None)),
        **dict.fromkeys(("eval_samples_per_second", "eval_steps_per_second"), (3, None, None)),
        "train_loss": (1, None, None),
    },
}  # fmt: skip


@pytest.mark.parametrize("framework", REAL)
def test_what_real_trainings_print_is_read(framework):
    series = read((PRINTED / f"{framework}.txt").read_bytes())
    assert {name: (len(all), all[0][0], all[-1][0]) for name, all in series.items()} == REAL[framework]


LINES = {
    "loss=0.5": {"loss": [(None, 0.5)]},
    "loss = 5e-1, acc = .75": {"loss": [(None, 0.5)], "acc": [(None, 0.75)]},
    "step 12 loss: 0.5": {"loss": [(12, 0.5)]},
    "2026-11-18 13:44:44,123 - INFO - train - step=12 loss=0.5": {"loss": [(12, 0.5)]},
    "Epoch 3, loss: 0.5.": {"loss": [(3, 0.5)]},
    "Epoch 3, step 20/100: loss 0.5": {"loss": [(320, 0.5)]},
    "Train Epoch: 1 [640/60000 (1%)]\tLoss: 0.5": {"Loss": [(60640, 0.5)]},
    "Epoch: [2][ 10/500]\tTime  0.5 ( 1.2)\tLoss 6.9e+00 (7.0e+00)\tAcc@1  12.5 (  0.10)": {
        "Loss": [(1010, 6.9)], "Acc@1": [(1010, 12.5)],
    },
    "iter 10: loss 4.2500, time 123.45ms, mfu 3.25%": {"loss": [(10, 4.25)], "mfu": [(10, 3.25)]},
    "step 0: train loss 4.5, val loss 4.25": {"train_loss": [(0, 4.5)], "val_loss": [(0, 4.25)]},
    "Test set: Average loss: 0.5": {"average_loss": [(None, 0.5)]},
    '{"step": 3, "loss": 0.5, "lr": 1e-3}': {"loss": [(3, 0.5)], "lr": [(3, 0.001)]},
    '{"train": {"loss": 0.5}, "step": 4}': {"train/loss": [(4, 0.5)]},
    "{'loss': '0.5', 'learning_rate': '1e-3', 'epoch': '0.25'}": {
        "loss": [(None, 0.5)], "learning_rate": [(None, 0.001)],
    },
    "{'loss': tensor(0.5), 'epoch': 2}": {"loss": [(2, 0.5)]},
    "INFO {'loss': 0.5, 'step': 7}": {"loss": [(7, 0.5)]},
    "loss=-inf": {"loss": [(None, -math.inf)]},
    "0:\tlearn: 0.69\ttest: 0.68\ttotal: 52ms\tremaining: 52s": {},
    "[0]\tcv_agg's binary_logloss: 0.5 + 0.01": {"cv_agg/binary_logloss": [(0, 0.5)]},
    "\x1b[32mval_loss\x1b[0m: \x1b[1m0.5\x1b[0m": {"val_loss": [(None, 0.5)]},
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_read_as_people_write_it(line):
    assert read(line + "\n") == LINES[line]


def test_what_is_no_number_counts_too():
    assert math.isnan(read("step=1 loss=nan\n")["loss"][0][1])


NOISE = """\
listening on port: 8080
pid=4411 seed=42 rank: 0 world_size=8
started at 13:44:44, eta: 00:12:33, elapsed=3.5s
connecting to 10.0.0.1:8080 with version=2.13.0
  File "train.py", line 12, in <module>
batch_size: 32, num_workers=4, hidden=256
loading shard: 3/17
downloaded: 12.5MB
see https://example.org/a?x=1
ratio 16:9, id=ab12, key=1f
Accuracy: high
loss of 3 files
loss: 3/17
"""


def test_noise_is_kept_out():
    assert read(NOISE) == {}


def test_an_unknown_name_counts_when_it_came_three_times_with_different_values():
    assert read("beauty=1\nbeauty=2\n") == {}
    assert read("step 1 beauty=1\nstep 2 beauty=2\nstep 3 beauty=3\n")["beauty"] == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert read("buffers=4\n" * 10) == {}
    assert read("pid=4\npid=5\npid=6\npid=7\n") == {}


def test_a_value_without_a_step_belongs_to_the_step_that_was_told_before():
    assert read("Epoch 2/3\nloss: 0.5\nval_loss: 0.25\nEpoch 3/3\nloss: 0.125\n") == {
        "loss": [(2, 0.5), (3, 0.125)],
        "val_loss": [(2, 0.25)],
    }


def test_a_name_that_goes_by_steps_does_not_go_by_epochs_after():
    text = "step 10 loss=0.5\nEpoch 1\nstep 20 loss=0.25\nval_loss=0.75\nEpoch 2\nval_loss=0.5\n"
    assert read(text)["val_loss"] == [(20, 0.75), (20, 0.5)]


def test_a_bar_that_begins_again_goes_on_counting():
    bars = "".join(
        f"\r{n:3}%|#| {n}/4 [00:01<00:01, 3.0it/s, loss={9 - n - 4 * lap}]" for lap in (0, 1) for n in (2, 4)
    )
    assert read(bars) == {"loss": [(2, 7.0), (4, 5.0), (6, 3.0), (8, 1.0)]}


def test_a_bar_that_is_drawn_again_for_the_same_step_counts_once():
    bars = "".join(f"\r 50%|#| 2/4 [00:01<00:01, 3.0it/s, loss={loss}]" for loss in (0.5, 0.25, 0.125))
    assert read(bars) == {"loss": [(2, 0.125)]}


@pytest.mark.parametrize("framework", REAL)
def test_wherever_output_is_cut_the_same_is_read(framework):
    data = (PRINTED / f"{framework}.txt").read_bytes()
    whole = PrintedMetrics().feed(data, 1.0, final=True)
    chance = random.Random(5)
    for _ in range(20):
        reader, points, end = PrintedMetrics(), [], 0
        while end < len(data):
            end = min(len(data), end + chance.randrange(1, 900))
            points += reader.feed(data[reader.offset : end], 1.0, end == len(data))
        assert points == whole


def test_who_reads_it_all_again_takes_only_what_is_behind_the_last_point():
    data = (PRINTED / "huggingface.txt").read_bytes()
    whole = PrintedMetrics().feed(data, 1.0, final=True)
    for number, point in enumerate(whole):
        again = [each for each in PrintedMetrics().feed(data, 1.0, final=True) if each[4] > point[4]]
        assert again == [each for each in whole[number:] if each[4] > point[4]]


def test_names_without_end_are_limited():
    reader = PrintedMetrics()
    reader.feed(b"".join(b"loss_%d=1\n" % number for number in range(NAMES_MAX + 50)), 1.0)
    assert reader.names_refused == 50


def test_a_line_without_end_is_given_up():
    reader = PrintedMetrics()
    assert not reader.feed(b"loss=1 " * LINE_BYTES_MAX, 1.0)
    assert reader.offset == 7 * LINE_BYTES_MAX
