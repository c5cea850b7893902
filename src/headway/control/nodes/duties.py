"""A claim as it travels: everything that an agent needs to run a task. Words that were not given are left out.

What a duty is, and when it is sent, is in sessions.py; the words' meaning is in docs/explanation/keeping-progress.md.
"""

from __future__ import annotations

from typing import Any

from headway.core.files.checkpoints import Whole
from headway.core.model import Job, Task
from headway.core.spec.job import WORDS, JobSpec
from headway.core.spec.params import command_with, seed_of
from headway.core.spec.words import Words


def claim_body(job: Job, task: Task, resume: Whole | None, words: Words[JobSpec] = WORDS) -> dict[str, Any]:
    spec = job.spec
    params = spec.progress.params
    more: dict[str, Any] = {} if job.array_id is None else {"array": [job.array_id, job.array_index]}
    return {
        **more,
        "job": job.id,
        "attempt": job.number,
        "argv": command_with(spec.command, params) if params else list(spec.command),
        "node_rank": task.index,
        "world_size": spec.nodes * spec.ranks_per_node,
        "first_rank": task.index * spec.ranks_per_node,
        "gpus": list(task.gpus),
        "resume": resume_body(resume, task) if resume else None,
        **words.told(spec),
        "progress": {"seed": seed_of(job), **words.told(spec, "progress")},
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
