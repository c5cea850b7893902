"""Who saves in a gang, by hand-made syncs: nodes are asked, and what they say makes a step whole."""

from __future__ import annotations

from typing import Any

import pytest

from headway.control.jobs.derive import Preempt
from headway.control.views.files import progress_of, show_checkpoints
from headway.core.errors import BadInput
from headway.core.model import State
from tests.control.nodes.test_file_reports import Played


class Gang(Played):
    """Two nodes with a task each; which node has which is asked once."""

    def __init__(self, **words: Any) -> None:
        super().__init__("n1", "n2")
        self.id = self.start(nodes=2, retries=5, **words)

    @property
    def nodes(self) -> tuple[str, ...]:
        attempt = self.job(self.id).attempt
        assert attempt is not None
        return attempt.nodes

    def saves(self, task: int, step: int, attempt: int = 1, **words: Any) -> None:
        self.save(f"{self.id}/{attempt}/{task}", step, self.nodes[task], **words)

    def asked(self, task: int) -> dict[str, int]:
        return dict(self.say(self.nodes[task]).get("saved") or {})

    def is_idle(self, task: int, step: int, attempt: int = 1) -> None:
        self.say(self.nodes[task], idle={f"{self.id}/{attempt}/{task}": step})

    def is_still_idle(self, task: int, step: int) -> None:
        self.say(self.nodes[task], still_idle={f"{self.id}/1/{task}": step})

    def ends(self, task: int, attempt: int = 1, **outcome: Any) -> None:
        self.end(f"{self.id}/{attempt}/{task}", self.nodes[task], **outcome)

    def committed(self) -> list[int]:
        events = self.store.events(0, 1000, self.id)
        return [event.data["step"] for event in events if event.kind == "CheckpointCommitted"]

    def resumes(self) -> list[dict[str, Any] | None]:
        if self.job(self.id).state is State.QUEUED:
            self.leader.tick(60)
        attempt = self.job(self.id).number
        return [self.duty(f"{self.id}/{attempt}/{task}", self.nodes[task])["resume"] for task in (0, 1)]


def test_the_others_are_asked_and_their_answer_makes_all_steps_whole() -> None:
    gang = Gang()
    gang.saves(0, 15)
    assert gang.asked(0) == {}
    assert gang.asked(1) == {f"{gang.id}/1/1": 15}
    gang.is_idle(1, 15)
    assert (gang.asked(1), gang.committed()) == ({}, [])
    gang.saves(0, 30)
    assert gang.asked(1) == {f"{gang.id}/1/1": 30}
    gang.is_idle(1, 30)
    assert gang.committed() == [15, 30]
    gang.saves(0, 45)
    assert (gang.asked(1), gang.committed()) == ({}, [15, 30, 45])
    attempt = gang.job(gang.id).attempt
    assert attempt is not None
    assert attempt.committed_step == 45


def test_each_task_is_given_its_own_and_the_others_files() -> None:
    gang = Gang()
    for task in (0, 1):
        gang.saves(task, 15)
    for task in (0, 1):
        gang.ends(task)
    first, second = (f"jobs/{gang.id}/1/checkpoints/15-{task}.json" for task in (0, 1))
    assert gang.resumes() == [
        {"step": 15, "key": first, "how": "renamed", "others": [second]},
        {"step": 15, "key": second, "how": "renamed", "others": [first]},
    ]


def test_who_has_saved_nothing_is_given_what_the_first_saved() -> None:
    gang = Gang()
    gang.saves(0, 15)
    gang.is_still_idle(1, 15)
    assert gang.committed() == [15]
    gang.ends(1, idle=True)
    gang.ends(0)
    key = f"jobs/{gang.id}/1/checkpoints/15-0.json"
    assert gang.resumes() == [
        {"step": 15, "key": key, "how": "renamed"},
        {"step": 15, "key": key, "how": "renamed", "own": False},
    ]
    attempts = gang.store.attempts(gang.id)
    assert (attempts[0].committed_step, attempts[1].resumed_step) == (15, 15)
    gang.claim(gang.id, 2)
    gang.saves(0, 30, attempt=2)
    assert gang.committed() == [15, 30], "known from the attempt before"


@pytest.mark.parametrize(("outcome", "from_step"), [({"idle": True}, 15), ({"idle": True, "cut_off": True}, None)])
def test_what_was_saved_when_told_to_end_needs_the_others_to_have_had_their_time(
    outcome: dict[str, Any], from_step: int | None
) -> None:
    gang = Gang()
    gang.leader.do(Preempt(gang.id, "ada")).result()
    gang.saves(0, 15, late=True)
    gang.ends(1, cause="cancelled", **outcome)
    gang.ends(0, cause="cancelled")
    resumes = gang.resumes()
    assert [resume["step"] if resume else None for resume in resumes] == [from_step] * 2


@pytest.mark.parametrize(("cause", "whole"), [("user_code", []), ("crashed", []), ("killed", [15])])
def test_who_is_ended_by_anothers_failure_may_have_been_about_to_write_its_share(cause: str, whole: list[int]) -> None:
    gang = Gang()
    gang.saves(0, 15)
    gang.is_idle(1, 15)
    gang.ends(0, cause=cause)
    gang.ends(1, cause="cancelled", idle=True)
    assert gang.committed() == whole


def test_an_answer_counts_though_its_node_is_lost_and_silence_does_not() -> None:
    for answered in (True, False):
        gang = Gang()
        gang.saves(0, 15)
        if answered:
            gang.is_still_idle(1, 15)
        gang.say(gang.nodes[1], boot_id="another", agent_epoch=2, full=True, facts={"cpus": 8, "memory_bytes": 2**40})
        assert gang.committed() == ([15] if answered else [])
        assert gang.job(gang.id).state is State.STOPPING


def test_a_word_of_another_attempt_or_from_another_node_is_not_heard() -> None:
    gang = Gang()
    gang.saves(0, 15)
    gang.saves(0, 30)
    gang.say(gang.nodes[0], idle={f"{gang.id}/1/1": 30})
    gang.is_idle(1, 30, attempt=2)
    gang.say(gang.nodes[1], idle={"no/1/1": 30, f"{gang.id}/1/1": "30"})
    assert gang.committed() == []


def test_the_first_saves_for_all_where_the_job_says_so() -> None:
    gang = Gang(checkpoint={"saved_by": "first"})
    gang.saves(0, 15)
    gang.saves(1, 15)
    assert gang.committed()[-1] == 15
    assert gang.asked(1) == {}
    for task in (0, 1):
        gang.ends(task)
    first = f"jobs/{gang.id}/1/checkpoints/15-0.json"
    assert [resume["key"] for resume in gang.resumes() if resume] == [first, first]


def test_why_nothing_is_kept_is_said_with_what_to_do() -> None:
    gang = Gang()
    gang.saves(0, 15)
    gang.saves(1, 1, unit="save")
    for task in (0, 1):
        gang.ends(task)
    job = gang.job(gang.id)
    entries = gang.store.checkpoints(gang.id)
    said = progress_of(gang.store, job, gang.store.attempts(gang.id), entries)["checkpoint_lacks"]
    assert said.startswith("step 15: the steps of its tasks cannot be matched (task 0 counts steps, task 1 counts save")
    shown = show_checkpoints(gang.store, job)
    assert [each["complete"] for each in shown] == [False, False]
    assert all("cannot be matched" in each["lacks"] for each in shown)


def test_damage_in_the_share_of_another_task_sets_that_share_aside() -> None:
    gang = Gang()
    for step in (15, 30):
        for task in (0, 1):
            gang.saves(task, step)
    for task in (0, 1):
        gang.ends(task)
    gang.resumes()
    bad = {"task": f"{gang.id}/2/1", "key": f"jobs/{gang.id}/1/checkpoints/30-0.json", "detail": "cut"}
    gang.say(gang.nodes[1], bad_checkpoints=[bad])
    aside = [(each.task, each.step) for each in gang.store.checkpoints(gang.id) if each.state == "set_aside"]
    assert aside == [(0, 30)]
    assert [resume["step"] if resume else None for resume in gang.resumes()] == [15, 15]


def test_what_one_task_saved_begins_a_job_of_another_size_and_shares_do_not() -> None:
    played = Played("n1", "n2")
    one = played.start()
    played.save(f"{one}/1/0", 5, *played.job(one).attempt.nodes)  # type: ignore[union-attr]
    two = played.submit(nodes=2, resume_from={"job": one}, resources={"cpus": 1})
    taken = played.store.checkpoints(two)
    assert [(each.task, each.step, each.savers) for each in taken] == [(0, 5, (0,))]
    gang = Gang()
    for task in (0, 1):
        gang.saves(task, 15)
    with pytest.raises(BadInput, match="is of 2 nodes, each with its own share; the job asks for 1") as refusal:
        gang.submit(nodes=1, resume_from={"job": gang.id})
    assert refusal.value.hint == "use --nodes 2"
