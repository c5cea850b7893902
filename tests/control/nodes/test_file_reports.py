"""What agents say about progress, by hand-made syncs: the fence, gangs, damage, retention, notices, limits."""

from __future__ import annotations

from typing import Any

import pytest

from headway.control.jobs.commands import Submit, Why
from headway.control.jobs.derive import Pin, Preempt
from headway.control.leader.cycle import PendingCommand
from headway.control.nodes.file_reports import SAVE_STEPS_S
from headway.control.views.jobs import detail
from headway.core.errors import BadInput, Conflict, HeadwayError, NotFound
from headway.core.explain import explain_state
from headway.core.model import Cause, Job, State
from headway.core.protocol import read_sync
from headway.core.spec.job import read_spec
from headway.store.memory.store import MemoryStore
from tests.control.leading import Leader


class Played:
    """A leader with nodes whose agents a test plays."""

    def __init__(self, *nodes: str) -> None:
        self.store = MemoryStore()
        self.leader = Leader(self.store)
        self.names = iter(f"j{number}" for number in range(1, 100))
        for node in nodes or ("n1",):
            self.say(node, full=True, facts={"cpus": 8, "memory_bytes": 2**40})

    def say(self, node: str = "n1", **words: Any) -> dict[str, Any]:
        """A sync and its reply."""
        leader, replies = self.leader, []
        body = {"protocol": 1, "node": node, "pool": "local", "boot_id": "b", "agent_epoch": 1, "wait_s": 0, **words}
        sync = leader.cycle.heard(read_sync(body), leader.now)

        def answer(_: object) -> None:
            leader.cycle.reply(sync, leader.now, leader.now, lambda reply: replies.append(reply.show()))

        ask = PendingCommand(sync, answer, _raise)
        leader.cycle.turn([ask], leader.now, leader.now)
        return dict(replies[0])

    def submit(self, nodes: int = 1, **words: Any) -> str:
        raw = {"command": ["python", "train.py"], "nodes": nodes, "resources": {"cpus": 5}, **words}
        (job,) = self.leader.do(Submit((read_spec(raw),), "ada", lambda: next(self.names))).result()
        self.leader.tick()
        return str(job)

    def claim(self, job: str, attempt: int = 1) -> None:
        for task in self.job(job).alive:
            self.say(task.node, reports=[{"task": f"{job}/{attempt}/{task.index}", "phase": "claimed"}])

    def start(self, **words: Any) -> str:
        job = self.submit(**words)
        self.claim(job)
        assert self.job(job).state is State.RUNNING
        return job

    def job(self, job: str) -> Job:
        return self.store.jobs([job])[0]

    def save(self, task: str, step: int, node: str = "n1", **words: Any) -> dict[str, Any]:
        job, attempt, index = task.split("/")
        key = f"jobs/{job}/{attempt}/checkpoints/{step}-{index}.json"
        return self.say(node, checkpoints=[{"task": task, "step": step, "how": "renamed", "key": key, **words}])

    def end(self, task: str, node: str = "n1", **words: Any) -> None:
        outcome = {"exit_code": 1, "cause": "user_code", **words}
        self.say(node, reports=[{"task": task, "phase": "ended", "outcome": outcome}])

    def duty(self, task: str, node: str = "n1") -> dict[str, Any]:
        (found,) = [each for each in self.say(node, duties_digest="?")["duties"] if each["task"] == task]
        return dict(found)

    def steps(self, job: str) -> list[tuple[int, int]]:
        return [(each.attempt, each.step) for each in self.store.checkpoints(job)]

    def kinds(self, job: str) -> list[str]:
        return [event.kind for event in self.store.events(0, 1000, job)]


def _raise(error: BaseException) -> None:
    raise error


@pytest.fixture
def played() -> Played:
    return Played()


def test_a_plain_job_writes_nothing_of_all_this(played: Played) -> None:
    job = played.start()
    duty = played.duty(f"{job}/1/0")
    assert duty["resume"] is None
    assert set(duty["progress"]) == {"seed"}
    trail = played.leader.cycle.book.trail
    assert not any([trail.known, trail.seen, trail.preparing, trail.pending])


def test_a_committed_checkpoint_is_what_the_next_attempt_goes_on_from(played: Played) -> None:
    job = played.start(retries=1)
    assert played.save(f"{job}/1/0", 5)["checkpoints_safe"] == {f"{job}/1/0": [5]}
    attempt = played.job(job).attempt
    assert attempt is not None
    assert (attempt.committed_step, attempt.seen_step, attempt.committed_at) == (5, 5, played.leader.now)
    played.save(f"{job}/1/0", 5)
    assert played.kinds(job).count("CheckpointCommitted") == 1, "said again, and nothing happened"
    played.end(f"{job}/1/0")
    played.leader.tick(10)
    claim = played.duty(f"{job}/2/0")
    assert claim["resume"] == {"step": 5, "key": f"jobs/{job}/1/checkpoints/5-0.json", "how": "renamed"}
    assert played.job(job).attempt.resumed_step == 5  # type: ignore[union-attr]


def test_what_its_step_counts_and_where_it_was_found_are_shown_with_a_checkpoint(played: Played) -> None:
    job = played.start(retries=1)
    found = "outputs/checkpoint-*, found as Hugging Face Trainer"
    played.save(f"{job}/1/0", 6, unit="epoch", found=found)
    played.end(f"{job}/1/0")
    played.leader.tick(10)
    told = detail(played.store, played.job(job))
    assert (told["checkpoint"]["unit"], told["checkpoint"]["found"]) == ("epoch", found)
    assert [(each["resumed_step"], each["resumed_unit"]) for each in told["attempts"]] == [(None, None), (6, "epoch")]
    assert told["account"]["unit"] == "epoch"
    (event,) = [each for each in played.store.events(0, 1000, job) if each.kind == "CheckpointCommitted"]
    assert (event.data["unit"], event.data["found"]) == ("epoch", found)


def test_the_last_checkpoint_may_come_with_the_report_that_ends_it(played: Played) -> None:
    job = played.start()
    played.leader.do(Preempt(job, "ada")).result()
    entry = {"task": f"{job}/1/0", "step": 9, "how": "declared", "key": f"jobs/{job}/1/checkpoints/9-0"}
    report = {"task": f"{job}/1/0", "phase": "ended", "outcome": {"signal": 15, "cause": "cancelled"}}
    played.say(checkpoints=[entry], steps={f"{job}/1/0": 9}, reports=[report])
    after = played.job(job)
    # It was placed again in the same turn, and the checkpoint was in time for that.
    assert (after.state, after.number, after.attempt.resumed_step) == (State.STARTING, 2, 9)  # type: ignore[union-attr]
    first = played.store.attempts(job)[0]
    assert (first.cause, first.seen_step, first.committed_step) == (Cause.PREEMPTED, 9, 9)


def test_a_zombie_of_an_older_attempt_cannot_commit_anything(played: Played) -> None:
    job = played.start(retries=3)
    played.end(f"{job}/1/0")
    late = played.save(f"{job}/1/0", 5)
    assert late["checkpoints_safe"] == {f"{job}/1/0": [5]}, "refused, and not to be said again"
    played.leader.tick(10)
    played.claim(job, 2)
    played.save(f"{job}/1/0", 6)
    artifact = {"task": f"{job}/1/0", "path": "a", "size": 1, "keys": [f"jobs/{job}/1/output/a"]}
    played.say(artifacts=[artifact], steps={f"{job}/1/0": 99})
    assert played.steps(job) == []
    assert played.store.artifacts(job) == []
    assert played.job(job).attempt.seen_step is None  # type: ignore[union-attr]


def test_another_node_cannot_speak_for_a_task() -> None:
    played = Played("n1", "n2")
    job = played.start()
    other = "n2" if played.job(job).attempt.nodes == ("n1",) else "n1"  # type: ignore[union-attr]
    played.save(f"{job}/1/0", 5, other)
    assert played.steps(job) == []


@pytest.mark.parametrize(
    "wrong",
    [{"key": "jobs/other/1/checkpoints/x"}, {"key": "../x"}, {"how": "guessed"}, {"step": -1}, {"step": "5"}],
)
def test_one_entry_that_cannot_be_read_does_not_hold_up_the_rest(played: Played, wrong: dict[str, Any]) -> None:
    job = played.start()
    key = f"jobs/{job}/1/checkpoints"
    bad = {"task": f"{job}/1/0", "step": 5, "how": "renamed", "key": f"{key}/5", **wrong}
    good = {"task": f"{job}/1/0", "step": 6, "how": "renamed", "key": f"{key}/6", "metrics": {"a": 1, "b": "x"}}
    played.say(checkpoints=[bad, good])
    assert played.steps(job) == [(1, 6)]
    assert played.store.checkpoints(job)[0].metrics == {"a": 1.0}


def test_a_gangs_checkpoint_counts_only_when_every_task_has_that_step() -> None:
    played = Played("n1", "n2")
    job = played.start(nodes=2, retries=1)
    nodes = played.job(job).attempt.nodes  # type: ignore[union-attr]
    played.save(f"{job}/1/0", 5, nodes[0])
    assert played.job(job).attempt.committed_step is None  # type: ignore[union-attr]
    played.save(f"{job}/1/1", 5, nodes[1])
    assert played.job(job).attempt.committed_step == 5  # type: ignore[union-attr]
    assert played.kinds(job).count("CheckpointCommitted") == 1
    played.save(f"{job}/1/0", 9, nodes[0])
    for index, node in enumerate(nodes):
        played.end(f"{job}/1/{index}", node)
    played.leader.tick(10)
    again = played.job(job).attempt
    assert again is not None
    assert again.resumed_step == 5
    for index, node in enumerate(again.nodes):
        assert played.duty(f"{job}/2/{index}", node)["resume"]["key"] == f"jobs/{job}/1/checkpoints/5-{index}.json"


def test_a_damaged_checkpoint_is_set_aside_and_the_claim_comes_again_with_the_one_before(played: Played) -> None:
    job = played.start(retries=1)
    for step in (5, 6):
        played.save(f"{job}/1/0", step)
    played.end(f"{job}/1/0")
    played.leader.tick(10)
    task = f"{job}/2/0"
    for step, before in ((6, 5), (5, None)):
        claim = played.duty(task)
        assert claim["resume"]["step"] == step
        bad = {"task": task, "key": claim["resume"]["key"], "detail": "part 0: wrong hash"}
        digest = played.say()["duties_digest"]
        reply = played.say(bad_checkpoints=[bad], duties_digest=digest)
        (again,) = reply["duties"]
        assert (again["do"], again["resume"] and again["resume"]["step"]) == ("claim", before)
        assert played.job(job).attempt.resumed_step == before  # type: ignore[union-attr]
        repeated = played.say(bad_checkpoints=[bad], duties_digest=reply["duties_digest"])
        assert repeated["duties"] == [], "said again, and nothing happened"
    assert [each.state for each in played.store.checkpoints(job)] == ["set_aside", "set_aside"]
    assert played.kinds(job).count("CheckpointSetAside") == 2


def test_a_fork_whose_checkpoint_is_damaged_ends_instead_of_beginning_with_nothing() -> None:
    played = Played("n1", "n2")
    origin = played.start()
    played.save(f"{origin}/1/0", 5, *played.job(origin).attempt.nodes)  # type: ignore[union-attr]
    job = played.submit(resume_from={"job": origin, "step": 5}, retries=3)
    (node,) = played.job(job).attempt.nodes  # type: ignore[union-attr]
    key = played.duty(f"{job}/1/0", node)["resume"]["key"]
    reply = played.say(node, bad_checkpoints=[{"task": f"{job}/1/0", "key": key, "detail": "part 0: wrong hash"}])
    assert reply["duties"] == []
    after = played.job(job)
    assert (after.state, after.cause, after.number) == (State.FAILED, Cause.INPUT_MISSING, 1)
    assert "step 5" in after.detail
    assert origin in after.detail
    assert "wrong hash" in after.detail
    assert "CheckpointSetAside" in played.kinds(job)


def test_a_gang_with_a_damaged_checkpoint_is_given_back_and_placed_with_the_one_before() -> None:
    played = Played("n1", "n2")
    job = played.start(nodes=2, retries=1)
    nodes = played.job(job).attempt.nodes  # type: ignore[union-attr]
    for step in (5, 6):
        for index, node in enumerate(nodes):
            played.save(f"{job}/1/{index}", step, node)
    for index, node in enumerate(nodes):
        played.end(f"{job}/1/{index}", node)
    played.leader.tick(10)
    nodes = played.job(job).attempt.nodes  # type: ignore[union-attr]
    played.say(nodes[0], reports=[{"task": f"{job}/2/0", "phase": "claimed"}])
    bad = {"task": f"{job}/2/1", "key": f"jobs/{job}/1/checkpoints/6-1.json", "detail": "wrong hash"}
    played.say(nodes[1], bad_checkpoints=[bad])
    played.leader.tick()
    after = played.job(job)
    assert (after.number, after.attempt.resumed_step) == (3, 5)  # type: ignore[union-attr]


def test_retention_keeps_the_last_ones_the_best_and_the_pinned(played: Played) -> None:
    job = played.start(checkpoint={"keep_last": 2, "keep_best": {"metric": "loss"}})
    for step, loss in ((1, 0.5), (2, 0.1), (3, 0.4), (4, 0.9), (5, 0.8)):
        played.save(f"{job}/1/0", step, metrics={"loss": loss})
        if step == 1:
            played.leader.do(Pin(job, 1, True)).result()
    assert played.steps(job) == [(1, 1), (1, 2), (1, 4), (1, 5)]
    played.leader.do(Pin(job, 1, False)).result()
    played.save(f"{job}/1/0", 6, metrics={"loss": 0.7})
    assert played.steps(job) == [(1, 2), (1, 5), (1, 6)]
    dropped = [each.step for said in played.leader.said for each in said.dropped]
    assert dropped == [3, 1, 4]
    with pytest.raises(NotFound):
        played.leader.do(Pin(job, 77, True)).result()


def test_steps_are_saved_seldom_or_with_other_news(played: Played) -> None:
    job = played.start(retries=1)
    saves = played.job(job).version
    for step in range(1, 20):
        played.say(steps={f"{job}/1/0": step})
    assert played.job(job).version == saves
    played.leader.tick(SAVE_STEPS_S + 1)
    assert (played.job(job).version, played.job(job).attempt.seen_step) == (saves + 1, 19)  # type: ignore[union-attr]
    played.say(steps={f"{job}/1/0": 25})
    played.end(f"{job}/1/0")
    assert played.store.attempts(job)[0].seen_step == 25


def test_a_preempted_job_is_told_with_its_grace_and_only_a_running_one_can_be(played: Played) -> None:
    job = played.start()
    played.leader.do(Preempt(job, "ada", 7.0)).result()
    stop = played.duty(f"{job}/1/0")
    assert (stop["do"], stop["cause"], stop["grace_s"]) == ("stop", "preempted", 7.0)
    played.leader.do(Preempt(job, "ada")).result()
    waiting = played.submit(resources={"cpus": 8})
    with pytest.raises(Conflict, match="only a running job"):
        played.leader.do(Preempt(waiting, "ada")).result()


def test_a_machine_that_will_go_keeps_a_single_task_that_it_was_told_of_until_it_answers() -> None:
    """It may have begun: placed anew at once, it would run twice."""
    played = Played("n1")
    job = played.submit(resources={"cpus": 1})
    assert played.duty(f"{job}/1/0")["do"] in ("claim", "run")
    played.say(notice={"cause": "spot", "seconds_left": 20})
    there = played.job(job)
    assert (there.state, there.number) == (State.STOPPING, 1)
    stop = played.duty(f"{job}/1/0")
    assert (stop["do"], stop["cause"]) == ("stop", "reclaimed")
    played.end(f"{job}/1/0", exit_code=None, cause="cancelled")
    assert played.job(job).state is State.QUEUED


def test_a_machine_that_will_go_gets_nothing_more_and_its_jobs_are_told() -> None:
    played = Played("n1")
    running, job = played.start(retries=0, resources={"cpus": 1}), ""
    played.say(notice={"cause": "spot", "seconds_left": 20})
    stop = played.duty(f"{running}/1/0")
    assert (stop["do"], stop["cause"], stop["grace_s"]) == ("stop", "reclaimed", 20.0)
    job = played.submit(resources={"cpus": 1})
    assert played.job(job).state is State.QUEUED
    assert "will be reclaimed" in str(played.leader.cycle.book.view.rooms["n1"].closed_because)
    facts = {"cpus": 8, "memory_bytes": 2**40}
    report = {"task": f"{running}/1/0", "phase": "running"}
    played.say(full=True, facts=facts, notice={"cause": "spot", "seconds_left": 10}, reports=[report])
    played.leader.tick()
    assert played.job(job).state is State.QUEUED
    notices = [event for event in played.store.events(0, 1000) if event.kind == "NoticeGiven"]
    assert len(notices) == 1
    played.say(full=True, facts=facts, reports=[report])
    played.leader.tick()
    assert played.job(job).state is State.STARTING, "the machine stays after all"


def test_preparing_keeps_the_claim_from_running_out(played: Played) -> None:
    job = played.submit()
    limit_s = played.leader.cycle.settings.claim_within_s
    for _ in range(3):
        played.leader.tick(limit_s - 1)
        played.say(reports=[{"task": f"{job}/1/0", "phase": "preparing", "detail": "building"}])
        assert played.job(job).state is State.STARTING
    assert played.leader.do(Why(job)).result()["sentence"].endswith("n1 building")
    played.leader.tick(limit_s + 1)
    assert played.job(job).cause is Cause.NEVER_STARTED or played.job(job).number == 2


@pytest.mark.parametrize("cause", ["environment_failed", "input_missing", "bundle_missing"])
def test_what_could_not_be_prepared_ends_the_job(played: Played, cause: str) -> None:
    job = played.submit(retries=3)
    played.say(reports=[{"task": f"{job}/1/0", "phase": "failed_prepare", "cause": cause, "detail": "no such package"}])
    after = played.job(job)
    assert (after.state, after.cause, after.detail.split("; ")[0]) == (State.FAILED, Cause(cause), "no such package")


def test_a_cause_of_a_newer_agent_counts_as_the_users(played: Played) -> None:
    job = played.start()
    played.end(f"{job}/1/0", cause="sunspots", policies=[{"label": "x", "action": "label"}])
    assert played.job(job).cause is Cause.USER_CODE
    assert played.job(job).detail == "x"


def test_a_job_that_waits_longer_than_it_wanted_ends(played: Played) -> None:
    first = played.start(resources={"cpus": 8})
    job = played.submit(limits={"pending": "1m"}, resources={"cpus": 8})
    patient = played.submit(resources={"cpus": 8})
    played.leader.tick(50)
    assert played.job(job).state is State.QUEUED
    played.leader.tick(20)
    after = played.job(job)
    assert (after.state, after.cause) == (State.FAILED, Cause.PENDING_LIMIT)
    assert played.job(patient).state is State.QUEUED
    played.end(f"{first}/1/0")


def test_artifacts_are_kept_and_told_once_per_call(played: Played) -> None:
    job = played.start()
    entries = [
        {"task": f"{job}/1/0", "path": path, "size": 3, "sha256": "ab", "keys": [f"jobs/{job}/1/output/{path}"]}
        for path in ("a", "b/c", "../x")
    ]
    reply = played.say(artifacts=entries)
    assert reply["artifacts_safe"] == [[f"{job}/1/0", path] for path in ("a", "b/c", "../x")]
    assert [each.path for each in played.store.artifacts(job)] == ["a", "b/c"]
    (event,) = [each for each in played.store.events(0, 1000, job) if each.kind == "ArtifactStored"]
    assert event.data == {"files": 2, "bytes": 6}
    played.say(dumps=[{"task": f"{job}/1/0", "key": f"jobs/{job}/1/dumps/1", "what": "stalled"}])
    assert "StackDumped" in played.kinds(job)
    dump = {"task": f"{job}/1/0", "key": f"jobs/{job}/1/dumps/0-stalled.txt", "what": "stacks"}
    played.say(dumps=[{**dump, "size": 7, "sha256": "ab"}])
    assert "headway-dumps/0-stalled.txt" in [each.path for each in played.store.artifacts(job)]


def test_a_job_is_refused_when_its_bundle_or_its_checkpoint_is_not_there() -> None:
    played = Played("n1", "n2")
    with pytest.raises(BadInput, match="there is no bundle"):
        played.submit(bundle="0" * 64)
    with pytest.raises(NotFound, match='resume_from: no job "no"'):
        played.submit(resume_from={"job": "no"})
    job = played.start()
    with pytest.raises(NotFound, match="has no complete checkpoint yet") as refusal:
        played.submit(resume_from={"job": job})
    assert refusal.value.hint == "it has none yet"
    played.save(f"{job}/1/0", 5, *played.job(job).attempt.nodes)  # type: ignore[union-attr]


def test_after_a_failed_commit_nothing_is_believed_that_the_store_does_not_say(played: Played) -> None:
    job = played.start(retries=1)
    commit, played.store.commit = played.store.commit, _full  # type: ignore[method-assign]
    with pytest.raises(HeadwayError, match="disk is full"):
        played.save(f"{job}/1/0", 5)
    played.store.commit = commit  # type: ignore[method-assign]
    assert played.leader.cycle.book.trail.checkpoints_of(job) == ()
    played.end(f"{job}/1/0")
    played.leader.tick(10)
    assert played.duty(f"{job}/2/0")["resume"] is None


def _full(*_: object) -> None:
    raise HeadwayError("the disk is full")


def test_a_new_leader_knows_where_to_go_on(played: Played) -> None:
    job = played.start(retries=1)
    played.save(f"{job}/1/0", 5)
    played.end(f"{job}/1/0")
    played.leader = Leader(played.store)
    played.leader.now += 10
    played.say(full=True, facts={"cpus": 8, "memory_bytes": 2**40})
    played.leader.tick()
    assert played.duty(f"{job}/2/0")["resume"]["step"] == 5


def test_what_is_told_of_another_storage_is_not_taken_and_told_where_storage_is() -> None:
    played = Played()
    played.leader.cycle.storage = {"mark": "aaa.2", "dir": "", "copy": ""}
    task = f"{played.start()}/1/0"
    piece = {"task": task, "rank": 0, "stream": "out", "start": 0, "end": 4, "key": "logs/n1/1", "key_offset": 0}
    ended = {"task": task, "phase": "ended", "outcome": {"exit_code": 0, "log_bytes": 4}}
    files = {"checkpoints": [{"task": task, "step": 1, "key": f"jobs/{task[:-2]}/checkpoints/1.json"}]}
    files["artifacts"] = [{"task": task, "path": "a", "size": 1, "sha256": "", "keys": [f"jobs/{task[:-2]}/output/a"]}]
    for elsewhere in ({"storage": "aaa.1"}, {}):  # An older agent names no place, and means the first.
        said = played.say(logs=[piece], reports=[ended], **files, **elsewhere)
        assert said["safe"] == {task: {}}
        assert not {"checkpoints_safe", "artifacts_safe"} & set(said)
        assert ("storage" in said) == bool(elsewhere), "an older agent would only call again at once"
        job = task.split("/")[0]
        assert played.job(job).state is State.RUNNING
        assert not any([played.store.logs(job), played.store.checkpoints(job), played.store.artifacts(job)])
    said = played.say(logs=[piece], reports=[ended], storage="aaa.2", **files)
    assert said["safe"] == {task: {"0/out": 4}}
    assert said["checkpoints_safe"] == {task: [1]}
    assert played.job(job).state is State.SUCCEEDED


def test_what_a_platform_says_of_a_machines_end_is_what_people_read() -> None:
    played = Played("n1")
    job = played.start(retries=0)
    played.say(notice={"cause": "reclaimed", "seconds_left": 50, "why": "the time limit of its Slurm job was reached"})
    said = explain_state(played.job(job), None, played.leader.now)
    assert "lost its machine, which was taken back: the time limit of its Slurm job was reached (n1)" in said
