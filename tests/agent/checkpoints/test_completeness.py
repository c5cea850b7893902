"""Which files of a checkpoint directory count as finished, and which step they are."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headway_agent.checkpoints import completeness as c
from headway_agent.checkpoints.completeness import Knowledge, Snapshot, look
from headway_agent.checkpoints.rounds import Closed
from headway_agent.checkpoints.step_names import NamedStep


def sig(number: int, size: int = 10) -> tuple[int, int, int]:
    return (size, number, number)


def kept(known: Knowledge, snapshot: Snapshot | None) -> Knowledge:
    assert snapshot is not None
    c.kept(known, snapshot)
    return known


def test_a_renamed_file_is_finished_at_once() -> None:
    known = Knowledge()
    c.renamed(known, "step-20.pt")
    found = look(known, {"step-20.pt": sig(1), "other.pt": sig(2)}, 0.0)
    assert found is not None
    assert (found.step, found.how, dict(found.files)) == (20, c.RENAMED, {"step-20.pt": sig(1)})


def test_what_is_written_in_place_after_a_rename_is_not_finished() -> None:
    known = Knowledge()
    c.renamed(known, "model.pt")
    c.touched(known, "model.pt")
    assert look(known, {"model.pt": sig(1)}, 0.0) is None


def test_late_news_of_a_write_does_not_take_a_declared_file_out_of_the_next_snapshot() -> None:
    known = Knowledge()
    c.declared(known, "config.json", 1, {})
    kept(known, look(known, {"config.json": sig(1)}, 0.0))
    c.touched(known, "config.json")  # The write before the declaration.
    c.declared(known, "model.pt", 2, {})
    found = look(known, {"config.json": sig(1), "model.pt": sig(2)}, 1.0)
    assert found is not None
    assert set(found.files) == {"config.json", "model.pt"}
    c.touched(known, "config.json")  # This one changes it.
    c.declared(known, "model.pt", 3, {})
    found = look(known, {"config.json": sig(3), "model.pt": sig(4)}, 2.0)
    assert found is not None
    assert found.files == {"config.json": sig(1), "model.pt": sig(4)}, "as it was kept last"


def test_nothing_new_makes_no_snapshot() -> None:
    known = Knowledge()
    c.renamed(known, "step-20.pt")
    tree = {"step-20.pt": sig(1)}
    kept(known, look(known, tree, 0.0))
    assert look(known, tree, 1.0) is None
    assert look(known, {}, 2.0) is None


def test_a_file_settles_when_it_has_not_changed_for_long_enough() -> None:
    known = Knowledge(settle_s=10.0)
    assert look(known, {"a.pt": sig(1)}, 0.0) is None
    assert c.next_look_s(known) == 10.0
    assert look(known, {"a.pt": sig(2)}, 9.0) is None
    assert look(known, {"a.pt": sig(2)}, 18.0) is None
    found = look(known, {"a.pt": sig(2)}, 19.0)
    assert found is not None
    assert found.how == c.SETTLED


def test_hidden_files_belong_to_a_checkpoint() -> None:
    known = Knowledge(settle_s=1.0)
    tree = {"step-5/.metadata": sig(1), "step-5/__0_0.distcp": sig(2)}
    look(known, tree, 0.0)
    found = look(known, tree, 2.0)
    assert found is not None
    assert set(found.files) == set(tree)


def test_a_directory_settles_as_a_whole() -> None:
    known = Knowledge(settle_s=10.0)
    look(known, {"500/model": sig(1)}, 0.0)
    look(known, {"500/model": sig(1), "500/optimizer": sig(2)}, 8.0)
    assert look(known, {"500/model": sig(1), "500/optimizer": sig(3)}, 12.0) is None
    found = look(known, {"500/model": sig(1), "500/optimizer": sig(3)}, 22.0)
    assert found is not None
    assert (len(found.files), found.step) == (2, 500)


@pytest.mark.parametrize("name", ["a.tmp", ".a.pt.tmp", "tmp-checkpoint-5/x", "x.partial", "b~"])
def test_what_looks_half_written_never_settles(name: str) -> None:
    known = Knowledge(settle_s=1.0)
    look(known, {name: sig(1)}, 0.0)
    assert look(known, {name: sig(1)}, 99.0) is None
    assert look(known, {name: sig(1)}, 100.0, c.ENDED_WELL) is None


def test_a_renamed_directory_is_finished_with_all_that_is_in_it() -> None:
    known = Knowledge()
    look(known, {"tmp-checkpoint-500/model": sig(1), "tmp-checkpoint-500/a/b": sig(2)}, 0.0)
    c.renamed(known, "checkpoint-500")
    found = look(known, {"checkpoint-500/model": sig(1), "checkpoint-500/a/b": sig(2)}, 1.0)
    assert found is not None
    assert (found.step, found.how, len(found.files)) == (500, c.RENAMED, 2)


def test_a_rename_between_two_looks_is_recognised_without_any_event() -> None:
    known = Knowledge()
    look(known, {"model.tmp": sig(7)}, 0.0)
    found = look(known, {"model-3.pt": sig(7)}, 1.0)
    assert found is not None
    assert (found.step, found.how) == (3, c.RENAMED)


def test_renames_inside_a_directory_count_when_it_is_quiet() -> None:
    known = Knowledge()
    c.renamed(known, "run/step-5.pt")
    assert look(known, {"run/step-5.pt": sig(1)}, 0.0) is None
    found = look(known, {"run/step-5.pt": sig(1)}, 1.0)
    assert found is not None
    assert (found.how, found.step) == (c.RENAMED, 5)


def test_one_renamed_file_does_not_finish_a_directory_that_is_being_filled() -> None:
    known = Knowledge()
    c.renamed(known, "500/model")
    assert look(known, {"500/model": sig(1), "500/optimizer": sig(2)}, 0.0) is None
    assert look(known, {"500/model": sig(1), "500/optimizer": sig(2)}, 5.0) is None


def test_a_marker_finishes_what_is_older_than_it_and_turns_settling_off() -> None:
    known = Knowledge(settle_s=1.0, marker="DONE")
    tree = {"5/model": sig(1), "6/model": sig(2)}
    look(known, tree, 0.0)
    assert look(known, tree, 50.0) is None
    found = look(known, dict(tree, **{"5/DONE": sig(3)}), 51.0)
    assert found is not None
    assert (found.how, set(found.files), found.step) == (c.MARKER, {"5/model", "5/DONE"}, 5)


def test_a_declaration_names_step_and_metrics_and_outranks_a_guess() -> None:
    known = Knowledge()
    c.renamed(known, "model.pt")
    tree = {"model.pt": sig(1)}
    first = look(known, tree, 0.0)
    kept(known, first)
    assert first is not None
    assert first.step == 1
    c.declared(known, "model.pt", 1200, {"loss": 0.5})
    found = look(known, tree, 1.0)
    assert found is not None
    assert (found.step, found.how, found.metrics) == (1200, c.DECLARED, {"loss": 0.5})
    kept(known, found)
    assert look(known, tree, 2.0) is None


def test_a_number_in_a_name_that_stays_the_same_is_not_a_step() -> None:
    known = Knowledge()
    for number, step in ((1, 1), (2, 2), (3, 3)):
        c.renamed(known, "resnet50.pt")
        found = look(known, {"resnet50.pt": sig(number)}, 0.0)
        assert found is not None
        assert found.step == step
        kept(known, found)


def test_the_step_seen_in_metrics_counts_where_names_say_nothing() -> None:
    known = Knowledge()
    known.steps.metrics = 77
    c.renamed(known, "model.pt")
    found = look(known, {"model.pt": sig(1)}, 0.0)
    assert found is not None
    assert found.step == 77


ENDS = [
    (c.ENDED_WELL, 0.0, True),
    (c.ENDED_ON_NOTICE, 0.0, True),
    (c.FAILED, 0.0, False),
    (c.FAILED, 5.0, True),
    (c.KILLED, 5.0, False),
]


@pytest.mark.parametrize(("end", "after_s", "keeps"), ENDS)
def test_what_a_dead_rank_left_is_trusted_as_far_as_its_end_allows(end: str, after_s: float, keeps: bool) -> None:
    known = Knowledge()
    look(known, {"model-9.pt": sig(1)}, 100.0)
    assert (look(known, {"model-9.pt": sig(1)}, 100.0 + after_s, end) is not None) == keeps


def test_after_a_restore_nothing_is_new() -> None:
    known = Knowledge()
    tree = {"model-9.pt": sig(1)}
    c.restored(known, tree, 9, c.RENAMED)
    assert look(known, tree, 0.0, c.ENDED_WELL) is None
    c.renamed(known, "latest")
    found = look(known, dict(tree, latest=sig(2)), 1.0)
    assert found is not None
    assert found.step == 9


def test_an_older_file_that_is_known_late_is_more_of_the_newest_step() -> None:
    known = Knowledge()
    tree = {"step-29.pt": sig(1), "step-30.pt": sig(2)}  # The first was renamed while no agent was there to see it.
    c.renamed(known, "step-30.pt")
    kept(known, look(known, tree, 0.0))
    found = look(known, tree, 1.0, c.ENDED_WELL)
    assert found is not None
    assert (found.step, set(found.files)) == (30, set(tree))


@pytest.mark.parametrize(("end", "step"), [(c.ENDED_ON_NOTICE, 117), (c.ENDED_WELL, 117)])
def test_what_a_job_left_at_its_end_says_its_step_though_an_older_save_waits_to_be_stored(end: str, step: int) -> None:
    known, tree = Knowledge(), {"model_095.pt": sig(1), "model_117.pt": sig(2)}
    c.renamed(known, "model_095.pt")
    assert look(known, {"model_095.pt": sig(1)}, 0.0) is not None, "and storage is away"
    found = look(known, tree, 20.0, end)
    assert found is not None
    assert found.step == step


def test_a_job_that_counts_anew_after_a_restore_has_the_steps_that_it_names() -> None:
    known = Knowledge()
    c.restored(known, {"step-30.pt": sig(1)}, 30, c.RENAMED)
    c.renamed(known, "step-2.pt")
    found = look(known, {"step-30.pt": sig(1), "step-2.pt": sig(2)}, 0.0)
    assert found is not None
    assert found.step == 2


@pytest.mark.parametrize("end", [c.KILLED, c.FAILED])
@pytest.mark.parametrize("name", ["step-{}.pt", "checkpoint-{}/model.pt"])
def test_what_is_named_like_all_that_came_by_rename_is_finished_though_nobody_watched(end: str, name: str) -> None:
    known = Knowledge()
    c.renamed(known, name.format(8).partition("/")[0])
    before = {name.format(8): sig(1)}
    kept(known, look(known, before, 0.0))
    after = dict(before, **{name.format(9): sig(2), "other-9.pt": sig(3)})
    assert look(known, after, 1.0) is None  # As long as its ranks live, a rename is seen or time has to pass.
    found = look(known, after, 1.0, end)
    assert found is not None
    assert (found.step, found.how, set(found.files)) == (9, c.RENAMED, set(after) - {"other-9.pt"})


def test_a_name_that_was_written_in_place_once_is_not_trusted_so_far() -> None:
    known = Knowledge()
    c.renamed(known, "step-8.pt")
    before = {"step-8.pt": sig(1)}
    kept(known, look(known, before, 0.0))
    c.touched(known, "step-9.pt")
    assert look(known, dict(before, **{"step-9.pt": sig(2)}), 1.0, c.KILLED) is None


def a_successor(marker: str = "") -> Knowledge:
    """What an agent knows that has just come back to a directory which nobody watched for a while."""
    known = Knowledge(settle_s=10.0, marker=marker)
    c.restored(known, {"step-1.pt": sig(1)}, 1, c.SETTLED)
    return known


TREE = {"step-1.pt": sig(1), "step-2.pt": sig(2), "step-3.pt": sig(3)}


@pytest.mark.parametrize("end", [c.KILLED, c.FAILED])
def test_what_was_still_for_long_before_the_first_rank_ended_had_settled_though_nobody_watched(end: str) -> None:
    found = look(a_successor(), TREE, 500.0, end, {"step-1.pt": 60.0, "step-2.pt": 10.5, "step-3.pt": 0.5})
    assert found is not None
    assert (found.step, found.how, set(found.files)) == (2, c.SETTLED, {"step-1.pt", "step-2.pt"})


def test_what_a_failed_rank_left_in_peace_is_kept_though_nobody_watched() -> None:
    still_s = {"step-1.pt": 60.0, "step-2.pt": 10.5, "step-3.pt": 2.5}
    found = look(a_successor(), TREE, 500.0, c.FAILED, still_s)
    assert found is not None
    assert found.step == 3
    killed = look(a_successor(), TREE, 500.0, c.KILLED, still_s)
    assert killed is not None
    assert killed.step == 2, "it died in the very pause that a slow writer makes"


def test_times_prove_nothing_where_they_are_unknown_or_a_marker_is_asked_for() -> None:
    assert look(a_successor(), TREE, 500.0, c.KILLED, {}) is None
    assert look(a_successor("DONE"), TREE, 500.0, c.KILLED, dict.fromkeys(TREE, 60.0)) is None


def test_a_directory_that_was_still_filled_at_the_end_is_not_settled_by_its_older_files() -> None:
    tree = {"step-2/a.pt": sig(2), "step-2/b.pt": sig(3), "step-3/x.tmp": sig(4)}
    assert look(Knowledge(), tree, 500.0, c.KILLED, {"step-2/a.pt": 60.0, "step-2/b.pt": 1.0}) is None
    found = look(Knowledge(), tree, 500.0, c.KILLED, dict.fromkeys(tree, 60.0))
    assert found is not None
    assert set(found.files) == {"step-2/a.pt", "step-2/b.pt"}, "and what looks half-written never is"


def test_what_never_settles_is_not_looked_at_again_and_again() -> None:
    known = Knowledge(settle_s=10.0)
    tree = {"x.tmp": sig(1), "step-1/a.pt": sig(2), "step-1/b.part": sig(3)}
    assert look(known, tree, 0.0) is None
    assert c.next_look_s(known) == 10.0
    found = look(known, tree, 10.0)
    assert found is not None
    assert set(found.files) == {"step-1/a.pt"}
    assert c.next_look_s(known) is None, "time alone brings nothing more"


def test_what_a_failed_rank_was_writing_does_not_settle_beside_the_ranks_that_live_on() -> None:
    known = Knowledge(settle_s=10.0)
    look(known, {"step-1.pt": sig(1)}, 0.0)
    look(known, {"step-1.pt": sig(1), "step-2.pt": sig(2)}, 5.0)
    known.failed_s = 12.0
    found = look(known, {"step-1.pt": sig(1), "step-2.pt": sig(2)}, 60.0)
    assert found is not None
    assert set(found.files) == {"step-1.pt"}
    assert c.next_look_s(known) is None


@pytest.mark.parametrize("path", ["model.pt", "newest/model.pt"])
def test_a_renamed_entry_is_of_the_step_that_was_told_when_it_came(path: str) -> None:
    known = Knowledge()
    c.told_at(known, path.split("/")[0], {"step": 9})
    c.renamed(known, path.split("/")[0])
    known.steps.printed = {"step": 14}  # By the time that we look.
    found = look(known, {path: sig(1)}, 0.0) or look(known, {path: sig(1)}, 100.0)
    assert found is not None
    assert (found.step, found.unit) == (9, "step")
    kept(known, found)
    assert not known.told_at


def test_a_step_that_is_told_right_after_a_save_is_that_of_the_save() -> None:
    known = Knowledge()
    c.closed(known, "model.pt", c.Closed(sig(1), 0.0, c.CLOSED, whole=True, seen={"step": 11}))
    c.told_at(known, "model.pt", {"step": 12})
    found = look(known, {"model.pt": sig(1)}, 100.0)
    assert found is not None
    assert found.step == 12


def test_what_was_told_late_of_the_save_before_is_not_taken_for_the_last_one() -> None:
    known = Knowledge()
    c.closed(known, "model.pt", Closed(sig(1), 0.0, c.CLOSED, whole=True, seen={"step": 11}))
    kept(known, look(known, {"model.pt": sig(1)}, 100.0))
    c.told_at(known, "model.pt", {"step": 11})  # What was printed right after it, heard of now.
    c.touched(known, "model.pt", 101.0)
    known.steps.printed = {"step": 12}
    found = look(known, {"model.pt": sig(2)}, 101.0, c.ENDED_WELL)  # Its close was not heard of any more.
    assert found is not None
    assert (found.step, dict(found.files)) == (12, {"model.pt": sig(2)})


def test_a_save_that_was_to_be_kept_does_not_lend_its_step_to_the_one_that_replaced_it() -> None:
    known = Knowledge()
    c.closed(known, "model.pt", Closed(sig(1), 0.0, c.CLOSED, True, "copy", seen={"step": 11}))
    assert look(known, {"model.pt": sig(1)}, 100.0) is not None  # Storing it failed.
    known.steps.printed = {"step": 12}
    found = look(known, {"model.pt": sig(2)}, 101.0, c.ENDED_WELL)
    assert found is not None
    assert (found.step, dict(found.files)) == (12, {"model.pt": sig(2)})


def test_files_that_are_renamed_over_themselves_in_a_folder_are_of_each_save() -> None:
    """As Lightning does it: a name with its step, and `last.ckpt`."""
    known, kept = Knowledge(), []
    for number, step in enumerate(range(15, 90, 15)):
        tree = {f"out/step={step}.ckpt": sig(2 * number), "out/last.ckpt": sig(2 * number + 1)}
        for path in tree:
            c.renamed(known, path)
        snapshot = look(known, tree, 10.0 + number)
        if snapshot is not None:
            c.kept(known, snapshot)
            kept.append((snapshot.step, len(snapshot.new)))
    assert kept == [(30, 2), (45, 2), (60, 2), (75, 2)]


def test_what_belongs_to_a_save_is_known_with_the_first_that_is_kept() -> None:
    known = Knowledge()
    tree = {"out/step=15.ckpt": sig(1), "out/last.ckpt": sig(2)}
    for path in tree:
        c.renamed(known, path)
    assert look(known, tree, 10.0) is None
    assert look(known, tree, 11.0) is not None
    assert sum(known.rounds.usual.values()) == 2


@pytest.mark.parametrize(("ahead", "kept_steps"), [(0, [10, 20, 30]), (1, [20, 30]), (10, [])])
def test_files_that_always_differ_by_one_are_of_one_save(ahead: int, kept_steps: list[int]) -> None:
    """A model and what is saved beside it; where they differ by more, one of them is of another save."""
    known, kept, now = Knowledge(), [], 0

    class Said(c.Inspector):
        def step(self, path: str) -> NamedStep:
            return NamedStep("epoch", now + (ahead if path == "state.json" else 0))

    for now in (10, 20, 30):
        tree = {"model.pt": sig(now), "state.json": sig(now + 1)}
        for path, signature in tree.items():
            c.touched(known, path, now)
            c.closed(known, path, c.Closed(signature, now, c.CLOSED, whole=True))
        snapshot = look(known, tree, now + 2.5, inspector=Said())
        if snapshot is not None:
            c.kept(known, snapshot)
            kept.append(snapshot.step - ahead)
    assert kept == kept_steps


def test_a_round_that_was_written_over_while_it_was_read_is_not_tried_again() -> None:
    known = Knowledge()
    first = Closed((5, 1, 1), 1.0, c.CLOSED, whole=True)
    c.closed(known, "a.pt", first)
    assert c.look(known, {"a.pt": (5, 1, 1)}, 9.0) is not None
    c.overtaken(known, lambda path, each: True)
    assert known.due, "another file was at fault"
    c.overtaken(known, lambda path, each: False)
    assert not known.due
    assert known.overtaken
    assert c.look(known, {"a.pt": (6, 2, 1)}, 9.2) is None


def test_a_round_that_was_written_over_before_it_was_stored_is_given_up_with_all_its_files() -> None:
    known, first = Knowledge(), {"model.pt": sig(1), "optimizer.pt": sig(2)}
    for path, signature in first.items():
        c.touched(known, path, 1.0)
        c.closed(known, path, Closed(signature, 1.0, c.CLOSED, whole=True))
    kept(known, look(known, first, 2.5))
    second = {"model.pt": sig(11), "optimizer.pt": sig(12)}
    for path, signature in second.items():
        c.touched(known, path, 10.0)
        c.closed(known, path, Closed(signature, 10.0, c.CLOSED, whole=True))
    assert look(known, second, 10.1) is not None
    c.touched(known, "model.pt", 10.2)
    # It was not stored in time: the model is being written anew, and the optimizer alone is not a checkpoint.
    assert look(known, {"model.pt": sig(21, 3), "optimizer.pt": sig(12)}, 10.3) is None
    assert known.overtaken


def test_of_a_round_that_was_written_over_while_it_was_read_no_file_is_kept_beside_an_older_one() -> None:
    known, first = Knowledge(), {"model.pt": sig(1), "optimizer.pt": sig(2)}
    for path, signature in first.items():
        c.touched(known, path, 1.0)
        c.closed(known, path, Closed(signature, 1.0, c.CLOSED, whole=True))
    kept(known, look(known, first, 2.5))
    second = {"model.pt": sig(11), "optimizer.pt": sig(12)}
    for path, signature in second.items():
        c.touched(known, path, 10.0)
        c.closed(known, path, Closed(signature, 10.0, c.CLOSED, whole=True, source=f"link of {path}"))
    assert look(known, second, 10.1) is not None
    # Links had been made of them, and the next save has begun to write into the model's.
    c.overtaken(known, lambda path, each: path != "model.pt")
    assert look(known, {"model.pt": sig(21, 3), "optimizer.pt": sig(12)}, 10.3) is None


def test_a_file_that_stays_open_is_looked_at_again_though_nothing_more_is_written() -> None:
    known = Knowledge()
    c.touched(known, "history.pkl", 5.0)
    look(known, {"history.pkl": sig(1)}, 5.05)
    assert c.next_look_s(known) == 5.0 + c.HELD_OPEN_S


def test_a_newer_file_that_was_closed_tells_the_step_beside_an_older_one_that_was_renamed() -> None:
    known = Knowledge()
    c.renamed(known, "step-15.pt")
    assert look(known, {"step-15.pt": sig(1)}, 0.0) is not None
    # Storage was away, and the rename of the next one was not heard: it was found whole.
    c.closed(known, "step-30.pt", Closed(sig(2), 15.0, c.CLOSED, whole=True))
    found = look(known, {"step-15.pt": sig(1), "step-30.pt": sig(2)}, 21.0)
    assert found is not None
    assert (found.step, set(found.files)) == (30, {"step-15.pt", "step-30.pt"})


class Shards(c.Inspector):
    """A directory is whole with its list and both of its shards."""

    def folder(self, path: str, files: Mapping[str, int]) -> str:
        return c.WHOLE if {".metadata", "__0_0.distcp", "__1_0.distcp"} <= set(files) else c.UNKNOWN


def half_of_a_folder(known: Knowledge) -> dict[str, tuple[int, int, int]]:
    tree = {"step-45/__0_0.distcp": (5, 1, 1), "step-45/__1_0.distcp": (5, 2, 2), "step-45/.metadata": (3, 3, 3)}
    for path in list(tree)[1:]:
        c.closed(known, path, Closed(tree[path], 1.0, c.CLOSED, whole=True))
    return tree


def test_a_directory_of_which_one_close_was_not_heard_is_not_kept_by_halves() -> None:
    known = Knowledge()
    tree = half_of_a_folder(known)
    assert look(known, tree, 8.0, inspector=Shards()) is None
    c.closed(known, "step-45/__0_0.distcp", Closed(tree["step-45/__0_0.distcp"], 8.1, c.CLOSED, whole=True))
    snapshot = look(known, tree, 20.0, inspector=Shards())
    assert snapshot is not None
    assert set(snapshot.files) == set(tree)


def test_at_the_end_what_was_written_before_the_rest_of_a_directory_belongs_to_it() -> None:
    known = Knowledge()
    tree = half_of_a_folder(known)
    snapshot = look(known, tree, 8.0, c.ENDED_ON_NOTICE, inspector=Shards())
    assert snapshot is not None
    assert set(snapshot.files) == set(tree)


def test_what_is_written_anew_after_the_list_was_is_not_taken_with_it() -> None:
    known = Knowledge()
    tree = half_of_a_folder(known) | {"step-45/__0_0.distcp": (5, 9, 1)}
    assert look(known, tree, 8.0, c.KILLED, inspector=Shards()) is None
