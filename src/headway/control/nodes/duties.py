"""A claim as it travels: everything that an agent needs to run a task. Words that were not given are left out.

What a duty is, and when it is sent, is in sessions.py; the words' meaning is in docs/explanation/keeping-progress.md.
"""

from __future__ import annotations

from typing import Any

from headway.core.files.checkpoints import Whole
from headway.core.job.retry import REQUEUE_EXIT_CODE
from headway.core.model import Job, Task
from headway.core.spec.params import command_with, seed_of
from headway.core.spec.program import PLAIN, ProgramSpec


def claim_body(job: Job, task: Task, resume: Whole | None) -> dict[str, Any]:
    spec = job.spec
    params = spec.progress.params
    more: dict[str, Any] = {} if spec.launcher == "plain" else {"launcher": spec.launcher}
    if job.array_id is not None:
        more["array"] = [job.array_id, job.array_index]
    return {
        **more,
        "job": job.id,
        "name": spec.name,
        "attempt": job.number,
        "argv": command_with(spec.command, params) if params else list(spec.command),
        "env": dict(spec.env),
        "workdir": spec.workdir,
        "ranks": spec.ranks_per_node,
        "node_rank": task.index,
        "nodes": spec.nodes,
        "world_size": spec.nodes * spec.ranks_per_node,
        "first_rank": task.index * spec.ranks_per_node,
        "gpus": list(task.gpus),
        "streams": spec.streams,
        "grace_s": spec.grace_s,
        "limits": {"memory_bytes": spec.resources.memory_bytes, "cpus": spec.resources.cpus},
        "resume": resume_body(resume, task) if resume else None,
        "progress": {"seed": seed_of(job), **_words(spec.progress)},
    }


def resume_body(whole: Whole, task: Task) -> dict[str, Any]:
    """What a task is restored from: its own share, and whatever files of the others it has not got.

    One that has none of its own gets the first; an agent that does not know `others` makes do with that.
    """
    own, shares = whole.share_of(task.index), whole.shares
    head = own or shares[0]
    said: dict[str, Any] = {"step": whole.step, "key": head.key, "how": head.how}
    if own is None:
        said["own"] = False
    others = [share.key for share in shares if share is not head]
    return {**said, "others": others} if others else said


def _words(progress: ProgramSpec) -> dict[str, Any]:
    if progress is PLAIN:
        return {}
    environment, keeping = progress.environment, progress.checkpoint
    said = {
        "bundle": progress.bundle,
        "subdir": progress.subdir,
        "environment": environment
        and {"kind": environment.kind, "path": environment.path, "digest": environment.digest},
        "inputs": {each.name: _given(url=each.url, sha256=each.sha256) for each in progress.inputs},
        "volumes": dict(progress.volumes),
        "params": dict(progress.params),
        "outputs": list(progress.outputs),
        "limits": _limits(progress),
        "secrets": _secrets(progress),
        "stay": progress.stay_s
        and {"s": progress.stay_s, "not": [REQUEUE_EXIT_CODE, *(progress.again.on_exit_codes or ())]},
        "log_policies": [
            {"pattern": each.pattern, "label": each.label, "action": each.action} for each in progress.log_policies
        ],
    }
    said = {word: value for word, value in said.items() if value}
    said["checkpoint"] = {
        **_given(marker=keeping.marker, dirs=list(keeping.dirs)),
        **({} if keeping.saved_by == "auto" else {"saved_by": keeping.saved_by}),
        "settle_s": keeping.settle_s,
    }
    said["notice_signal"] = progress.signal
    return said


def _secrets(progress: ProgramSpec) -> dict[str, Any]:
    """By name only: the agent asks for the values when it is about to need them."""
    return _given(
        env={use.variable: use.name for use in progress.secrets if not use.as_file},
        files={use.variable: use.name for use in progress.secrets if use.as_file},
    )


def _limits(progress: ProgramSpec) -> dict[str, Any]:
    limits = progress.limits
    return _given(
        open_files=limits.open_files,
        output_bytes=limits.output_bytes,
        stalled_s=limits.stalled_s,
        pin_cpus=limits.pin_cpus,
    )


def _given(**words: Any) -> dict[str, Any]:
    return {word: value for word, value in words.items() if value}
