"""Job files: each document describes a job, and jobs of one file wait for each other by name.

What is wrong with a file is told with its line, before anything is sent; what flags add is checked with the whole, by
core/spec/job.py.
"""

from __future__ import annotations

import difflib
import graphlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway.cli.frame.options import pair
from headway.cli.job_flags.bundle_upload import packing_given
from headway.cli.job_flags.flags import spec_given
from headway.core.errors import BadInput, NotFound

if TYPE_CHECKING:
    from headway.cli.frame.yaml import Document
    from headway.client.code.prepared_job import PreparedJob
    from headway.core.spec.job import JobSpec

OF_ONE_JOB = {"name": "--name", "after": "--after", "after_each": "--after-each", "stdin": "standard input"}
UNKNOWN_KEY = re.compile(r'^(\S+): unknown key "(.+?)"')
KEY = re.compile(r"^([A-Za-z_][\w.-]*):")


@dataclass(frozen=True, slots=True)
class FileJob:
    """A job of a file, checked by itself, and those jobs of the file for which it waits."""

    document: Document
    spec: JobSpec
    waits_for: tuple[int, ...] = ()
    elsewhere: tuple[str, ...] = ()  # What it waits for that is no job of the file.


def read_jobs(path: str) -> list[FileJob]:
    """The jobs of a file; refused with the line where one is wrong, or where they wait in a circle."""
    from headway.cli.frame.yaml import read_documents

    documents = read_documents(path)
    return linked([FileJob(document, checked(document)) for document in documents])


def checked(document: Document, whole: bool = False) -> JobSpec:
    """The job that a document describes by itself. Unless it is the whole, a command may still come with it."""
    with located(document):
        return checked_job(document, whole)


def checked_job(document: Document, whole: bool = False) -> JobSpec:
    from headway.client.code import environments
    from headway.client.code.prepared_job import take_packing
    from headway.client.code.script import describe_job
    from headway.core.spec.job import check_words, read_spec

    check_words(document.raw)
    wishes = deepcopy(document.raw)
    packing = take_packing(wishes)
    raw = describe_job((), wishes, {}, os.getcwd())
    if not whole and not raw.get("command"):
        raw["command"] = ["true"]
    spec = read_spec(raw)
    if whole and packing.environment is not None:
        script = next((word for word in spec.command if word.endswith(".py")), None)
        environments.resolve(packing.environment, spec.workdir, spec.workdir, script)
    return spec


@contextmanager
def located(document: Document) -> Iterator[None]:
    """Refusals with the line of the key that they are about."""
    try:
        yield
    except BadInput as error:
        unknown = UNKNOWN_KEY.match(error.message)
        key = KEY.match(error.message)
        at = unknown[2] if unknown and unknown[1] == "job" else f"{unknown[1]}.{unknown[2]}" if unknown else ""
        at = at or (key[1] if key else "")
        raise BadInput(f"{document.where(at)}: {error.message}", error.hint) from None


# --- jobs that wait for each other ----------------------------------------------------------------------------------


def linked(jobs: Sequence[FileJob]) -> list[FileJob]:
    """The jobs with those of the same file that they name; refused where a name is two jobs', or in a circle."""
    named: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        named.setdefault(job.spec.name, []).append(number)
    found = [_linked(job, jobs, named) for job in jobs]
    try:
        graphlib.TopologicalSorter({number: job.waits_for for number, job in enumerate(found)}).prepare()
    except graphlib.CycleError as error:
        around = list(reversed(error.args[1]))
        told = " → ".join(found[number].spec.name for number in around)
        where = found[around[0]].document.where("after")
        raise BadInput(f"{where}: after: these jobs wait for each other: {told}", "one of them must not wait") from None
    return found


def _linked(job: FileJob, jobs: Sequence[FileJob], named: Mapping[str, list[int]]) -> FileJob:
    inside, elsewhere = [], []
    for number, after in enumerate(job.spec.wishes.after):
        known = named.get(after.job, [])
        if len(known) > 1:
            lines = " and ".join(str(jobs[each].document.line) for each in known)
            where = job.document.where(f"after.{number}")
            raise BadInput(
                f'{where}: after: "{after.job}" could be the job of line {lines}', "give each a name of its own"
            )
        if known:
            inside.append(known[0])
        else:
            elsewhere.append(after.job)
    return FileJob(job.document, job.spec, tuple(inside), tuple(elsewhere))


def unknown_name(job: FileJob, ref: str, jobs: Sequence[FileJob]) -> BadInput:
    """What to say of a name that no job has, in this file or on the server."""
    at = next((number for number, each in enumerate(job.spec.wishes.after) if each.job == ref), 0)
    names = [each.spec.name for each in jobs if each is not job]
    near = difflib.get_close_matches(ref, names, n=1, cutoff=0.5)
    hint = f'did you mean "{near[0]}"?' if near else "headway ps -a lists the jobs that there are"
    return BadInput(f'{job.document.where(f"after.{at}")}: after: there is no job "{ref}"', hint)


def refuse_unknown(client: Any, jobs: Sequence[FileJob]) -> None:
    """Ask the server for those jobs that are named and not in the file, before anything is sent."""
    for job in jobs:
        for ref in job.elsewhere:
            try:
                client.detail(ref)
            except NotFound:
                if client.house.array(ref) is None:
                    raise unknown_name(job, ref, jobs) from None


# --- with what the command line says --------------------------------------------------------------------------------


def describe_all(client: Any, given: dict[str, Any], words: Sequence[str], verbatim: bool) -> list[PreparedJob]:
    """Put file, flags and words together, and check the whole: flags win over the file, for each of its jobs."""
    from dataclasses import replace

    from headway.cli.job_flags import standard_input

    file, sets = given.pop("file"), given.pop("sets")
    stdin, note = standard_input.given(given.pop("give_stdin"), file == "-")
    packing = packing_given(given)
    jobs = read_jobs(file) if file else []
    if len(jobs) > 1:
        _refuse_flags_of_one(file, len(jobs), words, {**given, "stdin": stdin})
    if jobs:
        refuse_unknown(client, jobs)
    bases = [deepcopy(job.document.raw) for job in jobs] or [{}]
    along = {**packing, **({"stdin": stdin} if stdin else {})}
    found = [_described(client, base, {**along, **_said(dict(given), base, sets)}, words, verbatim) for base in bases]
    return [replace(each, notes=(*each.notes, note)) for each in found] if note else found


def _said(given: dict[str, Any], base: dict[str, Any], sets: Sequence[str]) -> dict[str, Any]:
    """What --set and flags say of a job."""
    from headway.core.spec.job import check_words

    for word in sets:
        from headway.cli.frame.yaml import set_value

        set_value(base, *pair(word, "--set"))
    check_words(base)
    return spec_given(given, base, os.getcwd())


def _described(
    client: Any, base: Mapping[str, Any], said: Mapping[str, Any], words: Sequence[str], verbatim: bool
) -> PreparedJob:
    from headway.client.code.prepared_job import take_packing
    from headway.client.code.script import describe_job
    from headway.core.spec.job import read_spec

    wishes = {**base, **said}
    packing = take_packing(wishes)
    if not words and not wishes.get("command"):
        raise BadInput("no script and no command", "end with train.py or -- COMMAND, or give a file: -f job.yaml")
    raw = describe_job(words, wishes, os.environ, os.getcwd(), verbatim=verbatim)
    read_spec(raw)
    prepared: PreparedJob = client.prepare(raw, packing)
    read_spec(prepared.raw)
    return prepared


def _refuse_flags_of_one(file: str, count: int, words: Sequence[str], given: Mapping[str, Any]) -> None:
    """What can be said of one job only, where a file describes several."""
    said = [flag for name, flag in OF_ONE_JOB.items() if given.get(name)] + (["a command"] if words else [])
    if said:
        raise BadInput(f"{file} describes {count} jobs; {said[0]} is of one", f"write it into {file}")
