"""The judge of the trainings, by made-up journals: each way of breaking the promise is a fault, keeping it is none."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from tests.trainings.habits import PLAIN
from tests.trainings.journal import Journal, Line
from tests.trainings.judge import MACHINE, NOTICE, RANK, Commit, End, Evidence, judge
from tests.trainings.table import rows

EVERY = 10


def attempt(number: int, began: int, reached: int, at: float, rank: int = 0, saves: bool = True) -> list[Line]:
    """What a rank writes that begins after a step and comes to another, a step a second."""
    lines = [Line(at, number, rank, "began", began, f"s{began}" if began else "")]
    for step in range(began + 1, reached + 1):
        lines.append(Line(at + 0.5, number, rank, "told", step - 1))
        at += 1.0
        lines.append(Line(at, number, rank, "step", step, f"s{step}"))
        if step % EVERY == 0 and saves:
            lines += [Line(at + 0.1, number, rank, "saving", step), Line(at + 0.2, number, rank, "saved", step)]
    return [*lines, Line(at, number, rank, "told", reached)]


def told(*resumed_and_lost: tuple[int | None, int], state: str = "succeeded") -> dict[str, Any]:
    heard = {"lost_at_least": False, "steps_told": True}
    attempts = [{"resumed_step": resumed, "steps_lost": lost, **heard} for resumed, lost in resumed_and_lost]
    return {"state": state, "sentence": "…", "attempts": attempts}


# Killed at step 25, goes on from the save of step 20, and comes to step 30.
DONE = Line(200.0, 2, 0, "done", 30, "s30")
CALM = Evidence(
    Journal([*attempt(1, 0, 25, 0.0), *attempt(2, 20, 30, 100.0), DONE]),
    [End(1, RANK, 25.5)],
    [Commit(1, 10, 10.5), Commit(1, 20, 20.5), Commit(2, 30, 110.5)],
    told((None, 5), (20, 0)),
    [{"step": 30}, {"step": 20}],
    {0: "s30"},
)


def test_what_was_saved_and_kept_has_no_fault() -> None:
    found = judge(CALM)
    assert found.faults == []
    assert (found.lost_without, found.beyond, found.identical) == ([5], [0], True)
    assert found.commit_s == pytest.approx([0.3, 0.3, 0.3])


def begins_from(step: int) -> Evidence:
    lines = [*attempt(1, 0, 25, 0.0), *attempt(2, step, 30, 100.0), DONE]
    return replace(CALM, journal=Journal(lines), told=told((None, 25 - step), (step or None, 0)))


def test_older_than_the_newest_finished_save_is_a_fault() -> None:
    found = judge(begins_from(10))
    assert found.beyond == [10]
    assert "began from step 10, though step 20 was saved" in found.faults[0]


def test_a_lost_machine_may_take_what_had_no_time_to_be_committed() -> None:
    case = replace(begins_from(10), commits=[Commit(1, 10, 10.5), Commit(2, 30, 110.5)])
    assert judge(replace(case, ends=[End(1, MACHINE, 20.4)])).faults == []
    assert judge(replace(case, ends=[End(1, MACHINE, 25.5)])).beyond == [10], "longer than any commit took"
    late = replace(case, commits=[Commit(1, 10, 10.5), Commit(1, 20, 20.3)], ends=[End(1, MACHINE, 20.4)])
    assert judge(late).beyond == [10], "it was committed"


def test_an_end_before_has_its_own_verdict() -> None:
    lines = [*attempt(1, 0, 25, 0.0), *attempt(2, 10, 15, 100.0), *attempt(3, 10, 30, 200.0)]
    said = told((None, 15), (10, 5), (10, 0))
    case = replace(CALM, journal=Journal(lines), ends=[End(1, RANK, 25.5), End(2, RANK, 105.5)], told=said)
    assert judge(case).beyond == [10, 0]


def test_what_nobody_can_tell_to_be_whole_so_soon_may_be_lost() -> None:
    case = replace(begins_from(10), ends=[End(1, RANK, 20.5)])
    assert judge(case).beyond == [10]
    assert judge(replace(case, unsure_s=1.0)).beyond == [0]
    assert judge(replace(begins_from(10), unsure_s=1.0)).beyond == [10], "it had the time"


def test_the_first_save_of_several_files_may_be_lost() -> None:
    lines = [*attempt(1, 0, 15, 0.0), *attempt(2, 0, 30, 100.0)]
    case = replace(CALM, journal=Journal(lines), ends=[End(1, RANK, 15.5)])
    assert judge(case).beyond == [10]
    assert judge(replace(case, several=True)).beyond == [0]
    assert judge(replace(begins_from(10), several=True)).beyond == [10], "it was the second"


def test_who_heeds_a_notice_loses_nothing() -> None:
    case = replace(CALM, ends=[End(1, NOTICE, 25.5)])
    assert judge(case).faults == []
    assert "lost 5 steps" in judge(replace(case, heeds=True)).faults[0]


def test_what_is_not_whole_or_is_another_state_is_a_fault() -> None:
    torn = Journal([*CALM.journal.lines, Line(99.0, 2, 0, "torn", why="cut")])
    assert "not whole: cut" in judge(replace(CALM, journal=torn)).faults[0]
    lines = [replace(line, hash="x") if line.what == "began" and line.step else line for line in CALM.journal.lines]
    assert "another state" in judge(replace(CALM, journal=Journal(lines))).faults[0]


def test_another_result_or_none_is_a_fault() -> None:
    assert "not that of an undisturbed" in judge(replace(CALM, undisturbed={0: "s31"})).faults[0]
    assert "it failed" in judge(replace(CALM, told=told((None, 5), (20, 0), state="failed"))).faults[0]


def test_the_account_is_that_of_the_journal() -> None:
    wrong = judge(replace(CALM, told=told((None, 2), (20, 0))))
    assert (wrong.account_exact, len(wrong.faults)) == (False, 1)
    assert "2 steps told as lost, 5 were" in wrong.faults[0]
    assert "told to resume from step 2, it was 20" in judge(replace(CALM, told=told((None, 5), (2, 0)))).faults[0]


def loses(steps: int, **said: Any) -> Evidence:
    """Comes to step 25, a step a second, goes on from 20, and this is told of it."""
    attempts = [{**told((None, steps))["attempts"][0], **said}, *told((20, 0))["attempts"]]
    return replace(CALM, told={**CALM.told, "attempts": attempts})


def test_of_a_machine_that_is_gone_the_account_is_a_least() -> None:
    def lost(steps: int, **said: Any) -> Evidence:
        return replace(loses(steps, lost_at_least=True, **said), ends=[End(1, MACHINE, 26.5)])

    assert [judge(lost(steps)).account_exact for steps in (0, 1, 5, 6)] == [False, True, True, False]
    assert judge(lost(1)).account == [(1, 5, True, True)]
    assert "at least 0 steps told as lost, 5 were" in judge(lost(0)).faults[0], "it had been told for long"
    assert not judge(replace(lost(1), ends=[End(1, RANK, 26.5)])).account_exact, "its last word was heard"
    assert not judge(replace(loses(1), ends=[End(1, MACHINE, 26.5)])).account_exact, "it is told as exact"


def test_who_is_ended_between_a_step_and_the_word_of_it_may_be_known_by_either() -> None:
    lines = [line for line in CALM.journal.lines if (line.attempt, line.what, line.step) != (1, "told", 25)]
    found = [judge(replace(loses(steps), journal=Journal(lines))).account_exact for steps in (3, 4, 5, 6)]
    assert found == [False, True, True, False]


def test_steps_that_are_known_with_the_first_save_only_may_be_untold_before_it() -> None:
    assert not judge(loses(0, steps_told=False)).account_exact
    assert not judge(replace(loses(0, steps_told=False), tells_later=True)).account_exact, "it had saved"
    lines = [*attempt(1, 0, 25, 0.0, saves=False), *attempt(2, 0, 30, 100.0), DONE]
    early = replace(CALM, journal=Journal(lines), told=told((None, 0), (None, 0)))
    early.told["attempts"][0]["steps_told"] = False
    assert not judge(early).account_exact
    assert judge(replace(early, tells_later=True)).account_exact


def lost_s(seconds: float, **more: Any) -> Evidence:
    """Saved step 20 at 20.2 s, killed at 25.5 s; its last line is of 25.0 s."""
    attempts = [
        {**told((None, 5))["attempts"][0], "started_at": -1.0, "ended_at": 33.0, "seconds_lost": seconds},
        *told((20, 0))["attempts"],
    ]
    return replace(CALM, told={**CALM.told, "attempts": attempts}, **more)


def test_seconds_lost_are_those_of_the_journal() -> None:
    assert judge(lost_s(5.3)).faults == []
    missed = judge(lost_s(0.3))
    assert (missed.account_exact, missed.faults) == (
        False,
        ["attempt 1: 0.3 s told as lost, 4.8 s were (it went on from step 20)"],
    )
    assert not judge(lost_s(15.0)).account_exact, "an interval was counted twice"
    assert not judge(lost_s(12.0)).account_exact, "storing what it left was counted"
    assert judge(lost_s(12.0, ends=[End(1, MACHINE, 25.5)])).account_exact, "so long nobody knew that it was gone"


def test_money_is_seconds_by_price() -> None:
    def paid(money: float, in_all: int = 5) -> Evidence:
        loss = {"steps": 5, "seconds": 5.3, "money": money}
        account = {"total": {**loss, "steps": in_all}, "attempts": [loss]}
        case = lost_s(5.3, price_per_s=2.0)
        return replace(case, told={**case.told, "account": account})

    assert judge(paid(10.6)).faults == []
    assert "are told to cost 5.3, they cost 10.60" in judge(paid(5.3)).faults[0]
    assert judge(paid(10.6, in_all=10)).faults == ["10 steps told in all, 5 by attempts"]


def test_steps_that_are_not_the_job_s_own_are_a_fault() -> None:
    found = judge(replace(CALM, checkpoints=[{"step": 3}, {"step": 2}]))
    assert not found.own_steps
    assert "its last checkpoint is shown as step 3; it saved step 30" in found.faults[1]


def test_a_gang_has_saved_when_all_who_save_have() -> None:
    second = [replace(line, rank=1) for line in attempt(1, 0, 15, 0.0)]
    journal = Journal([*attempt(1, 0, 25, 0.0), *second])
    assert journal.saved() == 10
    watching = [line for line in second if line.what in ("began", "step")]
    assert Journal([*attempt(1, 0, 25, 0.0), *watching]).saved() == 20
    assert journal.attempts(ranks=2) == [1]
    assert Journal(attempt(1, 0, 5, 0.0)).attempts(ranks=2) == []


def test_the_table_has_a_row_for_each_training_that_was_tried() -> None:
    lines = [
        {"habit": PLAIN[0].name, **asdict(judge(CALM))},
        {"habit": PLAIN[0].name, **asdict(judge(begins_from(10)))},
    ]
    (row,) = rows(lines, PLAIN)
    assert row == [PLAIN[0].name, "15 steps", "0 + 2", "–", "5, 15", "1", "yes", "yes", "2 of 2"]
    gone = judge(replace(loses(1, lost_at_least=True), ends=[End(1, MACHINE, 26.5)]))
    (row,) = rows([*lines, {"habit": PLAIN[0].name, **asdict(gone)}], PLAIN)
    assert row[-1] == "2 of 2, and 1 of 1 at least"
