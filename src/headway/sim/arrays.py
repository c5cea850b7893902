"""Users of arrays in the simulated world: how many of one may run at once, whatever happens; stopped, tagged, retried.

They call as the other users do (workload.py). That the limit holds is the oracle's to see.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from headway.control.jobs.change import EachOf
from headway.control.jobs.commands import Retry, Stop, Submit
from headway.control.jobs.selected import Each, Tag
from headway.core.model import JobId, Resources, State
from headway.core.spec.job import JobSpec
from headway.core.spec.scheduling import Wishes
from headway.sim.judge.broken import Broken
from headway.sim.node.machine import Script

if TYPE_CHECKING:
    from headway.sim.workload import CodePlan, Workload


class ArrayUsers:
    def __init__(self, workload: Workload, within_s: float, apart: Random) -> None:
        self.workload = workload
        self.simulation = workload.simulation
        self.apart = apart
        least = min(each.cpus for each in self.simulation.granted)
        for number in range(apart.randint(1, 2)):
            plan = self._plan(f"array{number}", least)
            workload.plans[plan.name] = plan
            plan.errands += 1
            self.simulation.world.after(apart.uniform(0.0, within_s), self._submit, plan)

    def _plan(self, name: str, least: float) -> CodePlan:
        from headway.sim.workload import CodePlan

        apart = self.apart
        kind = apart.choice(("good", "good", "good", "failing"))
        wishes = Wishes(array=apart.randint(4, 12), at_once=apart.randint(1, 3))
        spec = JobSpec(
            ("train",),
            name,
            resources=Resources(apart.choice((0.5, 1.0, least))),
            retries_max=apart.choice((0, 0, 2)),
            grace_s=apart.choice((0.0, 5.0)),
            wishes=wishes,
        )
        base = Script(apart.choice((0.5, 3.0, 20.0)), on_term=apart.choice(("dies", "cleans up")))
        return CodePlan(name, kind, spec, base, fails=1000 if kind == "failing" else 0)

    def _submit(self, plan: CodePlan) -> None:
        command = Submit((plan.spec,), "ann", self.simulation.server.new_id, plan.name, "digest")
        self.workload.call(plan, command, lambda ids: self._submitted(plan, ids), lambda _: False, self._submit)

    def _submitted(self, plan: CodePlan, ids: list[JobId]) -> None:
        if plan.acknowledged not in (None, ids[0]):
            raise Broken("safety", ids[0], f'the key "{plan.name}" was answered with {plan.acknowledged} and {ids[0]}')
        if plan.acknowledged is not None:
            return
        plan.acknowledged = ids[0]
        for chance, least_s, most_s, errand in (
            (0.3, 0.0, 60.0, self._submit),
            (0.3, 0.0, 100.0, self._tag),
            (0.4, 20.0, 200.0, self._retry),
            (0.25, 5.0, 100.0, self._stop),
        ):
            if self.apart.random() < chance:
                self.workload.later(plan, least_s, most_s, errand)

    def _stop(self, plan: CodePlan) -> None:
        assert plan.acknowledged is not None
        jobs = [job.id for job in self.simulation.oracle.jobs.values() if job.array_id == plan.acknowledged]
        plan.cancel_sent.update(jobs, plan.promised)
        command = EachOf(plan.acknowledged, lambda job: Stop(job, "ann"))
        self.workload.call(plan, command, _shrug, lambda _: True, self._shrug_off)

    def _tag(self, plan: CodePlan) -> None:
        command = Each(tuple(plan.promised), lambda job: Tag(job, {"seen": "yes"}))
        self.workload.call(plan, command, _shrug, lambda _: True, self._tag)

    def _retry(self, plan: CodePlan) -> None:
        """Those that failed are tried again, as jobs of the same array: its limit is theirs too."""
        known = self.simulation.oracle.jobs
        failed = [job for job in plan.promised if job in known and known[job].state is State.FAILED]
        new_id = self.simulation.server.new_id
        command = Each(tuple(failed), lambda job: Retry(job, "ann", new_id, f"again {job}"))
        self.workload.call(plan, command, _shrug, lambda _: True, self._retry)

    def _shrug_off(self, plan: CodePlan) -> None:
        plan.errands -= 1


def _shrug(_: Any) -> None:
    """Whatever came of it, nobody insists."""
