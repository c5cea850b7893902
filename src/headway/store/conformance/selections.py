"""The law of all stores about selections: which jobs a filter finds, and how many in each state.

A part of StoreConformance in suite.py, which says how a store is opened.
"""

from __future__ import annotations

from dataclasses import replace

from headway.core.job.events import Event
from headway.store.conformance.specimens import a_job, change, ended, ids, save
from headway.store.protocol import Batch, Forget, JobChange, JobFilter, Store


def found(store: Store, which: JobFilter) -> list[str]:
    """The ids of a selection; the counts must say the same."""
    jobs = store.page(which, None, 99)
    assert sum(store.counts(which).values()) == len(jobs)
    return ids(jobs)


class SelectionConformance:
    def test_a_tag_finds_its_jobs_by_name_and_by_value(self, store: Store) -> None:
        tagged = a_job("j1", tags=(("team", "vision"), ("é", "a%b")))
        save(store, tagged, a_job("j2", tags=(("team", "Vision"),)), a_job("j3"))
        assert found(store, JobFilter(tags=(("team", "vision"),))) == ["j1"]
        assert found(store, JobFilter(tags=(("team", None),))) == ["j2", "j1"]
        assert found(store, JobFilter(tags=(("team", "vision"), ("é", "a%b")))) == ["j1"]
        assert found(store, JobFilter(tags=(("team", "vision"), ("é", "other")))) == []

    def test_changed_tags_find_it_and_those_of_before_do_not(self, store: Store) -> None:
        job = a_job("j1", tags=(("team", "vision"),))
        save(store, job)
        over = ended(job)
        save(store, over)
        spec = replace(over.spec, tags=(("best", "yes"),))
        store.commit(Batch(jobs=[JobChange(replace(over, spec=spec, version=3), 2, respecified=True)]))
        assert found(store, JobFilter(tags=(("team", None),))) == []
        assert found(store, JobFilter(tags=(("best", "yes"),))) == ["j1"]
        assert store.page(JobFilter(), None, 9)[0].spec.tags == (("best", "yes"),)
        store.commit(Batch(forget=[Forget("j1", Event("JobForgotten", 1.0, "j1"))]))
        assert found(store, JobFilter(tags=(("best", None),))) == []

    def test_a_star_in_a_name_stands_for_anything_and_all_else_for_itself(self, store: Store) -> None:
        names = ["sweep-1", "sweep-2", "Sweep-3", "sweep_4", "x[y]?"]
        save(store, *(a_job(f"j{at}", name=name) for at, name in enumerate(names)))
        assert found(store, JobFilter(name="sweep-*")) == ["j1", "j0"]
        assert found(store, JobFilter(name="*w*p*")) == ["j3", "j2", "j1", "j0"]
        assert found(store, JobFilter(name="sweep_*")) == ["j3"]
        assert found(store, JobFilter(name="x[y]?*")) == ["j4"]
        assert found(store, JobFilter(name="sweep")) == []

    def test_age_is_counted_from_the_end_and_of_unfinished_jobs_from_their_submission(self, store: Store) -> None:
        old, new = a_job("j1", submitted_at=10.0), a_job("j2", submitted_at=90.0)
        save(store, old, new, a_job("j3", submitted_at=20.0))
        save(store, ended(old, at=80.0), ended(new, at=95.0))
        assert found(store, JobFilter(before=50.0)) == ["j3"]
        assert found(store, JobFilter(before=85.0)) == ["j3", "j1"]

    def test_what_was_retried_is_left_out_on_request(self, store: Store) -> None:
        first = a_job("a-0", array_id="a", array_index=0)
        save(store, first, a_job("a-1", array_id="a", array_index=1))
        save(store, ended(first))
        again = [a_job(id, array_id="a", array_index=0, retry_of="a-0") for id in ("r1", "r2")]
        store.commit(Batch(jobs=[change(job) for job in again]))
        store.commit(Batch(jobs=[change(a_job("r3", array_id="a", array_index=0, retry_of="r2"))]))
        assert found(store, JobFilter(array="a")) == ["r3", "r2", "r1", "a-1", "a-0"]
        assert found(store, JobFilter(array="a", unretried=True)) == ["r3", "r1", "a-1"]
        assert store.counts(JobFilter(array="a", unretried=True)) == {"queued": 3}

    def test_counts_are_those_of_the_states_that_were_asked_for(self, store: Store) -> None:
        first = a_job("j1", queue="night")
        save(store, first, a_job("j2", queue="night"), a_job("j3"))
        save(store, ended(first))
        assert store.counts(JobFilter(queue="night")) == {"succeeded": 1, "queued": 1}
        assert store.counts(JobFilter(queue="night", states=frozenset({"queued", "failed"}))) == {"queued": 1}
