from __future__ import annotations

import json

from headway_agent.collect.table_files import HypertuneFile, TableFile, TrainerState

LIGHTNING = b"epoch,step,train_loss,val_loss\n0,3,0.5,\n0,7,0.25,\n0,15,,0.125\n"


def test_rows_are_points_and_empty_fields_are_none():
    assert TableFile().feed(LIGHTNING, 1.0) == [
        ("train_loss", 0.5, 3, 1.0, 1),
        ("train_loss", 0.25, 7, 1.0, 2),
        ("val_loss", 0.125, 15, 1.0, 3),
    ]


def test_half_a_row_waits_for_its_rest():
    table = TableFile()
    assert len(table.feed(LIGHTNING[:-3], 1.0)) == 2
    assert table.feed(LIGHTNING[table.offset :], 1.0) == [("val_loss", 0.125, 15, 1.0, 3)]


def test_a_table_that_gets_a_column_is_written_anew_and_its_rows_are_not_taken_twice():
    table = TableFile()
    table.feed(LIGHTNING, 1.0)
    anew = b"epoch,step,train_loss,val_loss,acc\n0,3,0.5,,\n0,7,0.25,,\n0,15,,0.125,\n1,19,0.1,,0.75\n"
    assert table.begins_anew(anew[:200])
    assert table.feed(anew[table.offset :], 2.0) == [("train_loss", 0.1, 19, 2.0, 4), ("acc", 0.75, 19, 2.0, 4)]


def test_a_reader_that_starts_anew_passes_over_the_rows_that_were_taken():
    assert TableFile(taken=2).feed(LIGHTNING, 1.0) == [("val_loss", 0.125, 15, 1.0, 3)]


def test_a_padded_head_and_another_separator_are_read():
    assert TableFile().feed(b"   epoch;  train/box_loss; time\n  1;  0.5; 3.25\n", 1.0) == [
        ("train/box_loss", 0.5, 1, 1.0, 1)
    ]


def test_a_table_that_counts_nothing_is_left_alone():
    assert TableFile().feed(b"name,score\nann,3\nbob,4\n", 1.0) == []


def state(*entries: dict[str, float]) -> bytes:
    return json.dumps({"global_step": 4, "log_history": entries}).encode()


def test_the_history_of_a_trainer_is_taken_once():
    reader = TrainerState()
    first, second = {"loss": 0.5, "epoch": 0.5, "step": 2}, {"eval_loss": 0.25, "epoch": 1.0, "step": 4}
    assert reader.read(state(first), 1.0) == [("loss", 0.5, 2, 1.0, 1)]
    assert reader.read(state(first), 2.0) == []
    assert reader.read(state(first, second), 3.0) == [("eval_loss", 0.25, 4, 3.0, 2)]
    assert TrainerState(taken=1).read(state(first, second), 3.0) == [("eval_loss", 0.25, 4, 3.0, 2)]


def test_what_an_earlier_attempt_has_logged_is_not_this_ones():
    entries = {"loss": 0.5, "step": 2}, {"loss": 0.25, "step": 4}
    assert TrainerState(begun_at_step=2).read(state(*entries), 1.0) == [("loss", 0.25, 4, 1.0, 2)]


def test_half_a_file_says_nothing_yet():
    assert TrainerState().read(state({"loss": 0.5, "step": 2})[:-5], 1.0) == []


def test_reports_of_hypertune_are_taken_once_though_the_file_is_written_anew():
    lines = [
        json.dumps(
            {
                "timestamp": at,
                "trial": "0",
                "accuracy": str(at / 10),
                "global_step": str(int(at)),
                "checkpoint_path": "",
            }
        )
        for at in (1.0, 2.0, 3.0)
    ]
    reader = HypertuneFile()
    assert reader.read("\n".join(lines[:2]).encode()) == [
        ("accuracy", 0.1, 1, 1.0, 1_000_000),
        ("accuracy", 0.2, 2, 2.0, 2_000_000),
    ]
    assert reader.read("\n".join(lines[1:]).encode()) == [("accuracy", 0.3, 3, 3.0, 3_000_000)]
