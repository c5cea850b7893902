"""Every exit code of the command line, and which error or outcome ends with which."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from headway.core.errors import BadInput, HeadwayError, NotAllowed, NotFound, ServerTaken, Unavailable

OK = 0
ERROR = 1
USAGE = 2
UNREACHABLE = 3
NOT_ALLOWED = 4
NOT_FOUND = 5
JOB_FAILED = 100
JOB_NOT_FINISHED = 101
JOB_CANCELLED = 103
JOB_TIMED_OUT = 104
INTERRUPTED = 130
BROKEN_PIPE = 141

MEANINGS = {
    OK: "done; a followed job succeeded; a rehearsed one resumes",
    ERROR: "an error that has no code of its own; a rehearsed job does not resume",
    USAGE: "bad input: a wrong flag, key or value, or a second server on one home; or a rehearsal could not tell",
    UNREACHABLE: "the server cannot be reached or cannot take the request now",
    NOT_ALLOWED: "the token does not permit it",
    NOT_FOUND: "there is no such job or attempt",
    JOB_FAILED: "the followed job failed",
    JOB_NOT_FINISHED: "`wait --timeout` ended before the job did",
    JOB_CANCELLED: "the followed job was stopped on request",
    JOB_TIMED_OUT: "the followed job reached its time limit, or stalled",
    INTERRUPTED: "Ctrl-C; a followed job keeps running",
    BROKEN_PIPE: "the reader of the output closed it",
}


def for_error(error: HeadwayError) -> int:
    if isinstance(error, BadInput | ServerTaken):
        return USAGE
    if isinstance(error, Unavailable):
        return UNREACHABLE
    if isinstance(error, NotAllowed):
        return NOT_ALLOWED
    return NOT_FOUND if isinstance(error, NotFound) else ERROR


def reader_gone() -> int:
    """The reader of stdout went away. The interpreter flushes it once more when it ends: let that go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return BROKEN_PIPE


def for_job(job: Mapping[str, Any], from_job: bool = False) -> int:
    """The code that tells how a followed job ended; `from_job` hands on the job's own."""
    if from_job and job.get("exit_code") is not None:
        return int(job["exit_code"]) & 0xFF
    if job["state"] == "succeeded":
        return OK
    if job["state"] == "cancelled":
        return JOB_CANCELLED
    if job["state"] != "failed":
        return JOB_NOT_FINISHED
    return JOB_TIMED_OUT if job.get("cause") in ("time_limit", "stalled") else JOB_FAILED
