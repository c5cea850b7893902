"""What a waiting job is told: counted evidence, its place, when it will start, and what would start it now."""

from __future__ import annotations

from typing import Any

import pytest

from headway.core.errors import BadInput
from headway.core.explain import explain_state
from headway.core.job.signals import Claimed, Placed, Seat
from headway.core.model import Job, Node, Policy, Pool, Queue, Quota, Resources
from headway.core.scheduling import admission
from headway.core.scheduling.scheduler import (
    View,
    expected_starts,
    plan,
    view_of,
    what_if,
    why_all_waiting,
    why_waiting,
)
from headway.core.spec.job import WORDS, read_spec, show_spec
from headway.core.spec.scheduling import NO_WISHES, Wishes
from tests.builders import NOW, a_job, a_node, a_spec, after, running

HOUR = 3600.0


def sentence(job: Job, view: View) -> str:
    return explain_state(job, why_waiting(job, view, NOW), NOW)


def busy(node: str, left_s: float | None, **fields: Any) -> Job:
    job = a_job(f"busy-{node}", user="bob", seq=0, wall_s_max=left_s, **fields)
    return after(job, Placed((Seat(node, tuple(range(job.spec.resources.gpus))),)), Claimed(1, 0))


def test_the_evidence_is_counted_over_all_nodes() -> None:
    fast = {"gpu_type": "a100"}
    nodes = [a_node(f"n{number}", gpus=4, labels=fast) for number in range(5)]
    nodes += [a_node("n5", gpus=4), a_node("n6", gpus=4), a_node("n7", gpus=4, labels=fast)]
    held = [busy(f"n{number}", HOUR, gpus=3) for number in range(5)]
    job = a_job(gpus=2, nodes=2, wishes=Wishes(gpu_type="a100"))
    view = view_of([*held, job], nodes)
    view.saw_node(nodes[7], False, "draining")
    assert sentence(job, view) == (
        "waits: needs 2 nodes with 1 cpu and 2 gpus each; 0 of 2 places are free; 5 nodes: gpus in use, "
        "2 nodes: without a100 gpus, 1 node: draining; expected to start in 1 h 00 m; "
        "with other GPUs than a100 it would start now"
    )


def test_the_expected_start_follows_the_plan() -> None:
    nodes = [a_node("n1", cpus=4), a_node("n2", cpus=4)]
    jobs = [
        a_job("gang", seq=1, cpus=4, nodes=2, wall_s_max=HOUR),
        a_job("next", seq=2, cpus=4, wall_s_max=2 * HOUR),
        a_job("short", seq=3, cpus=4, wall_s_max=600.0),
    ]
    view = view_of([busy("n1", HOUR, cpus=4), *jobs], nodes)
    found = expected_starts(view, NOW)
    assert {job: start.at - NOW for job, start in found.starts.items()} == {
        "gang": HOUR,
        "next": 2 * HOUR,
        "short": 0.0,
    }
    assert all(start.exact for start in found.starts.values())
    assert sentence(jobs[1], view).endswith("expected to start in 2 h 00 m"), "the short one goes before it in any case"
    alone = view_of([busy("n1", HOUR, cpus=4), *jobs[:2]], nodes)
    assert sentence(jobs[1], alone).endswith(
        "expected to start in 2 h 00 m; with --max-duration 60m it would start now"
    )
    assert plan(view, NOW).placements[0].job == "short", "to look ahead changes nothing"
    assert [each.starts_at for each in why_all_waiting(jobs, view, NOW, found).values()] == [
        NOW + HOUR,
        NOW + 2 * HOUR,
        NOW,
    ]


def test_a_job_that_is_not_submitted_yet_is_told_when_it_would_start() -> None:
    view = view_of([busy("n1", HOUR, cpus=8)], [a_node("n1")])
    assert what_if(view, a_job(cpus=4, wall_s_max=60.0), NOW).at == NOW + HOUR
    assert what_if(view_of([], [a_node("n1")]), a_job(), NOW).at == NOW
    assert what_if(view, a_job(cpus=99), NOW).at == float("inf")
    assert not view.queued


def test_beyond_the_steps_the_start_is_a_lower_bound() -> None:
    jobs = [a_job(f"j{number}", seq=number, cpus=8, wall_s_max=60.0) for number in range(9)]
    view = view_of(jobs, [a_node("n1")])
    late = what_if(view, jobs[-1], NOW, steps_most=4)
    assert (late.at, late.exact) == (NOW + 240, False)
    assert what_if(view, jobs[-1], NOW).at == NOW + 480


def test_what_nobody_knows_is_not_told() -> None:
    job = a_job(cpus=8)
    view = view_of([busy("n1", None, cpus=8), job], [a_node("n1")])
    found = why_waiting(job, view, NOW)
    assert found.starts_at is None
    assert found.starts_unknown


@pytest.mark.parametrize(
    ("wish", "change"),
    [
        ({"cpus": 6.0}, "--cpus 4"),
        ({"gpus": 3, "cpus": 1.0}, "--gpus 2"),
        ({"nodes": 2, "cpus": 4.0}, "--nodes 1"),
        ({"pool": "a", "cpus": 8.0}, "another pool than a"),
        ({"cpus": 8.0, "wishes": Wishes(zone="x")}, "no --zone"),
    ],
)
def test_the_cheapest_change_is_named(wish: dict[str, Any], change: str) -> None:
    nodes = [a_node("n1", cpus=8, gpus=4, pool="a", zone="x")]
    if change in ("another pool than a", "no --zone"):
        nodes.append(a_node("n2", cpus=8, gpus=4, pool="b", zone="y"))
    elif "nodes" in wish:
        nodes.append(a_node("n2", cpus=8, gpus=4, pool="a"))
    held = [busy("n1", HOUR, cpus=4, gpus=2)]
    if "nodes" in wish:
        held.append(busy("n2", HOUR, cpus=6, gpus=2))
    job = a_job(**wish)
    assert why_waiting(job, view_of([*held, job], nodes), NOW).change == change


def test_quota_and_deadline_are_told() -> None:
    job = a_job(seq=5, wishes=Wishes(deadline=NOW + 60))
    queue = Queue("default", user_quota=Quota(jobs=1))
    view = view_of([running(a_job("held", seq=0, wall_s_max=HOUR), "n1"), job], [a_node("n1")], [queue])
    assert 'user "ada" in queue "default" holds 1 job of its quota of 1 job' in sentence(job, view)
    assert "too late for its deadline" in sentence(job, view)
    none = view_of([job], [a_node("n1")], [Queue("default", quota=Quota(cpus=0))])
    assert 'can never run here: it wants 1 cpu, and the quota of queue "default" is 0 cpus' in sentence(job, none)


def test_those_ahead_are_counted_and_named() -> None:
    jobs = [a_job(f"j{number}", seq=number, cpus=8) for number in range(6)]
    view = view_of(jobs, [a_node("n1", cpus=8)])
    found = why_waiting(jobs[5], view, NOW)
    assert (found.ahead, found.ahead_first) == (5, ("j0", "j1", "j2"))


# --- at submission ---

POOL = Pool("lab", "ssh", nodes_max=4, shape=Resources(32.0, 64 * 2**30, 4), gpu_type="a100")


@pytest.mark.parametrize(
    ("fields", "queue", "said"),
    [
        ({"gpus": 8}, Queue(), '8 GPUs on one node; the largest node of pool "lab" has 4'),
        ({"cpus": 64.0}, Queue(), '64 cpus on one node; the largest node of pool "lab" has 32'),
        ({"memory_bytes": 2**40}, Queue(), '1.0 TiB memory on one node; the largest node of pool "lab" has 64.0 GiB'),
        ({"nodes": 5}, Queue(), '5 nodes wanted; pool "lab" has 4 at most'),
        (
            {"gpus": 1, "wishes": Wishes(gpu_type="h100")},
            Queue(),
            "every node that is large enough is without h100 gpus",
        ),
        ({"pool": "nope"}, Queue(), 'no pool named "nope"'),
        ({"pool": "lab"}, Queue(pools=("other",)), 'queue "default" may not use pool "lab"'),
        ({}, Queue(pools=()), 'queue "default" may use no pool, so nothing can run there'),
        ({}, Queue(quota=Quota(jobs=0)), '1 job wanted, and the quota of queue "default" is 0'),
        (
            {"gpus": 2},
            Queue(user_quota=Quota(gpus=1)),
            '2 gpus wanted, and the quota of user "ada" in queue "default" is 1',
        ),
        (
            {"wall_s_max": 7200.0},
            Queue(wall_s_max=HOUR),
            'max_duration: 2 h 00 m; queue "default" takes jobs of 1 h 00 m',
        ),
        ({"wishes": Wishes(licences=(("matlab", 1),))}, Queue(), "licences.matlab: 1 wanted, there are 0"),
    ],
)
def test_what_can_never_run_here_is_refused(fields: dict[str, Any], queue: Queue, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        admission.check(a_spec(**fields), queue, [POOL], user="ada")
    assert said in caught.value.message


def test_what_might_run_some_day_is_taken() -> None:
    spec = a_spec(gpus=4, nodes=4)
    assert admission.check(spec, Queue(), [POOL]) == spec
    assert admission.check(a_spec(gpus=64), Queue(), [Pool("new", "aws")]).resources.gpus == 64, (
        "nobody knows its shape"
    )
    assert admission.check(spec, Queue(wall_s_default=HOUR), [POOL]).wall_s_max == HOUR
    assert admission.check(a_spec(gpus=64), Queue(), []).nodes == 1


# --- the words ---


def test_wishes_read_back_as_they_are_shown() -> None:
    words = {
        "after": ["j1", {"job": "j2", "when": "any"}, {"job": "many", "each": True}],
        "start_at": "2030-01-31T18:00Z",
        "deadline": 1_900_000_000,
        "zone": "same",
        "layout": "pack",
        "labels": {"disk": "nvme"},
        "licences": {"matlab": 2},
        "array": 10,
        "estimate": "40m",
        "hold": True,
    }
    plain = {"command": ["true"]}
    spec = read_spec({**plain, **words})
    assert read_spec(show_spec(spec)) == spec
    assert spec.wishes.estimate_s == 2400
    assert read_spec(plain).wishes is NO_WISHES
    assert not {key for key, entry in WORDS.all.items() if entry.group == "wishes"} & set(show_spec(read_spec(plain)))


@pytest.mark.parametrize(
    "words",
    [
        {"after": [{"job": "j1", "when": "sometimes"}]},
        {"after": [{"job": "no such id!"}]},
        {"after": [7]},
        {"after": [{"jobs": "j1"}]},
        {"start_at": "tomorrow"},
        {"start_at": "2030-01-31T18:00"},
        {"start_at": 2000, "deadline": 1000},
        {"start_at": float("nan")},
        {"layout": "scatter"},
        {"zone": "a b"},
        {"licences": {"matlab": 0}},
        {"licences": ["matlab"]},
        {"labels": {"": "x"}},
        {"array": 0},
        {"array": 100_001},
        {"estimate": 0},
        {"hold": "yes"},
        {"gpu_type": "a100"},
        {"ranks_per_node": 1000},
    ],
)
def test_wishes_that_make_no_sense_are_refused(words: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        read_spec({"command": ["true"], **words})


def test_each_policy_has_a_sentence_and_plans() -> None:
    nodes: list[Node] = [a_node()]
    for name in ("fair", "fifo", "throughput", "las"):
        assert plan(view_of([a_job()], nodes, policy=Policy(name)), NOW).placements
