"""Which files are saved together, and when all of them are there."""

from __future__ import annotations

import pytest

from headway_agent.checkpoints import rounds as r
from headway_agent.checkpoints.rounds import Closed, Rounds


def saved(known: Rounds, path: str, at_s: float, whole: bool = True, source: str = "") -> None:
    """A file is written and closed."""
    r.wrote(known, path, at_s)
    r.closed(known, path, Closed((10, int(at_s * 1e9), 1), at_s, "closed", whole, source), at_s)


def test_a_first_file_is_waited_beside_for_others_until_all_is_quiet() -> None:
    known = Rounds()
    saved(known, "model.pt", 10.0)
    assert r.take(known, 10.1) == {}
    assert r.next_s(known) == 10.0 + r.QUIET_S
    assert set(r.take(known, 11.1)) == {"model.pt"}
    assert r.take(known, 12.0) == {}, "once"


def test_two_files_of_one_save_are_taken_together() -> None:
    known = Rounds()
    saved(known, "model.pt", 10.0)
    saved(known, "optimizer.pt", 10.3)
    assert r.take(known, 11.2) == {}
    assert set(r.take(known, 11.4)) == {"model.pt", "optimizer.pt"}
    saved(known, "model.pt", 20.0)
    assert r.take(known, 20.2) == {}, "its optimizer is still the old one"
    saved(known, "optimizer.pt", 20.3)
    assert set(r.take(known, 20.3)) == {"model.pt", "optimizer.pt"}, "all that is usual is there: at once"


def test_nothing_waits_for_the_best_so_far_which_is_not_saved_each_time() -> None:
    known = Rounds()
    saved(known, "weights/last.pt", 10.0)
    saved(known, "weights/best.pt", 10.02)
    assert len(r.take(known, 12.1)) == 2
    saved(known, "weights/last.pt", 20.0)
    assert set(r.take(known, 20.0)) == {"weights/last.pt"}
    saved(known, "weights/best.pt", 20.02)
    assert set(r.take(known, 22.1)) == {"weights/best.pt"}, "it joins what was taken without it"


def test_what_is_usual_is_taken_at_once_the_next_time() -> None:
    known = Rounds()
    saved(known, "snapshot.pt", 10.0)
    r.take(known, 11.0)
    saved(known, "snapshot.pt", 12.0)
    assert set(r.take(known, 12.0)) == {"snapshot.pt"}


def test_a_file_written_anew_ends_the_round_that_it_was_in() -> None:
    known = Rounds()
    saved(known, "snapshot.pt", 10.0, source="copy-1")
    r.wrote(known, "snapshot.pt", 10.2)
    taken = r.take(known, 10.2)
    assert taken["snapshot.pt"].source == "copy-1"


def test_the_next_number_of_a_name_is_the_next_round() -> None:
    known = Rounds()
    saved(known, "ckpt_000120.pt", 10.0)
    saved(known, "ckpt_000240.pt", 10.1)
    assert set(r.take(known, 10.1)) == {"ckpt_000240.pt"}, "the newest"


def odd(known: Rounds, path: str, at_s: float, step: int | None = None, told: int = 0) -> None:
    r.wrote(known, path, at_s)
    inside, seen = ("step", step) if step is not None else None, {"step": told} if told else None
    r.closed(known, path, Closed((10, int(at_s * 1e9), 1), at_s, "closed", True, seen=seen, inside=inside), at_s)


@pytest.mark.parametrize("inside", [True, False])
def test_names_without_a_step_are_told_apart_by_what_the_files_or_the_job_say(inside: bool) -> None:
    known = Rounds()
    for number in (1, 2, 3):
        odd(known, f"run7_2026-11-17_12-00-0{number}_loss0.{number}.pkl", 10.0 + number / 10,
            number if inside else None, 0 if inside else number)  # fmt: skip
    assert set(r.take(known, 10.3)) == {"run7_2026-11-17_12-00-03_loss0.3.pkl"}, "the newest, and at once"
    r.starts_after(known, dict.fromkeys(known.before))
    odd(known, "run9_2026-11-17_12-00-09_loss0.9.pkl", 20.0)
    assert set(r.take(known, 20.0)) == {"run9_2026-11-17_12-00-09_loss0.9.pkl"}, "a round never had more of these"


def heard(known: Rounds, path: str, at_s: float, written_s: float) -> None:
    """A save that was heard of at one time, and written at another."""
    r.wrote(known, path, at_s)
    r.closed(known, path, Closed((10, int(written_s * 1e9), 1), at_s, "closed", True), at_s)


def test_what_is_heard_late_does_not_part_what_was_saved_together() -> None:
    known = Rounds()
    heard(known, "model.pt", 10.0, 9.98)
    heard(known, "optimizer.pt", 10.01, 10.0)
    heard(known, "model.pt", 10.5, 10.48)
    heard(known, "optimizer.pt", 10.9, 10.5)  # The machine was busy,
    heard(known, "model.pt", 10.9, 10.88)  # and this came at the same moment. Then it was killed.
    found = r.take_at_the_end(known, all_closed=False)
    assert {path: each.signature[1] / 1e9 for path, each in found.items()} == {"model.pt": 10.48, "optimizer.pt": 10.5}


def test_who_begins_to_watch_within_a_save_does_not_take_its_rest_with_the_next_one() -> None:
    known = Rounds()
    heard(known, "optimizer.pt", 10.0, 9.99)
    heard(known, "model.pt", 10.5, 10.49)
    assert r.take_at_the_end(known, all_closed=False) == {}


def test_parts_that_say_no_step_are_not_told_apart_by_what_the_job_prints_meanwhile() -> None:
    known = Rounds()
    odd(known, "weights-00001-of-00002.bin", 10.0, told=5)
    odd(known, "weights-00002-of-00002.bin", 10.1, told=6)
    assert len(r.take(known, 11.2)) == 2


def test_a_file_that_is_held_open_is_taken_each_time_that_it_was_found_whole() -> None:
    known = Rounds()
    for at_s in (10.0, 12.0, 14.0):  # In between it grows, without a pause.
        saved(known, "all.pkl", at_s)
        known.writing["all.pkl"] = at_s
        r.wrote(known, "all.pkl", at_s + 1.9)
    assert known.full["all.pkl"].at_s == 12.0
    assert r.take(known, 14.0)["all.pkl"].at_s == 14.0


def test_what_was_closed_before_a_rank_was_killed_counts_though_its_format_tells_nothing() -> None:
    def at_the_end(abrupt: bool, alive: bool, closed_s: float = 9.9) -> set[str]:
        known = Rounds(failed_s=10.0, abrupt=abrupt)
        r.wrote(known, "model.bin", closed_s - 0.1)
        r.closed(known, "model.bin", Closed((10, 1, 1), closed_s, "closed", alive=alive), closed_s)
        return set(r.take_at_the_end(known, all_closed=False))

    assert at_the_end(abrupt=True, alive=True) == {"model.bin"}
    assert at_the_end(abrupt=True, alive=False) == set(), "perhaps its death has closed it"
    assert at_the_end(abrupt=False, alive=True) == set(), "who fails while it saves closes the file, and ends then"
    assert at_the_end(abrupt=True, alive=True, closed_s=10.1) == set(), "another rank, which may have failed over it"


def test_a_first_file_after_which_its_rank_lived_on_is_all_of_its_save() -> None:
    def at_the_end(path: str, failed_s: float) -> set[str]:
        known = Rounds(failed_s=failed_s, abrupt=True)
        saved(known, path, 10.0)
        return set(r.take_at_the_end(known, all_closed=False))

    assert at_the_end("out/snapshot.pt", 10.1) == {"out/snapshot.pt"}
    assert at_the_end("out/snapshot.pt", 10.01) == set(), "it may have been about to open the next one"
    assert at_the_end("checkpoint-15/model.pt", 10.1) == set(), "a folder of one save, which may have more"


def test_shards_of_one_step_are_one_round() -> None:
    known = Rounds()
    for rank in range(4):
        saved(known, f"step-5/rank{rank}.pt", 10.0 + rank / 10)
    assert r.take(known, 10.5) == {}
    assert len(r.take(known, 12.4)) == 4
    for rank in range(3):
        saved(known, f"step-6/rank{rank}.pt", 20.0)
    assert r.take(known, 20.0) == {}
    saved(known, "step-6/rank3.pt", 20.1)
    assert len(r.take(known, 20.1)) == 4


def test_what_comes_late_joins_its_round_and_is_waited_for_from_then_on() -> None:
    known = Rounds()
    saved(known, "model.pt", 10.0)
    r.take(known, 11.0)
    saved(known, "optimizer.pt", 13.0)
    assert set(r.take(known, 14.0)) == {"optimizer.pt"}
    saved(known, "model.pt", 20.0)
    assert r.take(known, 20.1) == {}
    assert set(r.take(known, 20.1 + r.QUIET_UNUSUAL_S)) == {"model.pt"}, "but not for ever"


def test_nothing_is_taken_while_a_file_beside_it_is_open() -> None:
    known = Rounds()
    saved(known, "model.pt", 10.0)
    r.wrote(known, "optimizer.pt", 10.1)
    assert r.take(known, 25.0) == {}
    assert set(r.take(known, 10.1 + r.HELD_OPEN_S)) == {"model.pt"}, "a file that stays open is none of the round"


def test_a_close_that_came_with_its_writer_s_death_proves_nothing() -> None:
    known = Rounds()
    saved(known, "state.raw", 10.0, whole=False)
    r.take(known, 11.1)
    saved(known, "state.raw", 20.0, whole=False)
    assert r.take(known, 20.5) == {}, "it is not known yet whether its writer lives"
    known.failed_s = 20.01
    assert r.take(known, 30.0) == {}
    assert r.take_at_the_end(known, all_closed=False) == {}


def test_a_file_that_is_whole_by_its_format_needs_no_living_writer() -> None:
    known = Rounds()
    saved(known, "snapshot.pt", 10.0)
    known.failed_s = 10.1
    assert set(r.take_at_the_end(known, all_closed=False)) == {"snapshot.pt"}


def test_half_of_what_is_usual_is_no_round_at_the_end() -> None:
    known = Rounds()
    for at_s in (10.0, 20.0):
        saved(known, "model.pt", at_s)
        saved(known, "optimizer.pt", at_s + 0.1)
        r.take(known, at_s + 2)
    saved(known, "model.pt", 30.0)
    known.failed_s = 30.05
    assert r.take_at_the_end(known, all_closed=False) == {}


def test_at_a_good_end_all_that_is_closed_counts() -> None:
    known = Rounds()
    saved(known, "model.pt", 10.0)
    saved(known, "optimizer.pt", 10.1, whole=False)
    assert set(r.take_at_the_end(known, all_closed=True)) == {"model.pt", "optimizer.pt"}


def test_a_directory_of_a_first_save_is_not_trusted_to_be_full_when_its_ranks_die() -> None:
    known = Rounds()
    saved(known, "checkpoint-5/model.pt", 10.0)
    known.failed_s = 10.5
    assert r.take_at_the_end(known, all_closed=False) == {}
    again = Rounds()
    saved(again, "checkpoint-5/model.pt", 10.0)
    again.failed_s = 10.0 + r.QUIET_INSIDE_S
    assert len(r.take_at_the_end(again, all_closed=False)) == 1


def test_drafts_that_were_renamed_are_forgotten() -> None:
    known = Rounds()
    saved(known, "model.pt.123", 10.0)
    r.forget_missing(known, {"model.pt": ()})
    assert r.take(known, 20.0) == {}


def test_a_file_that_was_overwritten_before_it_was_read_takes_its_round_with_it() -> None:
    known = Rounds()
    for at_s in (10.0, 20.0):
        saved(known, "model.pt", at_s)
        saved(known, "optimizer.pt", at_s + 0.1)
        r.take(known, at_s + 2)
    r.closed(known, "model.pt", Closed((0, 0, 0), 30.0, "closed", lost=True), 30.0)
    saved(known, "optimizer.pt", 30.1)
    saved(known, "model.pt", 40.0)
    assert r.take(known, 40.0) == {}, "that would be the model of one save with the optimizer of another"
    saved(known, "optimizer.pt", 40.1)
    assert set(r.take(known, 40.1)) == {"model.pt", "optimizer.pt"}


def test_the_rest_of_one_save_and_the_beginning_of_the_next_are_no_round() -> None:
    known = Rounds()
    saved(known, "model.pt", 10.0)
    r.take(known, 12.0)
    saved(known, "optimizer.pt", 12.5)  # Late.
    saved(known, "model.pt", 13.0)
    taken = r.take(known, 13.1)
    assert set(taken) == {"optimizer.pt"}, "with the model before it, as that was kept"
    saved(known, "optimizer.pt", 13.5)
    assert set(r.take(known, 13.5)) == {"model.pt", "optimizer.pt"}


def test_files_of_two_steps_are_never_one_round() -> None:
    known = Rounds()
    r.starts_after(known, {"checkpoint-15/a.pt": None})
    saved(known, "checkpoint-15/b.pt", 10.0)
    saved(known, "checkpoint-20/a.pt", 10.1)
    assert set(known.now) == {"checkpoint-20/a.pt"}
