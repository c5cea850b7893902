"""What a log counts, and whether the next attempt goes on with it."""

from __future__ import annotations

import pytest

from headway.core.rehearsal.log_counters import Count, compare, counts_at_all, lines_of


def found(before: list[str], after: list[str]) -> Count:
    count = compare(before, after)
    assert count is not None, "nothing in it counts"
    return count


STYLES = {
    "words": "Epoch {} loss 0.{}1",
    "bars": " {}%|██▌       | {}/100 [00:01<00:09,  9.66it/s]",
    "brackets": "Epoch: [0][ {}/391]  Time 0.1  Loss 1.2e-05",
    "pairs": "lr=0.1 global_step={} loss=0.3",
    "json": '{{"loss": 0.5, "step": {}}}',
    "a dictionary": "{{'loss': 0.5, 'learning_rate': 1e-05, 'epoch': {}.25}}",
    "a log with times": "2026-01-02 10:11:{:02}.123 INFO iter {}: loss 3",
    "names of files": "saved ckpt/step-{}.pt",
    "nothing but numbers": "{} 0.4 0.9",
    "another language": "Schritt {} fertig",
}


@pytest.mark.parametrize("style", STYLES.values(), ids=list(STYLES))
def test_what_goes_on_is_told_from_what_begins_again(style: str) -> None:
    before = [style.format(n, n) for n in range(1, 9)]
    assert found(before, [style.format(n, n) for n in range(6, 9)]).goes_on
    assert not found(before, before[:2]).goes_on


def test_what_was_done_twice_is_counted_in_the_job_s_own_steps() -> None:
    before = [f"step {n}" for n in range(10, 240, 10)]
    assert found(before, ["step 210"]).redone == 30
    assert found(before, ["step 240"]).redone == 0
    assert found([f"epoch {n / 4}" for n in range(9)], ["epoch 1.75"]).redone is None


def test_an_epoch_that_goes_on_outweighs_batches_that_begin_anew() -> None:
    before = [f"epoch {epoch} batch {batch}" for epoch in range(3) for batch in range(5)]
    count = found(before, ["epoch 2 batch 0"])
    assert (count.label, count.goes_on, count.taken_up_said) == ("epoch", True, "epoch 2")


def test_ranks_that_write_one_log_count_each_for_itself() -> None:
    before = [f"[GPU{rank}] Epoch {epoch}" for rank, epoch in ((0, 0), (0, 1), (1, 0), (1, 1), (0, 2))]
    assert found(before, ["[GPU1] Epoch 2"]).goes_on
    assert not found(before, ["[GPU1] Epoch 0"]).goes_on


def test_seconds_since_the_start_do_not_hide_a_step_that_goes_on() -> None:
    before = [f"after {n} s: step {n * 7}" for n in range(1, 9)]
    assert found(before, ["after 1 s: step 57"]).goes_on


@pytest.mark.parametrize(
    "line", ["12:00:{:02} still here", "2026-01-{:02} still here", "17948566{:02} still here", "loss 0.{:02}1", "at 7"]
)
def test_clocks_losses_and_constants_count_nothing(line: str) -> None:
    assert not counts_at_all([line.format(n) for n in range(10, 30)])
    assert compare([line.format(n) for n in range(10, 20)], [line.format(n) for n in range(20, 30)]) is None


def test_what_is_said_only_once_is_no_counter() -> None:
    before = ["max epoch: 100", "epoch 0", "epoch 1"]
    after = ["resuming from epoch 2", "max epoch: 100", "epoch 2"]
    count = found(before, after)
    assert (count.began_said, count.taken_up_said) == ("epoch 0", "epoch 2")
    assert compare(["epoch 0"], ["epoch 1"]) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (" 12%|█         | 61/500 [00:06<00:43, 10.0it/s]", "61/500"),
        ("Schritt 61 fertig", "Schritt 61"),
        ("the long way to where number 61 stands, with more behind it", "number 61"),
    ],
)
def test_a_nameless_counter_is_quoted_with_the_word_before_it(line: str, said: str) -> None:
    before = [line.replace("61", str(number)) for number in (1, 2, 3)]
    assert found(before, [line]).taken_up_said == said


def test_each_state_of_a_progress_bar_is_a_line() -> None:
    assert lines_of("\r 1/9\r 2/9\r\n\ndone\n") == [" 1/9", " 2/9", "done"]
