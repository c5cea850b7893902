"""`headway doctor checkpoint` and `headway run --rehearse`: a job is run briefly, preempted once, and judged.

The job is an ordinary one beside the caller's own, and is stopped when it is known whether it resumes.
client/rehearsal.py watches it, core/rehearsal/verdict.py judges.
"""

from __future__ import annotations

import glob
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from headway.cli.commands.run import JobCommand, describe, job_options, show_dry
from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.options import DURATION, connect, output_options
from headway.cli.frame.output import Output, harmless, on_terminal
from headway.cli.frame.watch import columns
from headway.cli.job_flags.bundle_upload import send
from headway.core.errors import BadInput, HeadwayError
from headway.core.rehearsal.advice import MODEL_FILE
from headway.core.rehearsal.verdict import RehearsalVerdict, rehearsal_verdict

if TYPE_CHECKING:
    from headway.client.code.prepared_job import PreparedJob
    from headway.core.rehearsal.verdict import Observations

WITHIN_S = 120.0
SAY_AFTER_S = 1.0
TAG = "rehearsal"
TIMES = re.compile(r"\([^)]*\)|[0-9]")
GONE_S_MAX = 60.0
SPARE_S = 600.0  # How much longer than needed it may run before it is ended, should nobody be there to do so.
NAME_CHARS_MAX = 50
FOLDERS_MAX, FILES_MAX = 100, 1000


@click.command(
    cls=JobCommand,
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "headway doctor checkpoint -- python train.py",
        "headway doctor checkpoint --within 10m --gpus 1 train.py --lr 0.1",
    ),
)
@job_options
@click.option("--within", type=DURATION, metavar="TIME", help="How long to wait for its first save. [default: 2m]")
@click.option("--keep", is_flag=True, help="Let the job go on afterwards.")
@output_options
def checkpoint(output: Output, within: float | None, keep: bool, dry_run: bool, force: bool, **given: Any) -> int:
    """Try out whether a training resumes: run it until it has saved, preempt it once, and watch it go on.

    The job is a real one, with all flags of run. Exit code 0: it resumes; 1: it does not; 2: that could not be told.
    """
    client = connect(output)
    prepared = describe(client, given)
    return rehearse(client, prepared, output, within_s=within, keep=keep, dry_run=dry_run, force=force)


def rehearse(
    client: Any,
    prepared: PreparedJob,
    output: Output,
    *,
    within_s: float | None = None,
    keep: bool = False,
    dry_run: bool = False,
    force: bool = False,
) -> int:
    """Submit the job as a rehearsal, watch it, say what was found, and stop it again."""
    from headway.client.rehearsal import Rehearsal

    within_s = WITHIN_S if within_s is None else within_s
    raw = as_rehearsal(prepared.raw, within_s)
    if dry_run:
        return show_dry(output, raw)
    stages = Stages(output)
    if prepared.bundle is None and not client.resolved.settings.server_url:
        warn_of_overwriting(str(raw.get("workdir") or ""), stages)
    send(client, prepared, output)
    job = client.submit_raw(raw, force=force).seen
    stages.say(f"job {job['id']} ({job['name']}) is submitted, as a rehearsal")
    try:
        with _ended_by_terminate():
            seen = Rehearsal(client, job["id"], within_s, stages).observe()
    except KeyboardInterrupt:
        stages.say("interrupted; it is not known whether the job resumes")
        return exits.INTERRUPTED
    finally:
        stages.end()
        _let_go(client, job["id"], stages, keep)
    verdict = rehearsal_verdict(seen)
    output.show(as_data(job, seen, verdict), lambda: page(output, verdict), lambda: [verdict.kind])
    output.say(f"headway: its log: headway logs {job['id']}")
    return {True: exits.OK, False: exits.ERROR, None: exits.USAGE}[verdict.resumes]


def as_rehearsal(raw: Mapping[str, Any], within_s: float) -> dict[str, Any]:
    """The job under a name of its own, at once and once: without tries after a failure, and with an end in any case."""
    from headway.core.spec.job import read_spec

    if raw.get("array"):
        raise BadInput("a rehearsal is one job, not an array", "leave --array out; HEADWAY_ARRAY_INDEX is not set then")
    name = read_spec(dict(raw)).name[:NAME_CHARS_MAX]
    made = {key: value for key, value in raw.items() if key not in ("retry", "hold", "start_at", "on_failure")}
    made |= {"name": f"{name}-rehearsal", "retries": 0, "tags": {**(raw.get("tags") or {}), TAG: "yes"}}
    made.setdefault("max_duration", within_s * 4 + SPARE_S)
    return made


def warn_of_overwriting(workdir: str, stages: Stages) -> None:
    """Say it beforehand where a rehearsal in place could write over a model of the caller's."""
    models = []
    for directory in (workdir, *sorted(glob.glob(f"{glob.escape(workdir)}/*/"))[:FOLDERS_MAX]):
        names = sorted(os.listdir(directory))[:FILES_MAX] if os.access(directory, os.R_OK) else []
        paths = [os.path.relpath(os.path.join(directory, name), workdir) for name in names if MODEL_FILE.search(name)]
        models += [path for path in paths if os.path.isfile(os.path.join(workdir, path))]
    if models:
        more = f" and {len(models) - 2} more" if len(models) > 2 else ""
        stages.say(f"it runs in this directory and may write over {', '.join(models[:2])}{more}; --bundle runs a copy")


def as_data(job: Mapping[str, Any], seen: Observations, verdict: RehearsalVerdict) -> dict[str, Any]:
    return {"job": job["id"], "name": job["name"], **asdict(verdict), "observed": asdict(seen)}


def page(output: Output, verdict: RehearsalVerdict) -> str:
    """Like the page of `headway doctor`: what was found, and below it what would repair it."""
    lines = []
    for remark in verdict.remarks:
        lines.append(f"{output.paint(remark.grade.ljust(4))}  {remark.what}: {remark.found}")
        lines += [f"      | {line}" for line in remark.quote]
        lines += [f"      {sentence}" for sentence in remark.advice]
    return "\n".join(lines)


def _let_go(client: Any, job: str, stages: Stages, keep: bool) -> None:
    """Stop the job and wait until its place is free; whatever goes wrong here is said, and spoils no verdict."""
    if keep:
        stages.say(f"job {job} goes on; stop it: headway stop {job}")
        return
    try:
        if client.stop(job, 0.0)["state"] not in ("succeeded", "failed", "cancelled"):
            client.wait(job, GONE_S_MAX)
        stages.say(f"job {job} is stopped")
    except KeyboardInterrupt:
        stages.say(f"job {job} was asked to stop")
    except HeadwayError as error:
        if error.kind != "conflict":  # It has ended by itself.
            stages.say(f"job {job} may still run: {error.message}; stop it: headway stop {job}")


@contextmanager
def _ended_by_terminate() -> Iterator[None]:
    """SIGTERM ends the rehearsal like Ctrl-C: who is asked to end leaves no job behind."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Stages:
    """What happens, on stderr: a line per stage, and on a terminal one below that changes while it lasts."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.drawn = False
        self.moving = on_terminal(sys.stderr) and not output.quiet and not output.machine
        self.shape = ""
        self.since_s = 0.0
        self.told = False

    def say(self, sentence: str) -> None:
        self.end()
        self.output.say(f"headway: {sentence}")

    def live(self, sentence: str) -> None:
        if self.moving:
            line = harmless(f"headway: {sentence} …")
            print("\r" + line[: columns()].ljust(columns()), end="", file=sys.stderr, flush=True)
            self.drawn = True
            return
        # Seconds that count up are no news where lines stay; a stage that passes at once is none either.
        shape = TIMES.sub("", sentence)
        now = time.monotonic()
        if shape != self.shape:
            self.shape, self.since_s, self.told = shape, now, False
        if not self.told and now - self.since_s >= SAY_AFTER_S:
            self.told = True
            self.output.say(f"headway: {sentence}")

    def end(self) -> None:
        if self.drawn:
            print("\r" + " " * columns() + "\r", end="", file=sys.stderr, flush=True)
            self.drawn = False
