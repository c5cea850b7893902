"""Who declares, decides: a rename is not taken for a checkpoint where the job says itself what is one."""

from __future__ import annotations

import pytest

from headway_agent.checkpoints import completeness
from headway_agent.checkpoints.completeness import DECLARED, RENAMED, SETTLED, Knowledge
from headway_agent.launch.ranks import launch_of
from headway_wire.claim import Claim

FIRST = {"s.json": (10, 1, 1)}
SECOND = {"s.json": (10, 2, 2)}


def test_without_declarations_a_rename_is_a_checkpoint() -> None:
    known = Knowledge()
    completeness.renamed(known, "s.json")
    found = completeness.look(known, FIRST, 0.0)
    assert found is not None
    assert found.how == RENAMED


def test_a_job_that_declares_is_waited_for() -> None:
    known = Knowledge(settle_s=10.0)
    completeness.declared(known, "s.json", 10, {})
    first = completeness.look(known, FIRST, 0.0)
    assert first is not None
    assert (first.step, first.how) == (10, DECLARED)
    completeness.kept(known, first)
    known.seen_step = 17
    completeness.renamed(known, "s.json")
    # Step 20's file is there, and the last that is known of it is step 17: a snapshot now would be called wrongly.
    assert completeness.look(known, SECOND, 1.0) is None
    completeness.declared(known, "s.json", 20, {})
    second = completeness.look(known, SECOND, 1.1)
    assert second is not None
    assert (second.step, second.how) == (20, DECLARED)


def test_what_is_never_declared_settles() -> None:
    known = Knowledge(settle_s=10.0)
    completeness.declared(known, "s.json", 10, {})
    first = completeness.look(known, FIRST, 0.0)
    assert first is not None
    completeness.kept(known, first)
    completeness.renamed(known, "s.json")
    assert completeness.look(known, SECOND, 1.0) is None
    found = completeness.look(known, SECOND, 12.0)
    assert found is not None
    assert found.how == SETTLED


def test_parameters_seed_and_signal_are_in_the_environment() -> None:
    asked = {"params": {"lr": 0.1, "use-amp": True}, "seed": 7, "notice_signal": "SIGUSR1"}
    duty = {"task": "j/1/0", "argv": ["x"], "env": {}, "progress": asked}
    env = launch_of(Claim.read(duty), "/t", "", 0, 0)["ranks"][0]["env"]
    assert (env["HEADWAY_PARAM_LR"], env["HEADWAY_PARAM_USE_AMP"]) == ("0.1", "true")
    assert env["HEADWAY_PARAMS"] == '{"lr": 0.1, "use-amp": true}'
    assert (env["HEADWAY_SEED"], env["PYTHONHASHSEED"], env["HEADWAY_NOTICE_SIGNAL"]) == ("7", "7", "SIGUSR1")
    duty["env"] = {"PYTHONHASHSEED": "3"}
    assert launch_of(Claim.read(duty), "/t", "", 0, 0)["ranks"][0]["env"]["PYTHONHASHSEED"] == "3"


def test_a_job_that_declared_what_it_goes_on_from_is_waited_for_from_its_first_rename_on() -> None:
    """Its next checkpoint is two files: one of them beside the old other is not a checkpoint of any step."""
    known = Knowledge()
    before = {"model.pt": (10, 1, 1), "optimizer.pt": (10, 2, 2)}
    completeness.restored(known, before, 12, DECLARED)
    completeness.renamed(known, "model.pt")
    assert completeness.look(known, {**before, "model.pt": (10, 3, 3)}, 1.0) is None
    completeness.renamed(known, "optimizer.pt")
    completeness.declared(known, ".", 13, {})
    found = completeness.look(known, {"model.pt": (10, 3, 3), "optimizer.pt": (10, 4, 4)}, 2.0)
    assert found is not None
    assert (found.step, found.how, found.files) == (13, DECLARED, {"model.pt": (10, 3, 3), "optimizer.pt": (10, 4, 4)})


def declared_all(known: Knowledge, step: int, until_ns: int) -> None:
    completeness.declared(known, ".", step, {}, until_ns)


def test_what_is_left_of_a_declared_step_once_the_next_overwrites_it_is_no_checkpoint() -> None:
    known = Knowledge()
    declared_all(known, 1, 2)
    first = completeness.look(known, {"a": (10, 1, 1), "b": (10, 2, 2)}, 0.0)
    assert first is not None
    completeness.kept(known, first)
    declared_all(known, 2, 4)
    assert completeness.look(known, {"a": (3, 5, 1), "b": (10, 4, 2)}, 1.0) is None, "a is of step 3 already"
    declared_all(known, 3, 6)
    assert completeness.look(known, {"a": (0, 6, 1), "b": (10, 6, 2)}, 1.5) is None, "emptied in the tick of b"
    declared_all(known, 3, 6)
    third = completeness.look(known, {"a": (10, 5, 1), "b": (10, 6, 2)}, 2.0)
    assert third is not None
    assert (third.step, set(third.files)) == (3, {"a", "b"})


@pytest.mark.parametrize(("every_s", "missed"), [(1.0, 10), (600.0, 1)])
def test_what_always_changes_beside_the_checkpoints_does_not_keep_them_away_for_long(
    every_s: float, missed: int
) -> None:
    for log, expected in ((True, 0), (False, missed)):
        known = Knowledge()
        kept_steps = []
        for step in range(1, 40):
            ns = step * 100
            declared_all(known, step, ns)
            beside = (step, ns + (step > 1), 2) if log else (7, ns + (step > 1), step)
            found = completeness.look(known, {"model": (10, ns, 1), "beside": beside}, step * every_s)
            if found is not None:
                completeness.kept(known, found)
                kept_steps.append(found.step)
        assert kept_steps == [1, *range(2 + expected, 40)]
