"""The law of all stores, as tests: a store is right when a subclass of StoreConformance passes with it.

A subclass says how to open a store (`open_store`) and nothing else. Needs pytest; the server never imports this file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.core.job.events import Event
from headway.core.model import Attempt, Cause, Losses, Node, Outcome, Phase, Resources, Retries, State, Task
from headway.core.spec.program import ProgramSpec
from headway.core.spec.program_words import Environment, Input, Limits, LogPolicy, ResumeFrom, RetryPolicy
from headway.store.conformance.accounts import AccountConformance
from headway.store.conformance.files import FileConformance
from headway.store.conformance.selections import SelectionConformance
from headway.store.conformance.setup import SetupConformance
from headway.store.conformance.specimens import a_job, a_range, change, ended, ids, numbers, placed, save, with_tasks
from headway.store.conformance.tables import TableConformance
from headway.store.protocol import (
    Batch,
    Forget,
    JobChange,
    JobFilter,
    LeaderLost,
    ServerSeen,
    Store,
    SubmitKey,
)

PROGRESS = ProgramSpec(
    bundle="b" * 64,
    environment=Environment("uv-lock", "uv.lock"),
    inputs=(Input("data", "/data"),),
    params=(("lr", 0.1), ("amp", True), ("name", "x")),
    again=RetryPolicy((75,)),
    log_policies=(LogPolicy("ECC", "bad gpu"),),
    limits=Limits(pending_s=60.0),
    resume_from=ResumeFrom("j0", 7),
)


class StoreConformance(FileConformance, SetupConformance, SelectionConformance, AccountConformance, TableConformance):
    """Subclass it, say how to open a store, and run pytest."""

    def open_store(self, place: Path) -> Store:
        """Open the store that is kept at `place`, with the tables of tables.SPECIMENS; twice is two servers on it."""
        raise NotImplementedError

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        return tmp_path

    @pytest.fixture
    def store(self, place: Path) -> Iterator[Store]:
        store = self.open_store(place)
        yield store
        store.close()

    @pytest.fixture
    def other(self, store: Store, place: Path) -> Iterator[Store]:
        other = self.open_store(place)
        yield other
        other.close()

    # --- jobs ---
    def test_an_empty_store_answers_every_question(self, store: Store) -> None:
        assert not any([store.jobs(["no"]), store.unfinished(), store.page(JobFilter(), None, 10), store.find("no")])
        assert not any([store.counts(), store.attempts("no"), store.events(0, 10), store.events(0, 10, "no")])
        assert not any([store.nodes(), store.node("no"), store.submitted("no"), store.lead(), store.last_seq()])
        assert not any([store.logs("no"), store.log_ends("no", 1, 0), store.key_in_use(["no"]), store.key_in_use([])])
        assert not any([store.ended_before(1e12, 10), store.jobs([])])
        assert store.commit(Batch()).last_seq == 0

    def test_a_job_comes_back_as_it_was_saved(self, store: Store) -> None:
        outcome = Outcome(3, None, 1, Cause.USER_CODE, "ValueError: Größe", 77, (("bad gpu", "exclude_node"),))
        task = Task(1, "n2", (0, 3), Phase.ENDED, "10.0.0.2", 4711, outcome)
        attempt = Attempt(
            2, (Task(0, "n1"), task), 1.25, 2.5, 3.75, Cause.USER_CODE, "rank 1", 3, 10, 30, 20, 3.5, 11, 3.25
        )
        job = a_job(
            project="vision", queue="night", pool="lab", priority=-3, nodes=2, ranks_per_node=8,
            resources=Resources(2.5, 1 << 40, 2), env=(("B", "1"), ("A", "é")), tags=(("k", "v"),), wall_s_max=60.5,
            streams="split", workdir="/data", state=State.FAILED, attempt=attempt, cause=Cause.USER_CODE,
            detail="it's \"quoted\"; 100 %", retries=Retries(1, 2, 3), not_before=5.5, stop_by=6.5, grace_s=7.5,
            avoid=("n3", "n4"), ended_at=8.5, retry_of="j0", array_id="a", array_index=4, quick_ends=2,
            losses=Losses(1, 2, 3, 4, 20, 9.5, 5, 6),
            progress=PROGRESS,
        )  # fmt: skip
        store.commit(Batch(jobs=[change(job)]))
        assert store.jobs(["j1"]) == [replace(job, seq=1)]
        assert store.attempts("j1") == [attempt]

    def test_a_command_of_any_bytes_comes_back(self, store: Store) -> None:
        spec = replace(a_job().spec, command=("sh", "-c", "echo \udcff\n\x01🙂"))
        store.commit(Batch(jobs=[change(replace(a_job(), spec=spec))]))
        assert store.jobs(["j1"])[0].spec == spec

    def test_an_odd_character_in_a_detail_does_not_spoil_the_batch(self, store: Store) -> None:
        store.commit(Batch(jobs=[change(a_job(detail="a\0b \udcff c")), change(a_job("j2"))]))
        assert ids(store.jobs(["j1", "j2"])) == ["j1", "j2"]

    def test_an_odd_character_in_a_question_finds_nothing(self, store: Store) -> None:
        for odd in ("j\0", "\udcff"):
            assert not any([store.jobs([odd]), store.find(odd), store.attempts(odd), store.events(0, 9, odd)])
            assert not any([store.page(JobFilter(name=odd), None, 9), store.page(JobFilter(ids=(odd,)), None, 9)])
            assert not any([store.logs(odd), store.node(odd), store.submitted(odd)])

    def test_new_jobs_are_numbered_in_the_order_of_the_batch(self, store: Store) -> None:
        first = store.commit(Batch(jobs=[change(a_job("z")), change(a_job("a"))]))
        second = store.commit(Batch(jobs=[change(a_job("m"))]))
        assert (first.first_job_seq, second.first_job_seq) == (1, 3)
        assert [(job.id, job.seq) for job in store.unfinished()] == [("z", 1), ("a", 2), ("m", 3)]

    def test_a_change_keeps_the_number_that_the_store_gave(self, store: Store) -> None:
        save(store, a_job("j0"), a_job())
        (job,) = save(store, placed(a_job()))
        assert (job.seq, job.version, job.state) == (2, 2, State.STARTING)

    def test_jobs_come_each_with_its_newest_attempt(self, store: Store) -> None:
        one = placed(a_job(nodes=2), "n1", "n2")
        two = placed(one, "n3", number=2)
        save(store, a_job(nodes=2), one, two)
        assert store.jobs(["j1"])[0].attempt == two.attempt
        assert store.attempts("j1") == [one.attempt, two.attempt]

    def test_jobs_are_asked_for_by_many_ids_at_once(self, store: Store) -> None:
        everyone = [f"j{n:04}" for n in range(1500)]
        store.commit(Batch(jobs=[change(a_job(id)) for id in everyone]))
        assert sorted(ids(store.jobs(["no", *everyone]))) == everyone

    def test_an_ended_job_is_no_longer_among_the_unfinished(self, store: Store) -> None:
        save(store, a_job("j1"), a_job("j2"), ended(a_job("j1")))
        assert ids(store.unfinished()) == ["j2"]
        assert store.counts() == {"queued": 1, "succeeded": 1}

    def test_several_changes_of_one_job_may_stand_in_one_batch(self, store: Store) -> None:
        one = placed(a_job(), "n1")
        lost = replace(with_tasks(one, Phase.LOST), state=State.QUEUED)
        two = placed(lost, "n2", number=2)
        batch = Batch(jobs=[change(job, f"V{job.version}") for job in (a_job(), one, lost, two)])
        assert not store.commit(batch).stale
        assert store.jobs(["j1"]) == [replace(two, seq=1)]
        assert [attempt.tasks[0].phase for attempt in store.attempts("j1")] == [Phase.LOST, Phase.PLACED]
        assert [event.kind for event in store.events(0, 9)] == ["V1", "V2", "V3", "V4"]

    def test_one_task_of_a_large_gang_moves_alone(self, store: Store) -> None:
        job = placed(a_job(nodes=300), *(f"n{n}" for n in range(300)))
        save(store, a_job(nodes=300), job)
        for index in (7, 299):
            assert job.attempt is not None
            tasks = list(job.attempt.tasks)
            tasks[index] = replace(tasks[index], phase=Phase.CLAIMED, address="10.0.0.7", port=29500)
            attempt = replace(job.attempt, tasks=tuple(tasks))
            job = replace(job, attempt=attempt, version=job.version + 1)
            save(store, job)
        assert store.jobs(["j1"])[0].attempt == job.attempt

    # --- versions ---
    def test_a_stale_change_leaves_its_neighbours_untouched(self, store: Store) -> None:
        save(store, a_job("j1"), a_job("j2"), placed(a_job("j2"), "n1"))
        late = replace(a_job("j2"), state=State.CANCELLED, version=2)
        done = store.commit(Batch(jobs=[change(ended(a_job("j1")), "A"), change(late, "B"), change(a_job("j3"), "C")]))
        assert done.stale == {"j2"}
        assert [job.state for job in store.jobs(["j1", "j2"])] == [State.SUCCEEDED, State.STARTING]
        assert store.jobs(["j3"])[0].seq == done.first_job_seq == 3
        assert [event.kind for event in store.events(3, 9)] == ["A", "C"]
        assert numbers(store) == list(range(1, done.last_seq + 1))

    def test_a_new_job_with_the_id_of_another_is_stale(self, store: Store) -> None:
        save(store, a_job())
        done = store.commit(Batch(jobs=[change(a_job(user="eve")), change(a_job("j2"))]))
        assert done.stale == {"j1"}
        assert [(job.user, job.seq) for job in store.jobs(["j1", "j2"])] == [("ada", 1), ("ada", 2)]

    def test_a_change_of_a_job_that_does_not_exist_is_stale(self, store: Store) -> None:
        assert store.commit(Batch(jobs=[change(placed(a_job()), "A")])).stale == {"j1"}
        assert not any([store.jobs(["j1"]), store.events(0, 9)])

    def test_a_change_must_make_the_version_after_the_expected_one(self, store: Store) -> None:
        with pytest.raises(ValueError, match="j2"):
            store.commit(Batch(jobs=[change(a_job()), JobChange(a_job("j2", version=7), 0)]))
        assert store.jobs(["j1", "j2"]) == []

    def test_what_a_second_server_wrote_makes_the_first_ones_change_stale(self, store: Store, other: Store) -> None:
        save(store, a_job())
        save(other, placed(a_job(), "n1"))
        assert store.commit(Batch(jobs=[change(placed(a_job(), "n2"))])).stale == {"j1"}
        assert [attempt.nodes for attempt in store.attempts("j1")] == [("n1",)]

    def test_two_servers_write_one_job_in_turn(self, store: Store, other: Store) -> None:
        one = placed(a_job(nodes=2), "n1", "n2")
        save(store, a_job(nodes=2), one)
        two = with_tasks(one, Phase.CLAIMED)
        save(other, two)
        three = replace(one, version=4)  # As if the claims were taken back: all of it is written, not only what moved.
        save(store, three)
        assert store.jobs(["j1"])[0].attempt == other.jobs(["j1"])[0].attempt == three.attempt

    # --- events ---
    def test_events_are_numbered_without_gaps_in_the_order_of_the_batch(self, store: Store) -> None:
        save(store, ended(replace(a_job("old"), version=0)))
        batch = Batch(
            jobs=[change(a_job("j1"), "A", "B"), change(a_job("j2"), "C")],
            forget=[Forget("old", Event("JobForgotten", 9.0, "old"))],
            events=[Event("NodeJoined", 1.5, data={"node": "n1", "much": [1, None, "é"]})],
        )
        done = store.commit(batch)
        events = store.events(0, 100)
        assert [event.kind for event in events] == ["A", "B", "C", "JobForgotten", "NodeJoined"]
        assert [event.seq for event in events] == [2, 3, 4, 5, 6]
        assert events[-1] == replace(batch.events[0], seq=6)
        assert store.last_seq() == done.last_seq == 6

    def test_events_keep_the_id_of_the_call_that_they_came_of(self, store: Store) -> None:
        shared = {"name": "x"}
        said = [
            Event("NodeJoined", 1.0, data=shared, request="ab.1"),
            Event("NodeJoined", 1.0, data=shared, request="ab.2"),
            Event("NodeSilent", 2.0, request="turn:1.9"),
            Event("NodeLost", 3.0, data=shared),
        ]
        store.commit(Batch(events=said))
        assert store.events(0, 9) == [replace(event, seq=number) for number, event in enumerate(said, start=1)]

    def test_events_are_read_on_from_a_number(self, store: Store) -> None:
        save(store, a_job("j1"), a_job("j2"), placed(a_job("j1")))
        assert [event.seq for event in store.events(1, 1)] == [2]
        assert [event.seq for event in store.events(1, 100)] == [2, 3]
        assert store.events(3, 100) == []
        assert [(event.seq, event.attempt) for event in store.events(0, 100, "j1")] == [(1, 0), (3, 1)]
        assert [event.seq for event in store.events(1, 100, "j1")] == [3]

    def test_two_writers_leave_no_gap_between_events(self, store: Store, other: Store) -> None:
        failures: list[BaseException] = []

        def write(to: Store, name: str) -> None:
            try:
                for n in range(20):
                    to.commit(Batch(jobs=[change(a_job(f"{name}{n}-{m}"), "A", "B") for m in range(3)]))
            except BaseException as error:
                failures.append(error)

        writers = [threading.Thread(target=write, args=(to, name)) for to, name in ((store, "a"), (other, "b"))]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert not failures
        assert numbers(store) == list(range(1, 241))
        assert [job.seq for job in other.unfinished()] == list(range(1, 121))
        by_job = [event.job for event in store.events(0, 1000) if event.kind == "A"]
        assert by_job == ids(store.unfinished())

    # --- forgetting ---
    def test_a_forgotten_job_leaves_one_event_and_nothing_else(self, store: Store) -> None:
        save(store, a_job(), placed(a_job()), ended(placed(a_job())), a_job("j2"))
        store.commit(Batch(logs=[a_range(0, 5)]))
        done = store.commit(Batch(forget=[Forget("j1", Event("JobForgotten", 9.0, "j1"))]))
        assert not done.stale
        assert not any([store.jobs(["j1"]), store.attempts("j1"), store.logs("j1"), store.log_ends("j1", 1, 0)])
        assert [(event.kind, event.job) for event in store.events(0, 9)] == [("Saved", "j2"), ("JobForgotten", "j1")]
        assert [event.kind for event in store.events(0, 9, "j1")] == ["JobForgotten"]
        assert store.key_in_use(["k0"]) == set()

    def test_only_an_ended_job_is_forgotten(self, store: Store) -> None:
        save(store, a_job())
        both = [Forget(id, Event("JobForgotten", 9.0, id)) for id in ("j1", "no")]
        assert store.commit(Batch(forget=both)).stale == {"j1", "no"}
        assert ids(store.jobs(["j1"])) == ["j1"]
        assert store.last_seq() == 1

    # --- submit keys ---
    def test_a_submit_key_leads_to_its_jobs(self, store: Store) -> None:
        key = SubmitKey("k", ("j1", "j2"), "sha", 1.5)
        store.commit(Batch(jobs=[change(a_job("j1")), change(a_job("j2"))], keys=[key]))
        assert store.submitted("k") == key

    def test_a_second_submit_with_the_same_key_makes_no_second_job(self, store: Store, other: Store) -> None:
        def submit(to: Store, *jobs: str) -> frozenset[str]:
            keys = [SubmitKey("k", (id,), "sha", 1.5) for id in jobs]
            return to.commit(Batch(jobs=[change(a_job(id), "A") for id in jobs], keys=keys)).stale

        assert submit(store, "j1", "j2") == {"j2"}
        assert submit(other, "j3") == {"j3"}
        assert submit(other, "j1") == {"j1"}
        assert ids(store.unfinished()) == ["j1"]
        found = store.submitted("k")
        assert found is not None
        assert found.jobs == ("j1",)
        assert numbers(store) == [1]

    # --- pages ---
    def test_pages_go_from_the_newest_back(self, store: Store) -> None:
        save(store, *(a_job(f"j{n}") for n in range(1, 6)))
        assert ids(store.page(JobFilter(), None, 2)) == ["j5", "j4"]
        assert ids(store.page(JobFilter(), 4, 2)) == ["j3", "j2"]
        assert ids(store.page(JobFilter(), 2, 9)) == ["j1"]
        assert store.page(JobFilter(), 1, 9) == []

    @pytest.mark.parametrize(
        ("which", "expected"),
        [
            (JobFilter(states=frozenset({"succeeded", "failed"})), ["j1"]),
            (JobFilter(project="vision"), ["j2"]),
            (JobFilter(user="eve"), ["j3"]),
            (JobFilter(queue="night"), ["j4"]),
            (JobFilter(name="eval"), ["j5", "j2"]),
            (JobFilter(name="eval", project="vision"), ["j2"]),
            (JobFilter(ids=("j4", "j1", "no")), ["j4", "j1"]),
            (JobFilter(states=frozenset({"queued"}), user="eve", ids=("j2",)), []),
        ],
    )
    def test_a_filter_narrows_the_page(self, store: Store, which: JobFilter, expected: list[str]) -> None:
        save(store, a_job("j1"), ended(a_job("j1")), a_job("j2", project="vision", name="eval"))
        save(store, a_job("j3", user="eve"), a_job("j4", queue="night"), a_job("j5", name="eval"))
        assert ids(store.page(which, None, 10)) == expected

    def test_a_job_is_found_by_the_begin_of_its_id_or_by_its_whole_name(self, store: Store) -> None:
        save(
            store,
            a_job("ab1"),
            a_job("ab2"),
            a_job("AB3"),
            a_job("a_4"),
            a_job("x5", name="ab"),
            a_job("ac", name="abc"),
        )
        assert ids(store.find("ab")) == ["x5", "ab2", "ab1"]
        assert ids(store.find("ab", limit=1)) == ["x5"]
        assert ids(store.find("a_")) == ["a_4"]
        assert store.find("%") == store.find("b") == []
        assert ids(store.find("ab2")) == ["ab2"]

    # --- nodes ---
    def test_a_node_comes_back_as_it_was_saved(self, store: Store) -> None:
        node = Node(
            "n2", "lab", Resources(7.5, 1 << 40, 8), "boot", 3, "0.1", "10.0.0.2", "img:1", "eu-1", "spot",
            {"rack": "7"}, 99.5, True, 1.5, 2.5,
        )  # fmt: skip
        plain = Node("n1", "lab", Resources(1.0))
        store.commit(Batch(nodes=[node, plain]))
        assert store.nodes() == [plain, node]
        assert store.node("n2") == node
        store.commit(Batch(nodes=[replace(node, cordoned=False, gone_at=None)]))
        assert store.node("n2") == replace(node, cordoned=False, gone_at=None)

    # --- logs ---
    def test_a_range_is_accepted_only_where_the_index_ends(self, store: Store) -> None:
        save(store, a_job(), placed(a_job(), phase=Phase.GOING))
        done = store.commit(Batch(logs=[a_range(0, 5), a_range(5, 9), a_range(5, 9, key="again"), a_range(20, 30)]))
        store.commit(Batch(logs=[a_range(3, 12), a_range(9, 9)]))
        assert store.logs("j1") == [a_range(0, 5), a_range(5, 9)]
        assert done.log_ends == {("j1", 1, 0, 0, "out"): 9}
        assert store.log_ends("j1", 1, 0) == {(0, "out"): 9}

    def test_each_rank_and_stream_has_an_end_of_its_own(self, store: Store) -> None:
        one = placed(a_job(nodes=2), "n1", "n2", phase=Phase.ENDED)
        save(store, a_job(nodes=2), one, placed(one, "n1", number=2, phase=Phase.GOING))
        ranges = [
            a_range(0, 2),
            a_range(0, 3, stream="err"),
            a_range(0, 4, rank=1),
            a_range(0, 5, task=1),
            a_range(0, 6, attempt=2),
        ]
        store.commit(Batch(logs=list(reversed(ranges))))
        assert store.log_ends("j1", 1, 0) == {(0, "out"): 2, (0, "err"): 3, (1, "out"): 4}
        assert store.log_ends("j1", 1, 1) == {(0, "out"): 5}
        assert [(at.attempt, at.task, at.rank, at.stream) for at in store.logs("j1")] == [
            (1, 0, 0, "err"), (1, 0, 0, "out"), (1, 0, 1, "out"), (1, 1, 0, "out"), (2, 0, 0, "out"),
        ]  # fmt: skip
        assert store.logs("j1", attempt=2) == [ranges[-1]]
        assert store.attempts_with_output(["out", "metrics"]) == [("j1", 1), ("j1", 2)]
        assert store.attempts_with_output(["err"]) == [("j1", 1)]
        assert store.attempts_with_output(["metrics"]) == []

    @pytest.mark.parametrize("phase", [Phase.LOST, Phase.RELEASED])
    def test_a_lost_or_released_task_cannot_write_logs(self, store: Store, phase: Phase) -> None:
        going = placed(a_job(), phase=Phase.GOING)
        save(store, a_job(), going)
        store.commit(Batch(logs=[a_range(0, 5)]))
        done = store.commit(Batch(jobs=[change(with_tasks(going, phase))], logs=[a_range(5, 9)]))
        store.commit(Batch(logs=[a_range(5, 9)]))
        assert store.logs("j1") == [a_range(0, 5)]
        assert done.log_ends == {a_range(5, 9).of: 5}

    def test_an_ended_task_may_still_send_the_rest_of_its_log(self, store: Store) -> None:
        save(store, a_job(), placed(a_job(), phase=Phase.ENDED))
        store.commit(Batch(logs=[a_range(0, 5)]))
        assert store.logs("j1") == [a_range(0, 5)]

    @pytest.mark.parametrize("foreign", [{"job": "no"}, {"attempt": 2}, {"task": 1}])
    def test_what_does_not_exist_cannot_write_logs(self, store: Store, foreign: dict[str, Any]) -> None:
        save(store, a_job(), placed(a_job(), phase=Phase.GOING))
        range_ = replace(a_range(0, 5), **foreign)
        done = store.commit(Batch(logs=[range_], move_logs=[range_]))
        assert store.logs("j1") == store.logs("no") == []
        assert done.log_ends == {range_.of: 0}

    def test_dropping_ranges_does_not_move_the_end(self, store: Store) -> None:
        save(store, a_job(), placed(a_job(), phase=Phase.GOING))
        ranges = [a_range(0, 5), a_range(5, 9), a_range(9, 12)]
        store.commit(Batch(logs=ranges))
        store.commit(Batch(drop_logs=ranges[1:]))
        assert store.log_ends("j1", 1, 0) == {(0, "out"): 12}
        assert store.key_in_use(["k0", "k5", "k9", "no"]) == {"k0"}
        store.commit(Batch(logs=[a_range(12, 15)]))
        assert store.logs("j1") == [a_range(0, 5), a_range(12, 15)]

    def test_compaction_replaces_ranges_by_one(self, store: Store) -> None:
        save(store, a_job(), placed(a_job(), phase=Phase.LOST))
        save(store, with_tasks(placed(a_job()), Phase.GOING))
        ranges = [a_range(0, 5), a_range(5, 9), a_range(9, 12)]
        store.commit(Batch(logs=ranges))
        whole = a_range(0, 9, key="whole", key_offset=3)
        twice = Batch(drop_logs=ranges[:2], move_logs=[whole])
        store.commit(twice)
        store.commit(twice)
        assert store.logs("j1") == [whole, ranges[2]]
        assert store.log_ends("j1", 1, 0) == {(0, "out"): 12}

    def test_retention_finds_old_ended_jobs_that_still_have_logs(self, store: Store) -> None:
        for id, at in (("j1", 300.0), ("j2", 200.0), ("j3", 250.0), ("j4", 900.0), ("j5", 100.0)):
            job = placed(a_job(id), phase=Phase.GOING)
            save(store, a_job(id), job, ended(job, at))
            if id != "j5":
                store.commit(Batch(logs=[a_range(0, 5, job=id)]))
        assert store.ended_before(900.0, 10) == ["j2", "j3", "j1"]
        assert store.ended_before(900.0, 2) == ["j2", "j3"]
        store.commit(Batch(drop_logs=store.logs("j2")))
        assert store.ended_before(260.0, 10) == ["j3"]

    # --- servers ---
    def test_servers_are_seen_by_name_and_at_the_stores_own_time(self, store: Store, other: Store) -> None:
        store.saw_server(ServerSeen("b", "http://b", "1", "host", 7, "folder", 5.0))
        other.saw_server(ServerSeen("a", "http://a"))
        store.saw_server(ServerSeen("b", "http://b2"))
        assert [(each.name, each.address, each.pid) for each in other.servers()] == [
            ("a", "http://a", 0),
            ("b", "http://b2", 0),
        ]
        assert all(abs(each.seen_at - store.glance().now) < 60 for each in other.servers())
        other.drop_server("b")
        assert [each.name for each in store.servers()] == ["a"]

    def test_a_glance_tells_the_lead_and_the_newest_event(self, store: Store, other: Store) -> None:
        assert (store.glance().lead, store.glance().last_seq) == (None, 0)
        lead = store.take_lead("s1", "http://a", None, 10.0)
        store.commit(Batch(events=[Event("NodeJoined", 1.0), Event("NodeLost", 2.0)]))
        glance = other.glance()
        assert (glance.lead, glance.last_seq) == (lead, 2)
        assert lead is not None
        assert 0 < lead.until - glance.now <= 10.0

    def test_deletions_are_held_off_for_a_while(self, store: Store, other: Store) -> None:
        assert not store.deletions_held()
        other.hold_deletions(60.0)
        store.take_lead("s1", "", None, 10.0)
        assert store.deletions_held()
        other.hold_deletions(0.0)
        assert not store.deletions_held()

    def test_what_belongs_to_no_job_is_read_newest_first(self, store: Store) -> None:
        store.commit(Batch(jobs=[change(a_job(), "A")], events=[Event("NodeJoined", 1.0), Event("NodeLost", 2.0)]))
        assert [event.kind for event in store.happenings(5)] == ["NodeLost", "NodeJoined"]
        assert [event.kind for event in store.happenings(1)] == ["NodeLost"]

    # --- leader ---
    def test_one_server_leads_until_its_lease_is_over(self, store: Store, other: Store) -> None:
        lead = store.take_lead("s1", "http://a", 100.0, 10.0)
        assert lead is not None
        assert (lead.server, lead.epoch, lead.until, lead.address) == ("s1", 1, 110.0, "http://a")
        assert other.take_lead("s2", "http://b", 109.0, 10.0) is None
        assert other.lead() == lead
        assert store.keep_lead("s1", 1, 109.0, 10.0)
        assert other.take_lead("s2", "http://b", 110.0, 10.0) is None
        second = other.take_lead("s2", "http://b", 119.0, 10.0)
        assert second is not None
        assert (second.server, second.epoch) == ("s2", 2)
        assert not store.keep_lead("s1", 1, 120.0, 10.0)
        assert store.lead() == second

    def test_a_server_that_starts_again_takes_its_own_lead_with_a_new_epoch(self, store: Store) -> None:
        epochs = [store.take_lead("s1", "", 100.0, 10.0) for _ in range(2)]
        assert [lead and lead.epoch for lead in epochs] == [1, 2]
        assert not store.keep_lead("s1", 1, 101.0, 10.0)

    def test_a_dropped_lead_is_free_at_once_and_its_epoch_is_never_used_again(self, store: Store) -> None:
        store.take_lead("s1", "", 100.0, 10.0)
        store.drop_lead("s2", 1)
        assert store.lead() is not None
        store.drop_lead("s1", 1)
        assert store.lead() is None
        assert not store.keep_lead("s1", 1, 101.0, 10.0)
        lead = store.take_lead("s2", "", 101.0, 10.0)
        assert lead is not None
        assert lead.epoch == 2

    def test_a_server_that_lost_the_lead_writes_nothing(self, store: Store, other: Store) -> None:
        store.take_lead("s1", "", 100.0, 10.0)
        store.commit(Batch(jobs=[change(a_job(), "A")]), epoch=1)
        other.take_lead("s2", "", 120.0, 10.0)
        with pytest.raises(LeaderLost):
            store.commit(Batch(jobs=[change(a_job("j2"), "B")], nodes=[Node("n1", "lab", Resources())]), epoch=1)
        assert ids(store.unfinished()) == ["j1"]
        assert store.nodes() == []
        done = other.commit(Batch(jobs=[change(a_job("j2"), "B")]), epoch=2)
        assert (done.last_seq, done.first_job_seq) == (2, 2)

    def test_two_servers_that_reach_for_the_lead_at_once_get_it_one_at_a_time(self, store: Store, other: Store) -> None:
        leads = []

        def reach(to: Store, server: str) -> None:
            leads.append(to.take_lead(server, "", 100.0, 10.0))

        threads = [threading.Thread(target=reach, args=(to, f"s{n}")) for n, to in enumerate([store, other] * 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(leads) == 8
        assert [lead.epoch for lead in leads if lead] == [1]
