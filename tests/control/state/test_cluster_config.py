"""Queues, pools, arrays, dependencies, holds and schedules in the real cycle, without threads."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from headway.control.cluster.commands import CloseNode, DropPool, DropQueue, PoolGone, SetLicences, SetPool, SetQueue
from headway.control.jobs.change import ChangeJob, EachOf
from headway.control.jobs.commands import Stop, Submit
from headway.control.jobs.plan_query import PlanJob, PlanQueue
from headway.control.leader.engine_calls import Released, Saw
from headway.control.leader.placement import SaveUse
from headway.core.errors import BadInput, Conflict, NotFound
from headway.core.growth.grow import Release
from headway.core.model import Job, State
from headway.core.scheduling.scheduler import why_waiting
from headway.core.spec.job import read_spec
from headway.engines.protocol import Sight, Sighting, Sightings
from headway.features.schedules.commands import SetSchedule
from headway.features.schedules.tables import SCHEDULES
from headway.settings import Settings
from headway.store.memory.store import MemoryStore
from headway.store.protocol import JobFilter
from tests.control.leading import Leader


class House(Leader):
    """A leader with short ways to submit, claim and end."""

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(MemoryStore(), settings)
        numbers = itertools.count(1)
        self.cycle.new_id = self.new_id = lambda: f"j{next(numbers)}"

    def submit(self, *jobs: dict[str, Any], force: bool = False) -> list[str]:
        specs = tuple(read_spec({"command": ["true"], **job}) for job in jobs)
        ids: list[str] = self.do(Submit(specs, "ada", self.new_id, force=force)).result()
        self.cycle.turn([], self.now, self.now)
        return ids

    def one(self, **words: Any) -> str:
        return self.submit(words)[0]

    def job(self, id: str) -> Job:
        (found,) = self.cycle.store.jobs([id])
        return found

    def state(self, id: str) -> str:
        return self.job(id).state.value

    def why(self, id: str) -> Any:
        return why_waiting(self.job(id), self.cycle.book.view, self.now)

    def end(self, id: str, exit_code: int = 0) -> None:
        key = f"{id}/{self.job(id).number}/0"
        self.sync(reports=[{"task": key, "phase": "claimed"}])
        outcome = {"exit_code": exit_code, "cause": "user_code" if exit_code else None}
        self.sync(reports=[{"task": key, "phase": "ended", "outcome": outcome}])
        self.cycle.turn([], self.now, self.now)


@pytest.fixture
def house() -> House:
    made = House()
    made.join()
    return made


# --- arrays and dependencies ---


def test_an_array_becomes_jobs_that_share_their_description(house: House) -> None:
    assert house.submit({"array": 3, "resources": {"cpus": 8}}) == ["j1"]
    jobs = sorted(house.cycle.store.page(JobFilter(array="j1"), None, 9), key=lambda job: job.seq)
    assert [(job.id, job.array_index, job.state.value) for job in jobs] == [
        ("j1-0", 0, "starting"),
        ("j1-1", 1, "queued"),
        ("j1-2", 2, "queued"),
    ]
    assert jobs[0].spec is jobs[2].spec
    assert dict(jobs[0].spec.env)["HEADWAY_ARRAY_COUNT"] == "3"


def test_one_command_reaches_all_of_an_array(house: House) -> None:
    house.submit({"array": 3, "resources": {"cpus": 8}})
    assert house.do(EachOf("j1", lambda job: ChangeJob(job, {"priority": 7}))).result() == 2, "one runs already"
    assert house.do(EachOf("j1", lambda job: Stop(job, "ada"))).result() == 3
    assert house.cycle.book.arrays == {}


def test_a_job_starts_when_the_one_before_it_has_succeeded(house: House) -> None:
    first = house.one(name="first")
    second = house.one(after=["first"])
    assert house.job(second).spec.wishes.after[0].job == first, "a name becomes the id"
    assert house.why(second).after == (f"{first} (ok)",)
    house.end(first)
    assert house.state(second) == "starting"


def test_who_waits_for_the_success_of_a_job_that_failed_is_told(house: House) -> None:
    first = house.one()
    second = house.one(after=[first])
    house.end(first, 1)
    assert (house.state(second), house.job(second).detail) == (
        "failed",
        f"it waits for the success of {first}, which ended as failed",
    )


def test_a_job_may_wait_for_one_that_ended_long_ago(house: House) -> None:
    first = house.one()
    house.end(first)
    assert house.state(house.one(after=[{"job": first, "when": "any"}])) == "starting"
    assert house.state(house.one(after=[{"job": first, "when": "failed"}])) == "cancelled"


def test_an_array_waits_for_another_element_by_element(house: House) -> None:
    house.submit({"array": 2, "resources": {"cpus": 1}})
    (second,) = house.submit({"array": 2, "after": [{"job": "j1", "each": True}]})
    house.end("j1-1")
    assert [house.state(f"{second}-{index}") for index in range(2)] == ["queued", "starting"]


def test_a_job_waits_for_all_of_an_array_also_after_a_restart(house: House) -> None:
    house.submit({"array": 2, "resources": {"cpus": 1}})
    house.end("j1-0", 1)
    good, bad = house.one(after=["j1"]), house.one(after=[{"job": "j1", "when": "failed"}])
    house.cycle.doubtful = True  # Read everything again: the view has never seen the element that failed.
    house.end("j1-1")
    house.tick()
    assert (house.state(good), house.state(bad)) == ("failed", "starting")


def test_jobs_of_one_request_may_name_each_other(house: House) -> None:
    first, second = house.submit({"name": "prepare"}, {"name": "train", "after": ["prepare"]})
    assert [each.job for each in house.job(second).spec.wishes.after] == [first]


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        (({"name": "a", "after": ["b"]}, {"name": "b", "after": ["a"]}), "wait for each other: a → b → a"),
        (({"after": ["nobody"]},), 'no job "nobody"'),
        (({"after": [{"job": "j0", "each": True}]},), "this is not an array"),
        (({"queue": "nigth"},), 'no queue "nigth"'),
        (({"pool": "locl"},), 'no pool "locl"'),
        (({"resources": {"cpus": 99}},), '99 cpus on one node; the largest node of pool "local" has 8'),
        (({"nodes": 99},), "99 nodes wanted"),
        (({"licences": {"matlab": 1}},), "licences.matlab: 1 wanted, there are 0"),
    ],
)
def test_what_can_never_be_is_refused_at_once(house: House, jobs: tuple[dict[str, Any], ...], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        house.submit(*jobs)
    assert message in refused.value.message
    assert house.cycle.store.unfinished() == [], "nothing of it was taken"


def test_with_force_a_job_may_wait_for_a_pool_to_come(house: House) -> None:
    (job,) = house.submit({"resources": {"cpus": 99}}, force=True)
    assert house.state(job) == "queued"
    assert house.why(job).never


def test_a_queue_may_let_jobs_wait_for_a_pool_to_come(house: House) -> None:
    house.do(SetQueue("dream", {"allow_waiting": True, "max_duration": "1h", "default_duration": "10m"})).result()
    (job,) = house.submit({"resources": {"cpus": 99}, "queue": "dream", "pool": "cloud"})
    assert house.state(job) == "queued"
    assert house.why(job).never
    with pytest.raises(BadInput, match="takes jobs of 1 h 00 m at most"):
        house.one(queue="dream", max_duration="2h")


def test_a_change_may_not_make_jobs_wait_for_each_other(house: House) -> None:
    house.do(CloseNode("n1", "cordon")).result()
    first = house.one()
    second = house.one(after=[first])
    with pytest.raises(BadInput, match="wait for each other"):
        house.do(ChangeJob(first, {"after": [second]})).result()


# --- holds and changes ---


def test_a_held_job_waits_until_it_is_released(house: House) -> None:
    job = house.one(hold=True)
    assert house.why(job).held
    house.do(ChangeJob(job, {"hold": False})).result()
    house.tick()
    assert house.state(job) == "starting"


def test_a_waiting_job_can_be_changed_and_a_running_one_cannot(house: House) -> None:
    first, second, third = (house.one(resources={"cpus": 8}) for _ in range(3))
    house.do(ChangeJob(third, {"priority": 5, "max_duration": "1h", "resources": {"cpus": 4}})).result()
    spec = house.job(third).spec
    assert (spec.priority, spec.wall_s_max, spec.resources.cpus) == (5, 3600.0, 4.0)
    house.end(first)
    assert (house.state(second), house.state(third)) == ("queued", "starting")
    with pytest.raises(Conflict, match="only a waiting job can be changed"):
        house.do(ChangeJob(third, {"priority": 1})).result()
    with pytest.raises(BadInput, match='unknown key "command"'):
        house.do(ChangeJob(second, {"command": ["false"]})).result()


def test_a_start_time_is_waited_for(house: House) -> None:
    job = house.one(start_at=house.now + 100)
    house.tick(99)
    assert house.state(job) == "queued"
    house.tick(1)
    assert house.state(job) == "starting"


# --- queues, quotas, licences ---


def test_a_queue_limits_what_its_jobs_hold(house: House) -> None:
    house.do(SetQueue("night", {"quota": {"jobs": 1}})).result()
    first, second = (house.one(queue="night") for _ in range(2))
    assert (house.state(first), house.state(second)) == ("starting", "queued")
    assert house.why(second).quota.whose == 'queue "night"'
    house.do(SetQueue("night", {"quota": None})).result()
    house.tick()
    assert house.state(second) == "starting"


def test_a_quota_of_zero_is_told_at_submission(house: House) -> None:
    house.do(SetQueue("night", {"quota": {"jobs": 0}})).result()
    with pytest.raises(BadInput, match='the quota of queue "night" is 0'):
        house.one(queue="night")


def test_a_queue_without_pools_takes_nothing(house: House) -> None:
    house.do(SetQueue("night", {"pools": []})).result()
    with pytest.raises(BadInput, match="may use no pool"):
        house.one(queue="night")


def test_a_queue_gives_its_limits_to_its_jobs(house: House) -> None:
    house.do(SetQueue("night", {"default_duration": "1h", "max_duration": "2h"})).result()
    assert house.job(house.one(queue="night")).spec.wall_s_max == 3600.0
    with pytest.raises(BadInput, match="max_duration"):
        house.one(queue="night", max_duration="3h")


def test_a_queue_with_jobs_in_it_is_not_removed(house: House) -> None:
    house.do(SetQueue("night", {})).result()
    job = house.one(queue="night")
    with pytest.raises(Conflict, match='queue "night" has 1 unfinished job'):
        house.do(DropQueue("night")).result()
    house.end(job)
    house.do(DropQueue("night")).result()
    with pytest.raises(NotFound, match='no queue "night"'):
        house.do(DropQueue("night")).result()


def test_a_queue_names_only_pools_that_are_there(house: House) -> None:
    with pytest.raises(BadInput, match='no pool "locl"'):
        house.do(SetQueue("night", {"pools": ["locl"]})).result()


def test_licences_are_counted_over_the_house(house: House) -> None:
    house.do(SetLicences({"matlab": 1})).result()
    first, second = (house.one(licences={"matlab": 1}) for _ in range(2))
    assert (house.state(first), house.state(second)) == ("starting", "queued")
    assert house.why(second).licence == ("matlab", 1, 0, 1)
    house.end(first)
    assert house.state(second) == "starting"


def test_the_rules_are_there_after_a_restart(house: House) -> None:
    house.do(SetQueue("night", {"priority": 5})).result()
    house.do(SetLicences({"matlab": 1})).result()
    house.do(SaveUse()).result()
    again = Leader(house.cycle.store)
    assert again.cycle.book.view.queues["night"].priority == 5
    assert again.cycle.book.view.licences == {"matlab": 1}


def test_what_was_used_counts_after_a_restart(house: House) -> None:
    job = house.one(resources={"cpus": 8})
    house.sync(reports=[{"task": f"{job}/1/0", "phase": "claimed"}])
    house.now += 7200
    house.end(job)
    house.do(SaveUse()).result()
    again = Leader(house.cycle.store)
    account = ("default", "default", "ada")
    assert again.cycle.book.view.shares.amount(account, house.now) == pytest.approx(8 * 7200, rel=0.01)


# --- pools and nodes ---


def test_a_cordoned_node_gets_nothing_new_and_what_runs_there_goes_on(house: House) -> None:
    first = house.one()
    house.do(CloseNode("n1", "cordon")).result()
    second = house.one()
    assert (house.state(first), house.state(second)) == ("starting", "queued")
    assert house.why(second).lacks == (("cordoned", 1),)
    house.join()  # A restart of its agent does not open it.
    house.tick()
    assert house.state(second) == "queued"
    house.do(CloseNode("n1", "uncordon")).result()
    house.tick()
    assert house.state(second) == "starting"


def test_a_drain_may_ask_what_runs_there_to_go_elsewhere(house: House) -> None:
    job = house.one()
    house.sync(reports=[{"task": f"{job}/1/0", "phase": "claimed"}])
    house.do(CloseNode("n1", "drain", "ada", stop=True)).result()
    stopping = house.job(job)
    assert (stopping.state, stopping.cause and stopping.cause.value) == (State.STOPPING, "preempted")
    house.sync(reports=[{"task": f"{job}/1/0", "phase": "ended", "outcome": {"exit_code": 0}}])
    assert (house.state(job), house.job(job).retries.user) == ("queued", 0)
    with pytest.raises(NotFound, match='no node "n7"'):
        house.do(CloseNode("n7", "drain")).result()


def test_a_pool_that_is_removed_under_a_job_lets_it_finish(house: House) -> None:
    first = house.one()
    house.do(DropPool("local")).result()
    seen = Sightings({"n1": Sighting(Sight.UP)})
    pool = house.cycle.book.house.pools["local"]
    assert house.do(Saw(pool, seen, {})).result() == [], "nothing is given back under a task"
    second = house.submit({}, force=True)[0]
    assert (house.state(first), house.state(second)) == ("starting", "queued")
    assert house.why(second).lacks == (("leaving with its pool", 1),)
    house.end(first)
    assert house.state(first) == "succeeded"
    assert house.do(Saw(pool, seen, {})).result() == [Release("local", ("n1",))]
    house.do(PoolGone("local")).result()
    assert "local" in house.cycle.book.house.pools, "its node is still there"
    house.do(Released(("n1",))).result()
    house.do(PoolGone("local")).result()
    assert (house.cycle.book.house.pools, house.cycle.store.pools()) == ({}, [])


def test_a_pool_dresses_its_nodes(house: House) -> None:
    words = {"cpus": 4, "memory": "1G", "gpus": 2, "gpu_type": "a100", "zone": "z1", "labels": {"rack": "7"}}
    house.do(SetPool("local", words)).result()
    node = house.cycle.book.nodes["n1"]
    assert (node.granted.cpus, node.granted.gpus, node.zone) == (4.0, 2, "z1")
    assert node.labels == {"rack": "7", "gpu_type": "a100"}
    assert house.state(house.one(gpu_type="a100", resources={"gpus": 1}, labels={"rack": "7"})) == "starting"
    with pytest.raises(BadInput, match="every node that is large enough is"):
        house.one(labels={"rack": "8"})


# --- preemption, schedules, the outlook ---


def test_a_more_important_job_ends_a_less_important_one_by_its_notice() -> None:
    house = House(Settings(preemption="on"))
    house.join()
    small = house.one(resources={"cpus": 8})
    house.sync(reports=[{"task": f"{small}/1/0", "phase": "claimed"}])
    house.tick()
    urgent = house.one(resources={"cpus": 8}, priority=9)
    stopping = house.job(small)
    assert (stopping.state, stopping.cause and stopping.cause.value) == (State.STOPPING, "preempted")
    assert urgent in stopping.detail
    house.sync(reports=[{"task": f"{small}/1/0", "phase": "ended", "outcome": {"exit_code": 0}}])
    house.tick()
    assert (house.state(urgent), house.state(small), house.job(small).retries.user) == ("starting", "queued", 0)


def test_a_schedule_submits_its_job_once_for_each_moment(house: House) -> None:
    made = house.do(SetSchedule("hourly", {"cron": "0 * * * *", "job": {"command": ["true"]}}, "ada")).result()
    moment = made.settled_at - made.settled_at % 3600 + 3600
    house.tick(moment - house.now)
    house.tick()
    (job,) = house.cycle.store.page(JobFilter(), None, 9)
    assert dict(job.spec.tags) == {"schedule": "hourly"}
    house.tick(3 * 3600)
    assert len(house.cycle.store.page(JobFilter(), None, 9)) == 1, "the job before has not ended"
    house.end(job.id)
    house.tick(5 * 3600)
    assert len(house.cycle.store.page(JobFilter(), None, 9)) == 2, "five moments passed, and one is made up for"
    again = Leader(house.cycle.store)
    assert again.cycle.book.held(SCHEDULES)["hourly",].fired == 2


def test_the_outlook_says_when_a_job_would_start(house: House) -> None:
    house.one(resources={"cpus": 8}, max_duration="1h")
    spec = read_spec({"command": ["true"], "resources": {"cpus": 8}, "max_duration": "10m"})
    said = house.do(PlanJob(spec, "ada")).result()
    assert (said["starts_in_s"], said["exact"], said["sentence"]) == (3600.0, True, "would start in 1 h 00 m")
    house.one(resources={"cpus": 8}, max_duration="10m")
    found = house.do(PlanQueue()).result()
    assert [(job["id"], job["starts_in_s"]) for job in found["jobs"]] == [("j2", 3600.0)]
    with pytest.raises(BadInput, match="99 cpus"):
        house.do(PlanJob(read_spec({"command": ["true"], "resources": {"cpus": 99}}), "ada")).result()
