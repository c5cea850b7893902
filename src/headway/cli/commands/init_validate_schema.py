"""`headway init`, `validate` and `schema`: a job file is begun, checked without a server, and written with an editor's
help.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.commands.run import VERBATIM, WORDS, JobCommand, words_argument
from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.options import output_options, pair
from headway.cli.frame.output import Output, on_terminal
from headway.cli.job_flags.bundle_upload import PACKING, packing_given
from headway.cli.job_flags.flags import spec_given, spec_options
from headway.core.errors import BadInput

if TYPE_CHECKING:
    from headway.cli.job_flags.job_files import FileJob

GUESSES = ("train.py", "main.py", "run.py")


# --- validate -------------------------------------------------------------------------------------------------------


@click.command(
    epilog=examples(
        "headway validate job.yaml",
        "headway validate jobs/a.yaml jobs/b.yaml -o json  # for a hook or CI",
        "headway validate -  # from stdin",
    )
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@output_options
def validate(files: Sequence[str], output: Output) -> int:
    """Check job files without submitting them: every key and value, and which jobs wait for which."""
    found = [_looked_at(path) for path in files]
    wrong = [problem for each in found for problem in each["problems"]]
    output.show({"files": found}, lambda: "\n".join(filter(None, map(_line, found))), list)
    if output.form != "json":
        for problem in wrong:
            output.error(BadInput(problem["message"], problem["hint"]), exits.USAGE)
    for note in [note for each in found for note in each["notes"]]:
        output.say(f"note: {note}")
    return exits.USAGE if wrong else exits.OK


def _looked_at(path: str) -> dict[str, Any]:
    """What a file describes, and all that is wrong with it."""
    from headway.cli.frame.yaml import read_documents
    from headway.cli.job_flags import job_files

    wrong: list[BadInput] = []
    jobs: list[FileJob] = []
    try:
        for document in read_documents(path):
            try:
                jobs.append(job_files.FileJob(document, job_files.checked(document, whole=True)))
            except BadInput as error:
                wrong.append(error)
        if not wrong:
            jobs = job_files.linked(jobs)
    except BadInput as error:
        wrong.append(error)
    names = [{"name": job.spec.name, "line": job.document.line} for job in jobs]
    problems = [{"message": error.message, "hint": error.hint} for error in wrong]
    path = "stdin" if path == "-" else path
    return {"file": path, "jobs": names, "problems": problems, "notes": _notes(jobs) if not wrong else []}


def _notes(jobs: Sequence[FileJob]) -> list[str]:
    """What may be right and cannot be known here."""
    notes = []
    for job in jobs:
        where = job.document.where
        for ref in job.elsewhere:
            notes.append(f'{where("after")}: "{ref}" is not in this file; the server will be asked for it')
        for word in job.spec.command:
            missing = word.endswith((".py", ".sh")) and " " not in word and not os.path.isabs(word)
            if missing and not os.path.exists(os.path.join(job.spec.workdir, word)):
                notes.append(f'{where("command")}: there is no file "{word}" in {job.spec.workdir}')
    return notes


def _line(found: Mapping[str, Any]) -> str:
    if found["problems"]:
        return ""
    names = [job["name"] for job in found["jobs"]]
    what = "a valid job" if len(names) == 1 else f"{len(names)} valid jobs"
    return f"{found['file']}: {what}: {', '.join(names)}"


# --- schema ---------------------------------------------------------------------------------------------------------


@click.command(epilog=examples("headway schema > job.schema.json", "headway schema -o yaml"))
@output_options
def schema(output: Output) -> int:
    """Print the JSON Schema of a job file, by which an editor completes and checks it."""
    from headway.core.spec.job_schema import job_schema

    found = job_schema()
    output.show(found, lambda: json.dumps(found, indent=2, ensure_ascii=False), lambda: list(found["properties"]))
    return exits.OK


# --- init -----------------------------------------------------------------------------------------------------------


def init_options(command: Any) -> Any:
    flags = [
        click.option("-f", "--file", default="job.yaml", metavar="FILE", help="Where to write it (- is stdout)."),
        click.option("--all", "every", is_flag=True, help="Show every key, not only the usual ones."),
        click.option("--force", is_flag=True, help="Replace a file that is there."),
        click.option("--schema/--no-schema", "beside", default=True, help="Write the schema for editors beside it."),
        click.option("--set", "sets", metavar="KEY=VALUE", multiple=True, help="Set one key, as in headway run."),
    ]
    command = spec_options(command, PACKING)
    for flag in reversed(flags):
        command = flag(command)
    return words_argument(command)


@click.command(
    cls=JobCommand,
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "headway init  # asks",
        "headway init --gpus 1 --max-duration 6h train.py --lr 0.1",
        "headway init -f sweep.yaml --all -- python sweep.py",
    ),
)
@init_options
@output_options
def init(output: Output, file: str, every: bool, force: bool, beside: bool, sets: Sequence[str], **given: Any) -> int:
    """Write a job file with comments. On a terminal, and without a script, it asks."""
    from headway.cli.job_flags.commented_file import commented

    words, verbatim = given.pop(WORDS), given.pop(VERBATIM)
    if not words and not (on_terminal(sys.stdin) and on_terminal(sys.stderr)):
        raise BadInput("no script and no command", "headway init --gpus 1 train.py; on a terminal, init asks")
    if file != "-" and os.path.exists(file) and not force:
        raise BadInput(f'"{file}" is there already', "-f FILE writes another, --force replaces it")
    said: dict[str, Any] = {}
    for word in sets:
        from headway.cli.frame.yaml import set_value

        set_value(said, *pair(word, "--set"))
    said = {**said, **packing_given(given), **spec_given(given, said, os.getcwd())}
    said.pop("allow_large", None)
    said = {**said, "command": _command(words, verbatim)} if words else _asked(said)
    said.setdefault("name", _name(said["command"]))
    _check(said)
    text = commented(said, "FILE" if file == "-" else file, every=every, schema=beside and file != "-")
    if file == "-":
        click.echo(text, nl=False)
        return exits.OK
    written = _write(file, text, beside)
    output.show({"file": file, "written": written}, lambda: f"{', '.join(written)} written", lambda: written)
    output.say(f"headway: submit it: headway run -f {file}")
    return exits.OK


def _write(file: str, text: str, beside: bool) -> list[str]:
    from headway.cli.job_flags.commented_file import SCHEMA_FILE
    from headway.core.spec.job_schema import job_schema

    place = Path(file)
    files = {place: text}
    if beside:
        files[place.parent / SCHEMA_FILE] = json.dumps(job_schema(), indent=1, ensure_ascii=False) + "\n"
    try:
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise BadInput(f'"{error.filename or file}" cannot be written: {error.strerror or error}') from None
    return [str(path) for path in files]


def _command(words: Sequence[str], verbatim: bool) -> list[str]:
    """The command as a file should say it: with the interpreter that a node finds, not with this machine's path."""
    from headway.client.code.script import command_for

    first = words[0]
    if verbatim:
        return list(words)
    here = os.getcwd()
    found = command_for(words, here, here, os.environ)
    if first.endswith((".py", ".sh")):
        runner = "bash" if first.endswith(".sh") else "python" if shutil.which("python") else "python3"
        return [runner, first, *found[found.index(first) + 1 :]] if first in found else found
    return found


def _name(command: Any) -> str:
    from headway.core.spec.command import command_words, name_for

    return name_for(tuple(command_words(command)))


def _check(said: Mapping[str, Any]) -> None:
    from headway.cli.frame.yaml import Document
    from headway.cli.job_flags.job_files import checked_job

    checked_job(Document("", 1, dict(said), {}))


def _asked(said: dict[str, Any]) -> dict[str, Any]:
    """What somebody at the terminal answers; what flags say already is not asked."""
    questions = (
        ("command", "", "Script or command", _guess(), _typed),
        ("name", "", "Name", None, str),
        ("resources", "cpus", "Processors per node", "1", float),
        ("resources", "gpus", "GPUs per node", "0", int),
        ("resources", "memory", "Memory per node, such as 16G", "", str),
        ("max_duration", "", "Time limit, such as 6h", "", str),
        ("retries", "", "Retries after a failure", "0", int),
        ("outputs", "", "Directory whose files are kept, such as results", "", lambda text: [text]),
    )
    for key, inner, asks, default, read in questions:
        part = said.get(key)
        if (part is not None and not inner) or (isinstance(part, Mapping) and inner in part):
            continue
        usual = _name(said["command"]) if key == "name" else str(default or "")
        said = _answered(said, key, inner, asks, usual, read)
    return said


def _answered(said: dict[str, Any], key: str, inner: str, asks: str, usual: str, read: Any) -> dict[str, Any]:
    """Ask until the answer can be used; an empty one leaves the word out."""
    while True:
        answer = click.prompt(asks, default=usual, show_default=bool(usual), err=True).strip()
        if not answer and key != "command":
            return said
        try:
            value = read(answer)
            found = {**said, key: {**(said.get(key) or {}), inner: value} if inner else value}
            _check({"command": ["true"], **found})
        except (BadInput, ValueError) as error:
            told = error.message if isinstance(error, BadInput) else f'"{answer[:80]}" is not a number'
            click.echo(f"{told}{f' ({error.hint})' if isinstance(error, BadInput) and error.hint else ''}", err=True)
            continue
        return found


def _typed(line: str) -> Any:
    """A script by its name, with its arguments; anything else as a file would say it."""
    from headway.core.spec.command import command_words

    words = command_words(line)
    return _command(words, False) if words[0].endswith((".py", ".sh")) else words


def _guess() -> str:
    scripts = sorted(path.name for path in Path().glob("*.py"))[:100]
    return next((name for name in GUESSES if name in scripts), scripts[0] if len(scripts) == 1 else "")
