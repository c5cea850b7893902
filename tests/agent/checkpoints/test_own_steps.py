"""Which step a checkpoint is, in the job's own count."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headway_agent.checkpoints import own_steps
from headway_agent.checkpoints.own_steps import Steps
from headway_agent.checkpoints.step_names import NamedStep

Read = Callable[[str], NamedStep | None]


def choose(steps: Steps, *new: str, kept: Iterable[str] = (), read: Read = lambda path: None) -> tuple[int, str]:
    finished = dict.fromkeys((*kept, *new), ((1, 100, 1), "closed"))
    before = dict.fromkeys(kept, ((1, 1, 1), "closed"))
    found = own_steps.choose(steps, new, finished, before, read, steps.told())
    own_steps.taken(steps, *found)
    return found


def test_a_step_in_a_name_goes_before_the_epoch_beside_it() -> None:
    assert choose(Steps(), "epoch=06-step=1200.ckpt") == (1200, "step")


def test_a_loss_in_a_name_is_no_step() -> None:
    steps = Steps()
    assert choose(steps, "epoch=06-val_loss=0.95.ckpt") == (6, "epoch")
    assert choose(steps, "epoch=07-val_loss=0.90.ckpt") == (7, "epoch")


def test_what_the_file_says_goes_before_an_epoch_in_its_name() -> None:
    assert choose(Steps(), "epoch=06.ckpt", read=lambda path: NamedStep("step", 900)) == (900, "step")


def test_metrics_go_before_what_is_printed_and_both_before_a_count() -> None:
    assert choose(Steps(metrics=70, printed={"step": 71}), "model.pt") == (70, "step")
    assert choose(Steps(printed={"step": 71, "epoch": 2}), "model.pt") == (71, "step")
    assert choose(Steps(printed={"epoch": 2}), "model.pt") == (2, "epoch")
    assert choose(Steps(last=4), "model.pt") == (5, "save")


def test_a_job_that_counts_in_epochs_goes_on_doing_so() -> None:
    steps = Steps()
    assert choose(steps, "model_epoch_3.pt") == (3, "epoch")
    steps.printed = {"step": 4000, "epoch": 4}
    assert choose(steps, "model.pt") == (4, "epoch")


def test_a_number_that_goes_backwards_within_an_attempt_is_no_step() -> None:
    steps = Steps()
    assert choose(steps, "model_90.pt") == (90, "step")
    assert choose(steps, "model_85.pt") == (91, "step")


def test_an_attempt_that_did_not_resume_has_the_steps_that_it_names() -> None:
    assert choose(Steps(last=30), "step-2.pt") == (2, "step")


def test_a_number_in_a_name_that_is_written_anew_each_time_is_not_the_step() -> None:
    steps = Steps()
    assert choose(steps, "stage_2.pt") == choose(Steps(), "stage_2.pt")
    assert choose(steps, "model-2.pt", kept=["model-2.pt"]) == (steps.last, "save")


def test_an_older_file_that_is_known_later_to_be_finished_is_not_what_the_job_prints_by_then() -> None:
    steps = Steps(last=45, own=45, unit="step", printed={"step": 49})
    finished = {"a_loss0.3.pkl": ((1, 10, 1), "closed"), "c_loss0.1.pkl": ((1, 30, 3), "closed")}
    kept = {"c_loss0.1.pkl": finished["c_loss0.1.pkl"]}
    found = own_steps.choose(steps, ["a_loss0.3.pkl"], finished, kept, lambda path: NamedStep("step", 15), steps.told())
    assert found == (45, "step")


def test_a_job_that_tells_its_steps_by_another_word_is_understood() -> None:
    assert Steps(printed={"epoch": 10}).seen == 10, "nobody knows yet what its checkpoints count"
    assert Steps(printed={"epoch": 51}, unit="step", last=45).seen == 51
    assert Steps(printed={"epoch": 3}, unit="step", last=4500).seen is None, "these are epochs"


def test_a_bar_counts_steps_once_it_stood_where_a_checkpoint_was_made() -> None:
    steps = Steps(printed={"epoch": 3, "bar of 900": 899, "bar of 10": 9}, unit="step", last=450)
    assert steps.seen is None
    own_steps.learn(steps, 500, {"epoch": 3, "bar of 900": 498, "bar of 10": 9})
    assert steps.seen == 899


def test_how_far_a_job_is_is_told_in_the_unit_of_its_checkpoints() -> None:
    steps = Steps(printed={"step": 4000, "epoch": 4})
    assert steps.seen == 4000
    steps.unit = "epoch"
    assert steps.seen == 4


def test_how_far_a_job_is_it_tells_by_itself_and_what_it_saved_is_the_least() -> None:
    steps = Steps(saved=15)
    assert (steps.seen, steps.tells) == (15, False), "since its newest save nobody knows"
    steps.printed = {"step": 22}
    assert (steps.seen, steps.tells, steps.printed_as) == (22, True, "step"), "a declared save does not hide its output"
    steps.metrics = 20
    assert (steps.seen, steps.printed_as) == (20, ""), "what it logs goes before what it prints"
    steps.reached = 23
    assert steps.seen == 23, "a helper notes every step"
    steps.unit = "epoch"
    assert steps.seen != 23, "steps are not epochs"


def test_epochs_and_bars_are_known_to_be_steps_by_a_save() -> None:
    steps = Steps(printed={"epoch": 2, "bar of 90": 14})
    assert not steps.tells
    own_steps.learn(steps, 15, steps.printed)
    own_steps.taken(steps, 15, "step")
    steps.printed = {"epoch": 2, "bar of 90": 17}
    assert (steps.seen, steps.tells, steps.printed_as) == (17, True, "bar of 90")
