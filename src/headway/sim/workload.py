"""The users: what they submit, with which keys, what they cancel, retry and remove, and what their code does.

They behave as the real client does: a call without an answer is made again with the same key, until it is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

from headway.control.jobs.commands import ForgetJob, Retry, Stop, Submit
from headway.control.jobs.derive import Preempt
from headway.control.state.transaction import Command
from headway.core.errors import Conflict, NotFound, UserError
from headway.core.model import Job, JobId, Resources
from headway.core.spec.job import JobSpec
from headway.core.spec.program import ProgramSpec
from headway.core.spec.program_words import PLATFORM_MAX, RetryPolicy
from headway.sim.arrays import ArrayUsers
from headway.sim.faults import DEAFENS, UPSETS
from headway.sim.judge.broken import Broken
from headway.sim.judge.checkpoints import EVERY_S
from headway.sim.node import habits
from headway.sim.node.agent import GONE
from headway.sim.node.habits import Habit
from headway.sim.node.machine import Script
from headway_wire.tasks import split_key

if TYPE_CHECKING:
    from headway.sim.run import Simulation

Answered = Callable[[Any], None]
Failed = Callable[[UserError], bool]
FOREVER = float("inf")
KINDS = ("good", "good", "good", "good", "long", "failing", "flaky", "one fails", "limited", "hanging")
GB = 2**30
HOMELESS = 0.1  # Of jobs whose code is good, those whose directory no node has.
SAVERS: tuple[Callable[[int], frozenset[int]], ...] = (  # Each task its share; the first, the last, or two for all.
    lambda nodes: frozenset(range(nodes)),
    lambda nodes: frozenset(range(nodes)),
    lambda nodes: frozenset({0}),
    lambda nodes: frozenset({0}),
    lambda nodes: frozenset({nodes - 1}),
    lambda nodes: frozenset({0, nodes - 1}),
)
LOSSES_MAX = (PLATFORM_MAX, PLATFORM_MAX, PLATFORM_MAX, 3, 1)  # Without a new step in between.


@dataclass
class CodePlan:
    """One user with one job in mind, and what they were told."""

    name: str
    kind: str
    spec: JobSpec
    base: Script
    savers: frozenset[int] = frozenset({0})  # The tasks of which a rank saves.
    fails: int = 0  # How often the code fails before it succeeds.
    acknowledged: JobId | None = None
    cancel_sent: set[JobId] = field(default_factory=set)
    cancel_taken: set[JobId] = field(default_factory=set)  # Acknowledged while the job had not ended.
    remove_sent: bool = False
    removed: bool = False
    errands: int = 0  # Calls still to be made, or whose answer is still to come.
    failing: dict[tuple[JobId, int], bool] = field(default_factory=dict)

    @property
    def promised(self) -> list[JobId]:
        """The jobs that an acknowledged submit must have made."""
        if self.acknowledged is None or not self.spec.wishes.array:
            return [self.acknowledged] if self.acknowledged else []
        return [f"{self.acknowledged}-{index}" for index in range(self.spec.wishes.array)]


Errand = Callable[[CodePlan], None]


class Workload:
    def __init__(self, simulation: Simulation, jobs: int, within_s: float) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.plans: dict[str, CodePlan] = {}
        for number in range(jobs):
            plan = self._plan(f"p{number}")
            self.plans[plan.name] = plan
            self.later(plan, 0.0, within_s, self._submit)
        if simulation.drawn["floods"]:
            self._flood(jobs, within_s, Random(f"{self.world.seed} flood"))
        if simulation.drawn["arrays"]:
            ArrayUsers(self, within_s, Random(f"{self.world.seed} array"))

    def _flood(self, first: int, within_s: float, apart: Random) -> None:
        """Alike short jobs, all at once: more than there is room for, so that they wait on nodes behind each other."""
        cpus = apart.choice((1.0, min(each.cpus for each in self.simulation.granted)))
        spec = JobSpec(("train",), "flood", resources=Resources(cpus), grace_s=apart.choice((0.0, 5.0)))
        at_s, runs_s = apart.uniform(0.0, within_s), apart.choice((0.5, 2.0, 10.0))
        kinds = ["good"] * 12 + ["failing", "hanging"] if apart.random() < 0.5 else ["good"]
        for number in range(first, first + apart.randint(10, 30)):
            name, kind = f"p{number}", apart.choice(kinds)
            base = Script(runs_s, bytes_per_s=apart.choice((0.0, 0.0, 20.0)))
            plan = CodePlan(name, kind, replace(spec, name=name), base, fails=1000 if kind == "failing" else 0)
            plan.errands += 1
            self.plans[name] = plan
            self.world.after(at_s + apart.uniform(0.0, 0.2), self._submit, plan)
        for number in range(4 if self.simulation.drawn["floods"] > 1.0 else 0):
            urgent = replace(spec, name=f"urgent{number}", priority=7, resources=Resources(apart.choice((1.0, cpus))))
            plan = self.plans[urgent.name] = CodePlan(urgent.name, "good", urgent, Script(apart.uniform(1.0, 20.0)))
            plan.errands += 1
            self.world.after(at_s + apart.uniform(0.0, 40.0), self._submit, plan)

    # --- what they want ---

    def _plan(self, name: str) -> CodePlan:
        world, chance = self.world, self.world.chance
        granted = self.simulation.granted
        kind = chance.choice(KINDS)
        least = min(each.cpus for each in granted)
        memory = min(each.memory_bytes for each in granted)
        gpus = min(each.gpus for each in granted)
        wants = Resources(
            chance.choice((0.5, 1.0, 1.0, least / 2, least)),
            chance.choice((0, 0, memory // 4, memory)),
            chance.randint(0, gpus),
        )
        nodes = min(chance.choice((1, 1, 1, 2, 3, 4)), len(granted))
        spec = JobSpec(
            ("train",),
            name,
            nodes=nodes,
            ranks_per_node=chance.choice((1, 1, 1, 1, 2, 4)),
            resources=wants,
            priority=chance.choice((0, 0, 5)),
            retries_max=chance.choice((0, 1, 3)),
            grace_s=round(world.between(0.0, 20.0), 1),
            wall_s_max=world.between(5.0, 60.0) if kind == "limited" else None,
            progress=ProgramSpec(
                again=RetryPolicy(platform_max=Random(f"{world.seed} {name} budget").choice(LOSSES_MAX))
            ),
        )
        base = Script(
            world.between(80.0, 300.0) if kind == "long" else world.between(0.0, 60.0),
            on_term=chance.choice(("dies", "cleans up", "ignores")),
            cleanup_s=world.between(0.1, 10.0),
            bytes_per_s=chance.choice((0.0, 0.0, 5.0, 50.0, 200.0)),
            leaves_s=world.between(0.1, 30.0) if world.happens(0.15) else 0.0,
            saves_every_s=Random(f"{world.seed} {name}").choice(EVERY_S),
        )
        drawn = self.simulation.drawn
        upset, deaf = any(drawn[each] for each in UPSETS), any(drawn[each] for each in DEAFENS)
        habit = habits.draw(Random(f"{world.seed} {name} habit"), nodes, base.saves_every_s, upset, deaf)
        base = replace(base, habit=habit)
        savers = Random(f"{world.seed} {name} savers").choice(SAVERS)(nodes)
        fails = {"failing": 1000, "one fails": 1000, "flaky": 2}.get(kind, 0)
        if kind == "good" and Random(f"{world.seed} {name} place").random() < HOMELESS:
            kind, spec = "homeless", replace(spec, workdir=GONE)
        return CodePlan(name, kind, spec, base, savers, fails)

    def savers(self, job: Job) -> frozenset[int]:
        """The tasks that save, as only the user's code knows it."""
        return self.plans[job.spec.name].savers

    def habit(self, task: str) -> Habit:
        return self.plans[self.simulation.oracle.jobs[split_key(task)[0]].spec.name].base.habit

    def script(self, task: str, rank: int) -> Script:
        """What this rank's code does. Code that is flaky fails in so many attempts, then no more."""
        job, attempt, index = split_key(task)
        plan = self.plans[self.simulation.oracle.jobs[job].spec.name]
        fails = plan.failing.get((job, attempt))
        if fails is None:
            failed = sum(real.failed for (of, _), real in self.simulation.oracle.real.items() if of == job)
            fails = plan.failing[job, attempt] = failed < plan.fails
        base = plan.base
        runs_s = base.runs_s * self.world.between(0.8, 1.0)
        if plan.kind in ("limited", "hanging") or (plan.kind == "one fails" and rank != 0):
            runs_s = FOREVER
        guilty = fails and (rank == 0 or plan.kind != "one fails")
        last = (rank + 1) % plan.spec.ranks_per_node == 0
        every_s = base.saves_every_s if last and index in plan.savers else 0
        return replace(base, runs_s=runs_s, exit_code=1 if guilty else 0, saves_every_s=every_s)

    # --- what they do ---

    def later(self, plan: CodePlan, least_s: float, most_s: float, do: Callable[..., None], *more: Any) -> None:
        plan.errands += 1
        self.world.after(self.world.between(least_s, most_s), do, plan, *more)

    def call(self, plan: CodePlan, command: Command, answered: Answered, failed: Failed, do: Errand) -> None:
        """Ask the server; ask again as long as nothing is known. `failed` says whether the answer was an answer."""

        def done(result: Any) -> None:
            plan.errands -= 1
            answered(result)

        def not_done(error: BaseException) -> None:
            plan.errands -= 1
            if not isinstance(error, UserError):
                self.later(plan, 0.5, 5.0, do)
            elif not failed(error):
                raise Broken("safety", plan.acknowledged or plan.name, f"a good request was refused: {error}")

        network, server = self.simulation.network, self.simulation.server
        network.call("user", lambda answer, fail: server.ask(command, answer, fail), done, not_done, 10.0)

    def _submit(self, plan: CodePlan) -> None:
        command = Submit((plan.spec,), "ann", self.simulation.server.new_id, plan.name, "digest")
        self.call(plan, command, lambda ids: self._submitted(plan, ids), lambda _: False, self._submit)

    def _submitted(self, plan: CodePlan, ids: list[JobId]) -> None:
        if plan.acknowledged not in (None, ids[0]):
            raise Broken("safety", ids[0], f'the key "{plan.name}" was answered with {plan.acknowledged} and {ids[0]}')
        if plan.acknowledged is not None:
            return
        plan.acknowledged = ids[0]
        self.world.tell(ids[0], f"was acknowledged as {plan.name} ({plan.kind})")
        chance = self.world.chance
        if chance.random() < 0.2:
            self.later(plan, 0.0, 120.0, self._submit)
        if plan.kind == "hanging" or chance.random() < 0.2:
            self.later(plan, 0.0, 200.0, self._cancel)
        elif chance.random() < 0.2:
            self.later(plan, 10.0, 300.0, self._retry)
        if chance.random() < 0.15:
            self.later(plan, 60.0, 400.0, self._remove)
        if plan.base.saves_every_s:
            self.later(plan, 5.0, 100.0, self._preempt)

    def _cancel(self, plan: CodePlan) -> None:
        assert plan.acknowledged is not None
        job = plan.acknowledged
        plan.cancel_sent.add(job)

        def answered(after: Job) -> None:
            self.world.tell(job, f"its cancel was acknowledged as {after.state.value}")
            if not after.state.ended or after.state.value == "cancelled":
                plan.cancel_taken.add(job)

        grace_s = self.world.chance.choice((None, None, 0.0, 3.0))

        def refused(error: UserError) -> bool:
            """Whoever comes too late to stop it need not want its files to be lost."""
            return isinstance(error, Conflict) or (isinstance(error, NotFound) and plan.remove_sent)

        stop = Stop(job, "ann", grace_s, drop_files=grace_s == 0.0)
        self.call(plan, stop, answered, refused, self._cancel)

    def _preempt(self, plan: CodePlan) -> None:
        """The user asks the job to make room. Nothing comes of it where it does not run; nobody insists."""
        assert plan.acknowledged is not None
        self.call(plan, Preempt(plan.acknowledged, "ann"), _shrug, lambda _: True, self._shrug_off)

    def _retry(self, plan: CodePlan) -> None:
        assert plan.acknowledged is not None
        command = Retry(plan.acknowledged, "ann", self.simulation.server.new_id)
        # Without a key: asked twice, it makes two jobs. So nobody insists.
        self.call(plan, command, _shrug, lambda _: True, self._shrug_off)

    def _shrug_off(self, plan: CodePlan) -> None:
        plan.errands -= 1

    def _remove(self, plan: CodePlan) -> None:
        assert plan.acknowledged is not None
        plan.remove_sent = True

        def answered(_: object) -> None:
            plan.removed = True

        def failed(error: UserError) -> bool:
            plan.removed = isinstance(error, NotFound)
            return isinstance(error, NotFound | Conflict)

        self.call(plan, ForgetJob(plan.acknowledged, "ann"), answered, failed, self._remove)


def _shrug(_: object) -> None:
    """Whatever came of it, nobody insists."""
