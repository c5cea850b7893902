"""A claim as it travels: everything that an agent needs to run a task. Words that were not given are left out.

What a duty is, and when it is sent, is in sessions.py; the words are in headway_wire/claim.py. What of a description
travels says core/spec/ at each of its words.
"""

from __future__ import annotations

from headway.core.files.checkpoints import Whole
from headway.core.model import Job, Task
from headway.core.spec.job import WORDS, JobSpec
from headway.core.spec.params import command_with, seed_of
from headway.core.spec.words import Words
from headway_wire.claim import Claim, Resume
from headway_wire.kinds import record_of, replace
from headway_wire.tasks import task_key


def claim_of(job: Job, task: Task, resume: Whole | None, words: Words[JobSpec] = WORDS) -> Claim:
    """What the task is."""
    spec = job.spec
    params = spec.progress.params
    told: Claim = record_of(Claim).made_of(
        {
            "task": task_key(job.id, job.number, task.index),
            "job": job.id,
            "attempt": job.number,
            "argv": command_with(spec.command, params) if params else list(spec.command),
            "node_rank": task.index,
            "world_size": spec.nodes * spec.ranks_per_node,
            "first_rank": task.index * spec.ranks_per_node,
            "gpus": list(task.gpus),
            **words.told(spec),
            "progress": {"seed": seed_of(job), **words.told(spec, "progress")},
        }
    )
    array = None if job.array_id is None else (job.array_id, job.array_index or 0)
    return replace(told, resume=resume_of(resume, task) if resume else None, array=array)


def resume_of(whole: Whole, task: Task) -> Resume:
    """What a task is restored from: its own share, and whatever files of the others it has not got.

    One that has none of its own gets the first; an agent that does not know `others` makes do with that.
    """
    own, shares = whole.share_of(task.index), whole.shares
    head = own or shares[0]
    others = tuple(share.key for share in shares if share is not head)
    return Resume(whole.step, head.key, head.how, own is not None, others)
