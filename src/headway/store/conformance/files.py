"""The law of all stores about checkpoints, artifacts and what jobs use: the fence above all.

A part of StoreConformance in suite.py, which says how a store is opened.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core.files.checkpoints import SET_ASIDE, Checkpoint
from headway.core.job.events import Event
from headway.core.model import Attempt, Phase
from headway.store.conformance.specimens import a_job, change, ended, placed, save, with_tasks
from headway.store.protocol import Artifact, Batch, Files, Forget, LeaderLost, SharesUsed, Store


def a_checkpoint(step: int, job: str = "j1", attempt: int = 1, task: int = 0, **fields: Any) -> Checkpoint:
    key = f"jobs/{job}/{attempt}/checkpoints/{step}-{task}.json"
    return Checkpoint(job, attempt, task, step, **{"how": "renamed", "key": key, "bytes": 9, "files": 2, **fields})


def an_artifact(path: str, job: str = "j1", attempt: int = 1, task: int = 0, **fields: Any) -> Artifact:
    keys = (f"jobs/{job}/{attempt}/output/{path}",)
    return Artifact(job, attempt, task, path, **{"size": 3, "sha256": "ab", "keys": keys, "at": 1.5, **fields})


class FileConformance:
    def test_without_files_every_question_has_an_answer(self, store: Store) -> None:
        assert not any([store.checkpoints("no"), store.checkpoints_under("jobs/"), store.artifacts("no")])
        assert not store.users("bundle", "no")

    def test_a_checkpoint_comes_back_as_it_was_committed(self, store: Store) -> None:
        save(store, a_job(nodes=2), placed(a_job(nodes=2), "n1", "n2", phase=Phase.GOING))
        one = a_checkpoint(7, task=1, how="declared", at=3.5, metrics={"loss": 0.25}, pinned=True)
        done = store.commit(Batch(files=Files(checkpoints=[one, a_checkpoint(5), a_checkpoint(7)])))
        assert store.checkpoints("j1") == [a_checkpoint(5), a_checkpoint(7), one]
        assert done.fenced == frozenset()

    def test_the_same_step_again_replaces_the_one_before(self, store: Store) -> None:
        save(store, a_job(), placed(a_job(), phase=Phase.GOING))
        store.commit(Batch(files=Files(checkpoints=[a_checkpoint(5)])))
        store.commit(Batch(files=Files(checkpoints=[a_checkpoint(5, bytes=77)])))
        assert store.checkpoints("j1") == [a_checkpoint(5, bytes=77)]

    @pytest.mark.parametrize("phase", [Phase.LOST, Phase.RELEASED])
    def test_a_lost_or_released_task_cannot_write_files(self, store: Store, phase: Phase) -> None:
        save(store, a_job(), placed(a_job(), phase=phase))
        done = store.commit(Batch(files=Files(checkpoints=[a_checkpoint(5)], artifacts=[an_artifact("a")])))
        assert done.fenced == {"j1"}
        assert not store.checkpoints("j1") + store.checkpoints_under("jobs/")
        assert not store.artifacts("j1")

    def test_an_older_attempt_cannot_write_files(self, store: Store) -> None:
        first = placed(a_job(), phase=Phase.GOING)
        save(store, a_job(), first, placed(first, number=2, phase=Phase.GOING))
        files = Files(checkpoints=[a_checkpoint(9), a_checkpoint(5, attempt=2)], artifacts=[an_artifact("a")])
        assert store.commit(Batch(files=files)).fenced == {"j1"}
        assert store.checkpoints("j1") == [a_checkpoint(5, attempt=2)]
        assert store.artifacts("j1") == []

    def test_an_ended_attempt_cannot_write_files_but_the_last_ones_come_with_its_end(self, store: Store) -> None:
        going = placed(a_job(), phase=Phase.GOING)
        save(store, a_job(), going)
        over = ended(going)
        files = Files(checkpoints=[a_checkpoint(5)], artifacts=[an_artifact("a")])
        assert store.commit(Batch(jobs=[change(over)], files=files)).fenced == frozenset()
        late = Files(checkpoints=[a_checkpoint(6)], artifacts=[an_artifact("b")])
        assert store.commit(Batch(files=late)).fenced == {"j1"}
        assert store.checkpoints("j1") == [a_checkpoint(5)]
        assert store.artifacts("j1") == [an_artifact("a")]

    def test_an_attempt_that_is_followed_by_another_in_the_same_batch_keeps_its_last_files(self, store: Store) -> None:
        going = placed(a_job(), phase=Phase.GOING)
        save(store, a_job(), going)
        assert isinstance(going.attempt, Attempt)
        over = with_tasks(replace(going, attempt=replace(going.attempt, ended_at=5.0)), Phase.ENDED)
        again = placed(over, number=2)
        store.commit(Batch(jobs=[change(over), change(again)], files=Files(checkpoints=[a_checkpoint(5)])))
        assert store.checkpoints("j1") == [a_checkpoint(5)]

    @pytest.mark.parametrize("foreign", [{"job": "no"}, {"attempt": 2}, {"task": 1}])
    def test_what_does_not_exist_cannot_write_files(self, store: Store, foreign: dict[str, Any]) -> None:
        save(store, a_job(), placed(a_job(), phase=Phase.GOING))
        files = Files([replace(a_checkpoint(5), **foreign)], artifacts=[replace(an_artifact("a"), **foreign)])
        assert store.commit(Batch(files=files)).fenced == {foreign.get("job", "j1")}
        assert store.checkpoints("j1") == store.checkpoints("no") == []

    def test_a_new_job_may_begin_from_anothers_checkpoint_and_a_started_one_may_not(self, store: Store) -> None:
        taken = a_checkpoint(5, "j2", 0, key="jobs/j1/3/checkpoints/5-0.json")
        uses = [SharesUsed("j2", "origin", "j1")]
        store.commit(Batch(jobs=[change(a_job("j2"))], files=Files(checkpoints=[taken], uses=uses)))
        assert store.checkpoints("j2") == [taken]
        assert store.checkpoints_under("jobs/j1/") == [taken]
        assert store.users("origin", "j1") == ["j2"]
        assert store.uses("j2") == uses
        save(store, placed(a_job("j2"), phase=Phase.GOING))
        assert store.commit(Batch(files=Files(checkpoints=[a_checkpoint(6, "j2", 0)]))).fenced == {"j2"}

    def test_checkpoints_are_set_aside_pinned_and_dropped(self, store: Store) -> None:
        save(store, a_job(), placed(a_job(), phase=Phase.GOING))
        first, second, third = a_checkpoint(1), a_checkpoint(2, metrics={"a": 1.0}), a_checkpoint(3)
        store.commit(Batch(files=Files(checkpoints=[first, second, third])))
        known = replace(second, state=SET_ASIDE, pinned=True, savers=(0, 2))
        changed = [replace(known, metrics={}), a_checkpoint(9)]
        store.commit(Batch(files=Files(changed=changed, dropped=[first, a_checkpoint(8)])))
        assert store.checkpoints("j1") == [known, third]

    def test_checkpoints_are_found_by_the_beginning_of_their_key(self, store: Store) -> None:
        for id in ("j1", "j10"):
            save(store, a_job(id), placed(a_job(id), phase=Phase.GOING))
        ones = [a_checkpoint(1), a_checkpoint(2, key="jobs/j10/1/checkpoints/x"), a_checkpoint(1, "j10")]
        store.commit(Batch(files=Files(checkpoints=ones)))
        assert store.checkpoints_under("jobs/j1/") == [ones[0]]
        assert store.checkpoints_under("jobs/j10/") == [ones[2], ones[1]]

    def test_artifacts_come_back_in_order_and_the_newest_of_a_path_stays(self, store: Store) -> None:
        save(store, a_job(nodes=2), placed(a_job(nodes=2), "n1", "n2", phase=Phase.GOING))
        whole = an_artifact("b/ü.txt", keys=("k1", "k2"), size=5 << 30)
        store.commit(Batch(files=Files(artifacts=[an_artifact("a", task=1), whole, an_artifact("a")])))
        store.commit(Batch(files=Files(artifacts=[an_artifact("a", size=4)])))
        assert store.artifacts("j1") == [an_artifact("a", size=4), whole, an_artifact("a", task=1)]
        assert store.artifacts("j1", 2) == []

    def test_a_forgotten_job_leaves_no_files(self, store: Store) -> None:
        going = placed(a_job(), phase=Phase.GOING)
        save(store, a_job(), going)
        store.commit(Batch(files=Files(checkpoints=[a_checkpoint(1)], artifacts=[an_artifact("a")])))
        save(store, ended(going))
        store.commit(Batch(forget=[Forget("j1", Event("JobForgotten", 1.0, "j1"))]))
        assert not store.checkpoints("j1") + store.checkpoints_under("jobs/")
        assert not store.artifacts("j1")

    def test_a_server_that_lost_the_lead_commits_no_checkpoint(self, store: Store) -> None:
        save(store, a_job(), placed(a_job(), phase=Phase.GOING))
        store.take_lead("s1", "", 100.0, 10.0)
        store.take_lead("s2", "", 120.0, 10.0)
        with pytest.raises(LeaderLost):
            store.commit(Batch(files=Files(checkpoints=[a_checkpoint(1)])), epoch=1)
        assert store.checkpoints("j1") == []
