"""Every sentence that people read about a job, kept as a whole in golden/sentences.txt.

After a change of words: HEADWAY_TEST_WRITE_GOLDEN=1 pytest tests/core/test_explain.py, and read the difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from headway.core.explain import explain_state, hint_for, signal_name
from headway.core.job.signals import CancelAsked, Claimed, NodeLost, Refused, TaskEnded
from headway.core.model import Cause, Job, Outcome, State
from headway.core.scheduling.scheduler import view_of, why_waiting
from tests.builders import (
    BROKEN,
    FINE,
    NOW,
    a_job,
    a_node,
    after,
    cancelled,
    failed,
    placed,
    running,
    seats,
    stopping,
    succeeded,
)

GOLDEN = Path(__file__).with_name("golden") / "sentences.txt"
GIB = 2**30


def waiting(job: Job, *others: Job, nodes: int = 1, cpus: float = 8, gpus: int = 0, closed: str = "") -> str:
    view = view_of([*others, job], [a_node(f"n{number}", cpus, gpus) for number in range(nodes)])
    if closed:
        view.saw_node(a_node("n0", cpus, gpus), False, closed)
    return explain_state(job, why_waiting(job, view, NOW), NOW)


def sentences() -> Iterator[tuple[str, str]]:
    older = [a_job(f"old{number}", seq=number, cpus=9) for number in range(23)]
    busy = running(a_job("busy", cpus=6, gpus=0), "n0")
    last = a_job(seq=99, queue="research", cpus=4)
    yield "queued, free room", waiting(a_job())
    yield "queued, no node", waiting(a_job(), nodes=0)
    yield "queued, in use", waiting(a_job(cpus=4), busy)
    yield "queued, second", waiting(last, *older[:1])
    yield "queued, third", waiting(last, *older[:2])
    yield "queued, twelfth", waiting(last, *older[:11])
    yield "queued, twenty-first", waiting(last, busy, *older[:20])
    yield "queued, too large", waiting(a_job(cpus=99, memory_bytes=16 * GIB, gpus=1))
    yield "queued, gang", waiting(a_job(nodes=3, gpus=8), nodes=2, gpus=8)
    yield "queued, silent node", waiting(a_job(), closed="silent")
    yield "queued, other pool", waiting(a_job(pool="lab"), nodes=2)
    yield "queued, backing off", waiting(replace(failed(a_job(retries_max=2)), not_before=NOW + 90))
    yield "queued again, node lost", waiting(after(running(), NodeLost(1, "n1", "n1 was started anew")))
    yield "queued, unasked", explain_state(a_job())
    yield "starting", explain_state(placed(a_job(nodes=2)))
    yield "starting, refused", explain_state(after(placed(), Refused(1, 0, "no directory /data"), seats("n2")))
    yield "running", explain_state(running(a_job(nodes=2)))
    yield "stopping", explain_state(stopping(), now=NOW + 5)
    yield "stopping, grace over", explain_state(stopping(), now=NOW + 50)
    yield "stopping, cancelled", explain_state(stopping(cause=Cause.CANCELLED), now=NOW)
    yield "succeeded", explain_state(succeeded())
    again = after(failed(a_job(retries_max=1)), seats("n1"), Claimed(2, 0), TaskEnded(2, 0, FINE))
    yield "succeeded, second attempt", explain_state(again)
    yield "failed", explain_state(failed())
    yield "cancelled in the queue", explain_state(cancelled())
    yield "cancelled, by nobody", explain_state(after(a_job(), CancelAsked()))
    for cause, code, detail in (
        (Cause.USER_CODE, 3, "ValueError: bad shape (rank 0, exit code 3)"),
        (Cause.USER_CODE, 3, "rank 0 ended with exit code 3"),
        (Cause.IMPORT_ERROR, 1, "ModuleNotFoundError: No module named 'x' (rank 2 on gpu-04, exit code 1)"),
        (Cause.CRASHED, None, "rank 0 was ended by SIGSEGV"),
        (Cause.USER_CODE, 1, "ValueError: no (rank 0, exit code 1); not tried again: it fails at once each time"),
        (Cause.USER_CODE, 1, "rank 0 ended with exit code 1: as agents of before told it"),
    ):
        job = after(running(), TaskEnded(1, 0, Outcome(exit_code=code, cause=cause, detail=detail)))
        yield f"failed, {detail[:20]}", explain_state(replace(job, state=State.FAILED))
    for cause in Cause:
        outcome = Outcome(exit_code=3, cause=cause, detail="the evidence")
        job = after(running(), TaskEnded(1, 0, outcome))
        job = replace(job, state=State.FAILED)
        yield f"cause {cause.value}", f"{explain_state(job)}\n    hint: {hint_for(job) or '-'}"
    yield "signals", ", ".join(signal_name(number) for number in (2, 9, 11, 15, 40))


def test_every_sentence_reads_as_it_was_read_before() -> None:
    text = "".join(f"{name}\n    {sentence}\n" for name, sentence in sentences())
    if os.environ.get("HEADWAY_TEST_WRITE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_no_sentence_ends_with_a_full_stop_or_shouts() -> None:
    for name, sentence in sentences():
        assert not sentence.endswith((".", "!", ": ", ":")), name
        assert "None" not in sentence, name


def test_each_end_has_a_sentence_of_its_own() -> None:
    said = [sentence for name, sentence in sentences() if name.startswith("cause ")]
    assert len(set(said)) == len(said) == len(Cause)
    assert BROKEN.detail in explain_state(failed())


def test_what_the_node_suggests_is_better_than_what_the_cause_alone_tells() -> None:
    outcome = Outcome(exit_code=1, rank=0, cause=Cause.USER_CODE, suggestion="raise limits.open_files")
    assert hint_for(after(running(), TaskEnded(1, 0, outcome))) == "raise limits.open_files"
    stalled = after(running(), TaskEnded(1, 0, Outcome(cause=Cause.STALLED)))
    assert hint_for(stalled).startswith("headway artifact get j1 ")
