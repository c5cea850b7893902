"""The newest step in what a job prints, however it prints it and wherever the output is cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_agent.output.printed_steps import PrintedSteps

LINES: dict[str, dict[str, int]] = {
    "step 24 loss 0.3": {"step": 24},
    "Step: 24/100": {"step": 24},
    "[step 24] loss 0.3": {"step": 24},
    "step=24": {"step": 24},
    "STEP 24": {"step": 24},
    "step: 24.0": {"step": 24},
    "step 1,200 | loss 3.0": {"step": 1200},
    "global_step 24": {"step": 24},
    "trainer/global_step: 24": {"step": 24},
    "global step 24": {"step": 24},
    "Training step 24": {"step": 24},
    "saved checkpoint at step 24.": {"step": 24},
    "2026-11-16 12:00:00,123 INFO train: step 24, 3 steps/s, lr 1e-4": {"step": 24},
    "iter 1200: loss 3.1, time 24.3ms": {"step": 1200},
    "Iteration 1200": {"step": 1200},
    "epoch 3/10": {"epoch": 3},
    "Epoch 3:": {"epoch": 3},
    "Epoch 3/10": {"epoch": 3},
    "Epoch [3/10]": {"epoch": 3},
    "Epoch #3": {"epoch": 3},
    "Epoch 00003: val_loss improved from 0.3 to 0.2, saving model to cp-0003.h5": {"epoch": 3},
    "Train Epoch: 3 [640/60000 (1%)]\tLoss: 2.3": {"epoch": 3},
    "Epoch: [3][ 20/100]\tTime 0.1": {"epoch": 3},
    "[Epoch 3 of 10]": {"epoch": 3},
    "{'loss': 0.5, 'epoch': 1.0, 'step': 500}": {"step": 500, "epoch": 1},
    '{"epoch": 3, "global_step": 500, "loss": 0.5}': {"step": 500, "epoch": 3},
    '{"step":500}': {"step": 500},
    "{'loss': 0.5, 'epoch': 0.5}": {},
    "{'loss': '0.5', 'epoch': '1.5'}": {},
    "{'loss': '0.5', 'epoch': '2'}": {"epoch": 2},
    "epoch 3 step 1200": {"step": 1200, "epoch": 3},
    "Epoch [1/5], Step [100/600], Loss: 0.3": {"epoch": 1},
    "Epoch 3:  24%|##4       | 24/100 [00:01<00:05, 50.0it/s, v_num=0, train_loss_step=0.3]": {"epoch": 3},
    "Steps:  24%|##4       | 24/100 [00:01<00:05, 5.0it/s, loss=0.3]": {"step": 24},
    "Training:  24%|##4       | 24/100 [00:01<00:05, 5.0s/it]": {"step": 24},
    " 24%|##4       | 24/100 [00:01<00:05, 5.0it/s]": {"bar of 100": 24},
    "Downloading:  24%|##4       | 24/100 [00:01<00:05, 5.0it/s]": {},
    "\x1b[32mstep\x1b[0m=\x1b[35m24\x1b[0m": {"step": 24},
    "[24/100] loss=0.3": {"step": 24},
    "[  24 / 100] train loss 0.3, acc 0.9": {"step": 24},
    "[24/100] Building CXX object loss.o": {},
    "[24/100] elapsed 3 s": {},
    "[GPU0] Epoch 3 | Batchsize: 32 | Steps: 64": {"epoch": 3},
}
NOISE = (
    "step size 10", "warmup steps: 500", "num_epochs = 10", "total steps 1000", "steps_per_epoch: 100",
    "steps_per_epoch 100", "save every 100 steps", "epoch time 3.2 s", "max_step: 1000", "total step 1000",
    "best epoch: 3", "save_step=100", "log_step 10", "per epoch 300", "step time 24 ms", "24ms/step - loss: 0.3",
    "step 24ms", "epoch 3.2s", "epoch: 3 minutes", "train_loss_step=0.3", "epoch: 1699999999", "misstep 3",
    "step: 1e-4", "stepwise 3", "epoch_3.pt", "saving to out/step-10/model.pt", "lr step: 0.1", "iterable 3",
    "resuming from epoch=05-val_loss=0.52.ckpt", "Restored epoch=3-step=45.ckpt",
    "every step 10", "warmup step 500", "Step 50%", "eval step 10", "val epoch 3",
)  # fmt: skip


def printed(*pieces: bytes) -> dict[str, int]:
    steps = PrintedSteps()
    for piece in pieces:
        steps.feed(piece)
    return steps.latest


@pytest.mark.parametrize("line", LINES)
def test_a_step_is_read_from_a_line(line: str) -> None:
    assert printed(f"hello\n{line}\nbye\n".encode()) == LINES[line]


@pytest.mark.parametrize("line", NOISE)
def test_a_number_beside_such_a_word_is_not_always_a_step(line: str) -> None:
    assert printed(f"{line}\n".encode()) == {}


@pytest.mark.parametrize("line", NOISE)
def test_noise_behind_a_step_does_not_hide_it(line: str) -> None:
    assert printed(f"step 7, epoch 2\n{line}\n".encode()) == {"step": 7, "epoch": 2}


def test_a_line_without_its_end_says_nothing_yet() -> None:
    assert printed(b"step 2") == {}
    assert printed(b"step 2", b"4") == {}
    assert printed(b"step 2", b"4\n") == {"step": 24}
    assert printed(b"a\rstep 3\rstep 4") == {"step": 3}


def test_the_newest_counts() -> None:
    assert printed(b"step 3\nstep 4\niter 5\n", b"nothing\n") == {"step": 5}
    assert printed(b"iter 5\nstep 4\n") == {"step": 4}


def test_steps_that_begin_again_in_each_epoch_are_none() -> None:
    assert printed(b"epoch 1\nstep 90\n", b"epoch 2\nstep 3\n", b"step 95\n") == {"epoch": 2}


def test_a_count_without_a_word_that_begins_again_is_none() -> None:
    assert printed(b"[1/100] loss 0.3\n", b"[90/100] loss 0.3\n") == {"step": 90}
    assert printed(b"[90/100] loss 0.3\n", b"[3/100] loss 0.3\n", b"[95/100] loss 0.2\n") == {}
    assert printed(b"epoch 1\n", b"[90/100] loss 0.3\n") == {"epoch": 1}


def test_a_bar_without_a_label_counts_as_long_as_it_never_begins_again() -> None:
    def bar(number: int, total: int) -> bytes:
        return b" 24%%|##4       | %d/%d [00:01<00:05, 5.0it/s]\r" % (number, total)

    assert printed(bar(3, 100), bar(9, 10), bar(1, 10), bar(4, 100), bar(9, 10)) == {"bar of 100": 4}
    assert printed(bar(90, 100), bar(3, 100), bar(95, 100)) == {}


def test_a_bar_counts_as_soon_as_it_is_drawn() -> None:
    assert printed(b"\r 24%|##4     | 24/100 [00:01<00:05, 5.0it/s]") == {"bar of 100": 24}
    assert printed(b"\r 24%|##4     | 24/100 [00:01<00:05, 5.0it") == {}
    assert printed(b"\r 24%|##4     | 24/100 [00:01<00:05, 2.1s/it, loss=0.3]") == {"bar of 100": 24}


def test_a_bar_that_counts_batches_of_an_epoch_is_none() -> None:
    assert printed(b"epoch 1\n", b"Training:  24%|##4    | 24/100 [00:01<00:05, 5.0it/s]\n") == {"epoch": 1}


def test_a_line_without_end_is_not_kept_whole() -> None:
    steps = PrintedSteps()
    for _ in range(100):
        steps.feed(b"x" * 10_000)
    steps.feed(b" step 3\n")
    assert steps.latest == {"step": 3}
    assert len(steps._rest) <= 4096


@given(st.lists(st.integers(1, 99), max_size=8), st.booleans())
def test_the_output_may_be_cut_anywhere(cuts: list[int], returns: bool) -> None:
    end = "\r" if returns else "\n"
    output = end.join(f"[{n}] step {n * 7} loss 0.{n}, {n} steps/s" for n in range(12)).encode() + end.encode()
    borders = sorted({0, len(output), *(len(output) * cut // 100 for cut in cuts)})
    assert printed(*(output[a:b] for a, b in itertools.pairwise(borders))) == {"step": 77}


@given(st.binary(max_size=400), st.binary(max_size=400))
def test_no_output_is_too_odd(one: bytes, two: bytes) -> None:
    printed(one, b"step 3 epoch", two)
