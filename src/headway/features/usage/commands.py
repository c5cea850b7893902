"""The question what is used now: it has the nodes look, and answers what they said last. Nothing of it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.control.state.transaction import Transaction
from headway.core.model import Job, NodeId
from headway.features.usage.watched_nodes import FOR_S, FRESH_S, NodeUse, WatchedNodes
from headway_wire.tasks import task_key

JOBS_MOST = 500


@dataclass(frozen=True, slots=True)
class AskUsage:
    """What runs and what it uses: the jobs that use most, and all nodes. `projects`: of these alone."""

    projects: frozenset[str] | None = None

    def apply(self, tx: Transaction) -> dict[str, Any]:
        book, now = tx.book, tx.now
        watching = WatchedNodes.of(book)
        watching.until = now + FOR_S
        book.touched.update(book.nodes)
        heard = {node: use for node, use in watching.heard.items() if now - use.at <= FRESH_S and node in book.nodes}
        active = [job for job in book.active.values() if not job.lined and job.alive]
        gone = watching.steps.keys() - {job.id for job in active}
        for job_id in gone:
            del watching.steps[job_id]
        seen = [job for job in active if self.projects is None or job.spec.project in self.projects]
        jobs = [_job(tx, watching, heard, job) for job in seen]
        jobs.sort(key=lambda job: (-(job["cpus"] or 0.0), job["id"]))
        return {
            "jobs": jobs[:JOBS_MOST],
            "jobs_count": len(jobs),
            "nodes": [_node(tx, heard.get(node), node) for node in sorted(book.nodes)],
            "heard": len(heard),
        }


def _job(tx: Transaction, watching: WatchedNodes, heard: Mapping[NodeId, NodeUse], job: Job) -> dict[str, Any]:
    attempt, spec = job.attempt, job.spec
    assert attempt is not None
    cores, memory, known = 0.0, 0, False
    loads: list[int] = []
    for task in job.alive:
        use = heard.get(task.node)
        if use is None:
            continue
        known = True
        taken = use.tasks.get(task_key(job.id, job.number, task.index), (0.0, 0))
        cores, memory = cores + taken[0], memory + taken[1]
        loads += [load for index, load, _ in use.gpus if index in task.gpus]
    step = tx.book.trail.seen.get(job.id, attempt.seen_step)
    return {
        "id": job.id,
        "name": spec.name,
        "user": job.user,
        "project": spec.project,
        "state": job.state.value,
        "nodes": list(dict.fromkeys(task.node for task in job.alive)),
        "cpus": round(cores, 2) if known else None,
        "cpus_wanted": spec.resources.cpus * spec.nodes,
        "memory_bytes": memory if known else None,
        "memory_wanted": spec.resources.memory_bytes * spec.nodes,
        "gpus": sum(len(task.gpus) for task in job.alive),
        "gpu_load": round(sum(loads) / len(loads)) if loads else None,
        "step": step,
        "steps_per_s": watching.rate(job.id, step, tx.now) or _average(job, step, tx.now),
        "started_at": attempt.started_at,
    }


def _average(job: Job, step: int | None, now: float) -> float | None:
    """Of the whole attempt, as long as the last looks tell nothing."""
    attempt = job.attempt
    if attempt is None or step is None or attempt.started_at is None:
        return None
    done = step - (attempt.resumed_step or 0)
    return done / max(now - attempt.started_at, 0.1) if done > 0 else None


def _node(tx: Transaction, use: NodeUse | None, node: NodeId) -> dict[str, Any]:
    held = tx.book.nodes[node]
    loads = [load for _, load, _ in use.gpus] if use else []
    return {
        "id": node,
        "pool": held.pool,
        "granted": {"cpus": held.granted.cpus, "memory_bytes": held.granted.memory_bytes, "gpus": held.granted.gpus},
        "cpus": use.cpus if use else None,
        "memory_bytes": use.memory_bytes if use else None,
        "gpu_load": round(sum(loads) / len(loads)) if loads else None,
        "gpu_memory_bytes": sum(size for _, _, size in use.gpus) if use and use.gpus else None,
        "tasks": len(tx.book.on_node.get(node, {})),
        "silent": node in tx.book.silent,
    }
