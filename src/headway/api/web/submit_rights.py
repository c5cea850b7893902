"""Whether what is submitted is the submitter's to submit: its project, the jobs that it names, the code that it runs.

Where nobody signs in, and for admins of the server, everything is: they pay nothing for the questions here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from headway.api.web.gate import Right, actor_of, check
from headway.api.web.services import Services
from headway.control.access.audit import recording
from headway.control.views import jobs as job_views
from headway.core.access.accounts import check_name
from headway.core.access.actor import Actor
from headway.core.errors import BadInput, NotAllowed, NotFound
from headway.core.spec.job import JobSpec, read_spec
from headway.core.spec.scheduling import After
from headway.store.protocol import JobFilter


def own_key(request: Request, key: str) -> str:
    """An idempotency key among those of its user: another user's is another key."""
    actor = actor_of(request)
    return key if not key or actor.kind == "house" else f"{actor.kind}:{actor.name}:{key}"


def submitter(request: Request, wish: object) -> str:
    """Whose job it will be: the caller's; an admin of the server may name somebody else."""
    actor = actor_of(request)
    if wish is None or wish == actor.name:
        return actor.name
    if not actor.admin:
        raise NotAllowed(f'"{actor.name}" may not submit for "{str(wish)[:80]}"', "only admins of the server may")
    return check_name(wish, "user")


@dataclass(frozen=True, slots=True)
class Admission:
    services: Services

    async def admit(self, request: Request, specs: Sequence[JobSpec], raws: Sequence[Any]) -> tuple[JobSpec, ...]:
        """The descriptions with their project, and with ids that the caller may see for the jobs that they name."""
        actor = actor_of(request)
        admitted = await self._admitted(request, actor, specs, raws)
        for web in self.services.webs.values():
            if web.concerns is not None and web.check is not None:
                concerned = {id(spec): spec for spec in admitted if web.concerns(spec)}
                for spec in concerned.values():
                    await run_in_threadpool(web.check, self.services, spec)
        return admitted

    async def _admitted(
        self, request: Request, actor: Actor, specs: Sequence[JobSpec], raws: Sequence[Any]
    ) -> tuple[JobSpec, ...]:
        if actor.admin:
            if specs and (record := recording.get()) is not None:
                record.project = specs[0].project
            return tuple(specs)
        within = frozenset(spec.name for spec in specs) if len(specs) > 1 else frozenset()
        return await run_in_threadpool(self._all, request, tuple(specs), tuple(raws), within)

    def _all(
        self, request: Request, specs: tuple[JobSpec, ...], raws: tuple[Any, ...], within: frozenset[str]
    ) -> tuple[JobSpec, ...]:
        known: dict[int, JobSpec] = {}  # Large batches share their descriptions.
        for spec, raw in zip(specs, raws, strict=True):
            if id(spec) not in known:
                known[id(spec)] = self._one(request, spec, raw, within)
        return tuple(known[id(spec)] for spec in specs)

    def _one(self, request: Request, spec: JobSpec, raw: Any, within: frozenset[str]) -> JobSpec:
        actor = actor_of(request)
        if not isinstance(raw, Mapping) or "project" not in raw:
            spec = replace(spec, project=usual_project(actor))
        check(request, spec.project)
        if spec.wishes.after:
            after = tuple(self._visible(actor, each, within) for each in spec.wishes.after)
            spec = replace(spec, wishes=replace(spec.wishes, after=after))
        resume = spec.progress.resume_from
        if resume is not None:
            found = self.services.store.jobs([resume.job])
            if not found or not actor.sees(found[0].spec.project):
                raise NotFound(f'resume_from: no job "{resume.job[:80]}"', "headway ps")
        self._features(actor, spec)
        return spec

    def _visible(self, actor: Actor, after: After, within: frozenset[str]) -> After:
        if after.job in within:
            return after
        return replace(after, job=self.visible_id(actor, after.job))

    def visible_id(self, actor: Actor, ref: str) -> str:
        """The id of a job or array that the caller may see, for the name or id that was given."""
        if self.services.store.page(JobFilter(array=ref, projects=actor.projects), None, 1):
            return ref
        try:
            return job_views.find_job(self.services.store, ref, actor.projects).id
        except NotFound as error:
            raise BadInput(f"after: {error.message}", error.hint) from None

    async def change(self, request: Request, words: Mapping[str, Any]) -> dict[str, Any]:
        """Changes of a job: not into a project, nor after a job, that is not the caller's."""
        actor, words = actor_of(request), dict(words)
        if actor.admin:
            return words
        if isinstance(words.get("project"), str):
            check(request, words["project"])
        elif "project" in words:
            raise BadInput(f'project: "{str(words["project"])[:80]}" is not a valid project name')
        if isinstance(words.get("after"), list):
            words["after"] = [await run_in_threadpool(self._after, actor, each) for each in words["after"]]
        return words

    def _after(self, actor: Actor, raw: Any) -> Any:
        if isinstance(raw, str):
            return self.visible_id(actor, raw)
        if isinstance(raw, Mapping) and isinstance(raw.get("job"), str):
            return {**raw, "job": self.visible_id(actor, raw["job"])}
        return raw  # Not a reference; reading it will say so.

    async def again(self, request: Request, spec: JobSpec, changes: Mapping[str, Any]) -> JobSpec:
        """A job that is done again: what changes say of it must be the caller's to ask for, as in a new one."""
        actor = actor_of(request)
        if changes and not actor.admin:
            await run_in_threadpool(self._features, actor, spec)
        return spec

    def _features(self, actor: Actor, spec: JobSpec) -> None:
        for web in self.services.webs.values():
            if web.admit is not None:
                web.admit(self.services, actor, spec)

    async def schedule(self, request: Request, words: Mapping[str, Any]) -> dict[str, Any]:
        """A schedule whose job is the caller's to submit."""
        raw = words.get("job")
        if actor_of(request).admin or not isinstance(raw, Mapping):
            return dict(words)
        (spec,) = await self.admit(request, (read_spec(raw),), [raw])
        ids = [{"job": each.job, "when": each.when, "each": each.each} for each in spec.wishes.after]
        after = {"after": ids} if ids else {}
        return {**words, "job": {**raw, **after, "project": spec.project}}


def usual_project(actor: Actor) -> str:
    """The project of a job that names none: the only one in which the caller may submit, else `default`."""
    mine = sorted(project for project in actor.roles if actor.may(Right.CHANGE, project))
    if len(mine) == 1:
        return mine[0]
    if "default" in mine or not mine:
        return "default"
    raise BadInput("several projects are possible", f"choose one with --project: {', '.join(mine)}")
