"""Arrays as one thing: found by id or name, counted by state, one row in a list. Reads only.

An element that was tried again counts once, as its newest job does. The elements of one submission have numbers
without gaps, in their order: so a list steps over the rest of an array, however large it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.control.views import jobs as job_views
from headway.control.views.selection import ENDED, OPEN
from headway.core import explain
from headway.core.model import Job
from headway.core.spec.job import show_spec
from headway.store.protocol import JobFilter, Store

SHOWN_MOST = 10
COUNT = "HEADWAY_ARRAY_COUNT"
SAID = {
    "succeeded": "succeeded", "failed": "failed", "cancelled": "cancelled", "running": "running",
    "starting": "starting", "stopping": "stopping", "queued": "waiting",
}  # fmt: skip


def find_array(store: Store, ref: str, projects: frozenset[str] | None = None) -> str | None:
    """The array of this id, of this unmistakable beginning of an id, or of this name; None where it is not one's."""
    if not ref:
        return None
    if store.page(JobFilter(array=ref, projects=projects), None, 1):
        return ref
    if store.jobs([ref]):
        return None
    found = store.find(ref, 10, projects)
    if not found:
        return None
    named = [job for job in found if job.spec.name == ref]
    if named:
        return named[0].array_id
    arrays = {job.array_id for job in found}
    (only, *others) = arrays
    return only if not others and only is not None and only.startswith(ref) else None


def state_of(states: Mapping[str, int]) -> str:
    """An array as if it were one job: it goes on until all have ended, and succeeded if all of them did."""
    if any(states.get(state) for state in OPEN):
        return "queued" if set(states) & OPEN == {"queued"} and not set(states) & ENDED else "running"
    return next((bad for bad in ("failed", "cancelled") if states.get(bad)), "succeeded")


def sentence(states: Mapping[str, int], at_once: int = 0) -> str:
    """`7 succeeded, 1 failed, 2 running, 90 waiting (at most 2 at once)`."""
    said = ", ".join(f"{states[state]:,} {word}" for state, word in SAID.items() if states.get(state))
    return f"{said} (at most {at_once} at once)" if at_once and states.get("queued") else said


def show_array(store: Store, id: str, one: Job | None = None) -> dict[str, Any] | None:
    """What is shown of an array in a list; None when there is no such array."""
    if one is None:
        newest = store.page(JobFilter(array=id), None, 1)
        if not newest:
            return None
        one = newest[0]
    first = store.jobs([f"{id}-0"]) if one.retry_of is not None else []
    states = store.counts(JobFilter(array=id, unretried=True))
    at_once = one.spec.wishes.at_once
    state = state_of(states)
    return {
        "id": id,
        "seq": one.seq,
        "name": one.spec.name,
        "state": state,
        "count": sum(states.values()),
        "states": states,
        "at_once": at_once,
        "sentence": sentence(states, at_once),
        "project": one.spec.project,
        "user": one.user,
        "queue": one.spec.queue,
        "pool": one.spec.pool,
        "priority": one.spec.priority,
        "nodes": one.spec.nodes,
        "submitted_at": (first or [one])[0].submitted_at,
        "tags": dict(one.spec.tags),
    }


def describe_array(store: Store, id: str, now: float) -> dict[str, Any] | None:
    """All about an array: also its description, and the first of its jobs that failed, run and wait."""
    found = show_array(store, id)
    if found is None:
        return None
    which = JobFilter(array=id, unretried=True)
    groups = {"failed": {"failed", "cancelled"}, "running": {"running", "starting", "stopping"}, "queued": {"queued"}}
    shown: dict[str, list[dict[str, Any]]] = {}
    for name, states in groups.items():
        page = store.page(replace(which, states=frozenset(states)), None, SHOWN_MOST)
        shown[name] = [job_views.summary(job, "", now) for job in reversed(page)]
    one = store.page(JobFilter(array=id), None, 1)[0]
    spec = show_spec(one.spec)
    ended = [] if any(found["states"].get(state) for state in OPEN) else [_ended_last(store, id)]
    return {**found, "spec": spec, "jobs": shown, "ended_at": ended[0] if ended else None}


def _ended_last(store: Store, id: str) -> float | None:
    newest = store.page(JobFilter(array=id, states=ENDED), None, SHOWN_MOST)
    return max((job.ended_at for job in newest if job.ended_at is not None), default=None)


def page_of_rows(
    store: Store, which: JobFilter, before: int | None, limit: int
) -> tuple[list[Job | dict[str, Any]], int | None]:
    """Jobs and arrays, newest first, each array once; and where the next page begins, if there may be one."""
    found: list[Job | dict[str, Any]] = []
    seen: set[str] = set()
    while True:
        page = store.page(which, before, limit)
        for job in page:
            if before is not None and job.seq >= before:
                continue  # Stepped over with the rest of its array.
            before = job.seq
            if job.array_id is None:
                found.append(job)
            elif job.array_id not in seen:
                seen.add(job.array_id)
                row = show_array(store, job.array_id, job)
                assert row is not None
                found.append(row)
            if job.array_id is not None and job.retry_of is None:
                before = max(job.seq - (job.array_index or 0), 0)
            if len(found) >= limit:
                return found, before
        if len(page) < limit:
            return found, None


def why_array(store: Store, id: str, waits: str) -> dict[str, Any]:
    """Why an array is where it is; `waits` says it of the first of its jobs that waits."""
    found = show_array(store, id)
    assert found is not None
    said, hint = found["sentence"], ""
    failed = store.page(JobFilter(array=id, states=frozenset({"failed"}), unretried=True), None, 1)
    if failed:
        said += f"; {failed[0].id} {explain.explain_state(failed[0])}"
        hint = f"headway retry --failed {id} tries those again that failed"
    if waits:
        said += f"; the next one {waits}"
    return {"job": id, "state": found["state"], "sentence": said, "hint": hint, "evidence": {"states": found["states"]}}
