"""What a rehearsal concludes from what was seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core.rehearsal.log_counters import Count
from headway.core.rehearsal.verdict import (
    FAIL,
    OK,
    WARN,
    FileSeen,
    Half,
    Observations,
    Remark,
    SaveSeen,
    interval_s,
    rehearsal_verdict,
)

SAVES = (SaveSeen(10, 2.0, 2048, "renamed", names=("snapshot.pt",)), SaveSeen(20, 4.0, 2048, "renamed"))
ON = Count("step", 1, 23, 21, 1, "step 1", "step 21")
AGAIN = Count("step", 1, 23, 1, 1, "step 1", "step 1")
RESUMED = Observations(120.0, Half(5.0, SAVES, "preempted"), Half(2.0, number=2), resumed_step=20)
NOTHING = Observations(120.0, Half(120.0, (), "preempted"), Half(1.0, number=2))


def saved(step: int, **more: Any) -> Half:
    return Half(2.0, (SaveSeen(step, 1.0, **more),), number=2)


TABLE: list[tuple[str, Observations, str, str]] = [
    (
        "its log goes on",
        replace(RESUMED, count=ON),
        "resumes",
        'from step 20; attempt 2 went on with "step 21" (attempt 1 began with "step 1")',
    ),
    (
        "its log begins again",
        replace(RESUMED, count=AGAIN),
        "starts_over",
        'no: step 20 was put back, but attempt 2 began with "step 1" again',
    ),
    (
        "it loads the weights alone",
        replace(RESUMED, count=AGAIN, read=True),
        "starts_over",
        'no: step 20 was put back, but attempt 2 began with "step 1" again, though it opened snapshot.pt',
    ),
    (
        "its saves go on",
        replace(RESUMED, after=saved(30, unit="epoch"), resumed_unit="epoch"),
        "resumes",
        "from epoch 20; its next save was epoch 30",
    ),
    (
        "it declares the next step",
        replace(RESUMED, after=saved(21, how="declared")),
        "resumes",
        "from step 20; its next save was step 21",
    ),
    (
        "its names begin again, so that steps are only counted",
        replace(RESUMED, after=saved(21, unit="step"), read=False),
        "starts_over",
        "no: step 20 was put back, but attempt 2 did not open it",
    ),
    (
        "its saves begin again",
        replace(RESUMED, after=saved(10)),
        "starts_over",
        "no: step 20 was put back, but the next save of attempt 2 was step 10",
    ),
    (
        "saves are only counted, and it opened the last one",
        replace(RESUMED, after=saved(21, unit="save"), read=True),
        "resumes",
        "from step 20; attempt 2 opened snapshot.pt, but prints no steps: that it goes on from there is not seen",
    ),
    (
        "saves are only counted, and it opened none",
        replace(RESUMED, after=saved(21), read=False),
        "starts_over",
        "no: step 20 was put back, but attempt 2 did not open it",
    ),
    (
        "it has not done anything yet",
        replace(RESUMED, read=False),
        "unclear",
        "perhaps: step 20 was put back and attempt 2 ran for 2.0 s, but nothing shows whether it went on from there",
    ),
    (
        "it ran to its end in silence",
        replace(RESUMED, after=Half(2.0, (), "succeeded", number=2)),
        "unclear",
        "perhaps: step 20 was put back and attempt 2 ran to its end for 2.0 s, but nothing shows whether it went on "
        "from there",
    ),
    (
        "it cannot load what it saved",
        replace(RESUMED, after=Half(0.4, (), "exit_code", "attempt 2 failed: KeyError", ("KeyError: 'step'",), 2)),
        "fails_on_resume",
        "no: step 20 was put back, and after 0.4 s attempt 2 failed: KeyError",
    ),
    (
        "it goes on, and fails on its next save",
        replace(RESUMED, count=ON, after=Half(1.4, (), "exit_code", "attempt 2 failed: EACCES", (), 2)),
        "fails_on_resume",
        "no: step 20 was put back, and after 1.4 s attempt 2 failed: EACCES",
    ),
    ("it saves nothing", NOTHING, "saves_nothing", "no: it saved nothing within 2 m 00 s"),
    (
        "it writes a log",
        replace(NOTHING, files=(FileSeen("out.log", 900),)),
        "saves_nothing",
        "no: it saved nothing within 2 m 00 s; all that it wrote is out.log (900 B)",
    ),
    (
        "it saves where nobody looks",
        replace(NOTHING, files=(FileSeen("out.log", 900), FileSeen("runs/last.pt", 2048))),
        "saves_nothing",
        "no: it wrote runs/last.pt (2.0 KiB), which is not where checkpoints are kept",
    ),
    (
        "it saves where nobody looks, and finds it there because nothing was lost",
        replace(NOTHING, files=(FileSeen("last.pt", 2048),), count=ON),
        "saves_nothing",
        "no: it wrote last.pt (2.0 KiB), which is not where checkpoints are kept; attempt 2 went on with "
        '"step 21" only because it ran in the same place',
    ),
    (
        "it never finishes a file",
        replace(NOTHING, files=(FileSeen("last.pt", 2048, kept=True),)),
        "not_restored",
        "no: it wrote last.pt (2.0 KiB), which was never known to be complete",
    ),
    (
        "not all nodes save that must",
        replace(NOTHING, nodes=2, before=Half(9.0, (), "preempted", partial=(SaveSeen(7, 1.0, tasks=(0,)),))),
        "not_restored",
        "no: only 1 of the 2 nodes saved step 7, and each that saves must have saved it",
    ),
    (
        "what it saved is not put back",
        replace(RESUMED, resumed_step=None),
        "not_restored",
        "no: attempt 2 began with nothing, though step 20 was saved",
    ),
    (
        "it is over before it saves",
        Observations(120.0, Half(3.0, (), "succeeded")),
        "ended_before",
        "not tried: it succeeded after 3.0 s, without saving",
    ),
    (
        "it is over after a save",
        Observations(120.0, Half(3.0, SAVES[:1], "succeeded")),
        "ended_before",
        "not tried: it succeeded after 3.0 s, after 1 save, before it could be preempted",
    ),
    (
        "it fails by itself",
        Observations(120.0, Half(3.0, (), "exit_code", "attempt 1 failed with exit code 1", ("no data",))),
        "failed_before",
        "not tried: attempt 1 failed with exit code 1",
    ),
    (
        "it never began",
        Observations(120.0, Half(0.0, (), "prepare_failed", "no such package")),
        "failed_before",
        "not tried: no such package",
    ),
]


@pytest.mark.parametrize(("seen", "kind", "found"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_one_sentence_for_each_case(seen: Observations, kind: str, found: str) -> None:
    verdict = rehearsal_verdict(seen)
    assert (verdict.kind, verdict.remarks[0].found) == (kind, found)
    expected = {True: OK, False: FAIL, None: WARN}[verdict.resumes]
    assert verdict.remarks[0].grade == expected
    assert verdict.remarks[0].advice or verdict.resumes or verdict.remarks[0].quote or kind == "failed_before"


def remark(seen: Observations, what: str) -> Remark | None:
    return next((each for each in rehearsal_verdict(seen).remarks if each.what == what), None)


def found(seen: Observations, what: str) -> str:
    told = remark(seen, what)
    return told.found if told else ""


def test_a_job_s_last_words_come_with_its_failure() -> None:
    after = Half(0.4, (), "exit_code", "attempt 2 failed", ("Traceback", "KeyError: 'step'"), 2)
    told = remark(replace(RESUMED, after=after), "resumes")
    assert told is not None
    assert (told.quote, told.advice) == (
        after.last_lines,
        ("it must be able to load what it saved itself: snapshot.pt",),
    )


def test_how_it_saves() -> None:
    assert found(RESUMED, "saves") == "2.0 KiB, first after 2.0 s, then about every 2.0 s"
    many = replace(SAVES[0], names=("a.pt", "b.pt", "c.pt", "d.pt"), found="outputs/*, found as Lightning")
    one = replace(RESUMED, before=Half(5.0, (many,), "preempted"))
    assert found(one, "saves") == (
        "a.pt, b.pt, c.pt and 1 more, 2.0 KiB (outputs/*, found as Lightning), first after 2.0 s"
    )
    told = replace(RESUMED, before=Half(5.0, (replace(SAVES[0], on_notice=True),), "preempted"))
    assert found(told, "saves") == "snapshot.pt, 2.0 KiB, only when it was told that the end is near"
    assert remark(NOTHING, "saves") is None


@pytest.mark.parametrize(
    ("how", "grade"),
    [("declared", OK), ("renamed", OK), ("marker", OK), ("closed", OK), ("settled", WARN), ("in-2030", OK)],
)
def test_only_a_guess_at_completeness_is_warned_of(how: str, grade: str) -> None:
    told = remark(replace(RESUMED, before=Half(5.0, (replace(SAVES[0], how=how),), "preempted")), "complete")
    assert told is not None
    assert (told.grade, bool(told.advice)) == (grade, grade == WARN)


@pytest.mark.parametrize(
    ("tasks", "sharded", "says"),
    [
        ((0,), False, "node 0 saves for all 2; the others get its files when the job resumes"),
        ((0, 1), True, "each of the 2 nodes saves its own part"),
        ((0, 1), False, "2 of the 2 nodes save"),
        ((), False, ""),
    ],
)
def test_who_saves_in_a_gang(tasks: tuple[int, ...], sharded: bool, says: str) -> None:
    before = Half(5.0, (replace(SAVES[1], tasks=tasks, sharded=sharded),), "preempted")
    assert found(replace(RESUMED, before=before, nodes=2), "nodes") == says
    assert found(replace(RESUMED, before=before), "nodes") == ""


def test_a_folder_that_is_written_to_can_be_kept_as_it_is() -> None:
    told = remark(replace(NOTHING, files=(FileSeen("out/a/m.pt", 9),)), "resumes")
    assert told is not None
    assert told.advice[0] == "have it kept where it lies: --checkpoint-dir out"
    told = remark(replace(NOTHING, files=(FileSeen("/data/m.pt", 9),)), "resumes")
    assert told is not None
    assert len(told.advice) == 1


def test_what_a_preemption_costs() -> None:
    lost = "it did not save when it was told to end: a preemption loses what came after its last save"
    assert found(replace(RESUMED, count=ON), "notice") == f"{lost}, up to 2.0 s of work (3 steps done twice this time)"
    assert found(replace(RESUMED, count=AGAIN), "notice") == f"{lost}, up to 2.0 s of work"
    saved_last = replace(RESUMED.before, saves=(*SAVES, SaveSeen(23, 5.0, on_notice=True)))
    nothing = "it saved when it was told to end: a preemption loses nothing"
    assert found(replace(RESUMED, before=saved_last), "notice") == nothing
    assert found(replace(RESUMED, before=saved_last, count=replace(ON, taken_up=24)), "notice") == nothing
    assert found(replace(RESUMED, count=replace(ON, taken_up=24)), "notice") == f"{lost}, up to 2.0 s of work"
    ended_at_once = replace(RESUMED, before=saved_last, caught=False)
    assert found(ended_at_once, "notice") == f"{lost}, up to 2.0 s of work", "that save was on its way already"
    assert found(replace(RESUMED, killed=True), "notice") == "it did not end within its 30 s of grace and was killed"
    assert remark(NOTHING, "notice") is None


def test_what_is_left_in_the_caller_s_directory_is_named() -> None:
    files = (FileSeen("snapshot.pt", 9, kept=True), FileSeen("runs/log", 2048), FileSeen("/data/x", 1))
    seen = replace(RESUMED, files=files)
    assert remark(seen, "left") is None
    assert found(replace(seen, in_place=True), "left") == "in the working directory: runs/log (2.0 KiB)"
    assert remark(replace(NOTHING, files=files[1:], in_place=True), "left") is None, "it is said already"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("checkpoint-500/trainer_state.json", "Hugging Face"),
        ("epoch=3.ckpt", "Lightning"),
        ("model.keras", "Keras"),
        ("m.pth", "PyTorch"),
        ("state.json", ""),
    ],
)
def test_how_to_look_for_it_depends_on_what_wrote_it(name: str, says: str) -> None:
    before = Half(5.0, (replace(SAVES[1], names=(name,)),), "preempted")
    told = remark(replace(RESUMED, before=before, count=AGAIN), "resumes")
    assert told is not None
    assert "$HEADWAY_CHECKPOINT_DIR" in told.advice[0]
    assert says in told.advice[-1]


def test_the_usual_time_between_two_saves() -> None:
    def at(*times: float) -> tuple[SaveSeen, ...]:
        return tuple(SaveSeen(number, at_s) for number, at_s in enumerate(times))

    assert interval_s(at(1.0)) == 0.0
    assert interval_s(at(1.0, 2.0, 9.0, 10.0)) == 1.0
    assert interval_s((*at(1.0, 3.0), SaveSeen(9, 3.1, on_notice=True))) == 2.0


def test_files_of_the_working_directory_are_named_as_the_script_names_them() -> None:
    save = SaveSeen(5, 2.0, 10, "closed", "epoch", (".headway-workdir/snapshot.pt",))
    seen = Observations(60.0, Half(3.0, (save,)), Half(3.0, number=2), resumed_step=5, read=False, count=AGAIN)
    said = rehearsal_verdict(seen)
    assert not any("headway-workdir" in str(remark) for remark in said.remarks)
    assert said.remarks[0].advice[0].startswith("load snapshot.pt at the start")
