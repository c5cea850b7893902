"""How a job is found and shown, for all routes that do so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from headway.api.web.gate import find_job
from headway.api.web.services import Services
from headway.control.jobs.commands import Why
from headway.control.views import jobs as job_views
from headway.core.model import Job, State


@dataclass(frozen=True, slots=True)
class Look:
    """How a job is found and shown."""

    services: Services

    async def find(self, request: Request, ref: str) -> Job:
        return await find_job(self.services, request, ref)

    async def shown(self, job: Job, complete: bool = False) -> dict[str, Any]:
        services = self.services
        sentence = ""
        if job.state in (State.QUEUED, State.STARTING) and services.leading:
            sentence = (await services.do(Why(job.id)))["sentence"]
        if complete:
            troubles = services.control.snapshot.node_troubles if services.leading else {}
            return await run_in_threadpool(
                job_views.detail, services.store, job, sentence, services.now(), services.price(), troubles
            )
        return job_views.summary(job, sentence, services.now())
