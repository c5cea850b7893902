"""Which jobs a command is for: named one by one, as arrays, or by what they are (--state, --tag, --older-than, …).

One meaning for every verb. The server finds them; what is done to many is shown first and asked for, unless -y stands
there, and never asked where nobody can answer.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from headway.cli.frame import exits
from headway.cli.frame.options import DURATION
from headway.cli.frame.output import Output, on_terminal
from headway.core.errors import BadInput, HeadwayError

STATES = ("queued", "starting", "running", "stopping", "succeeded", "failed", "cancelled")
SHOWN_MOST = 10
FILTERS = (
    click.option("--state", metavar="STATE,...", help="Only jobs in these states."),
    click.option("-n", "--name", help="Only jobs of this name; * stands for anything."),
    click.option("--tag", "tags", metavar="K[=V]", multiple=True, help="Only jobs with this tag."),
    click.option("--project", help="Only jobs of this project."),
    click.option("--queue", help="Only jobs of this queue."),
    click.option("--user", help="Only jobs of this user."),
    click.option(
        "--older-than", type=DURATION, metavar="TIME", help="Only jobs that ended (unfinished: began) so long ago."
    ),
)


class Selection(NamedTuple):
    """Jobs by their names, or by the words of a filter, or the jobs of named arrays that a filter leaves."""

    refs: tuple[str, ...]
    words: Mapping[str, Any]
    yes: bool = False


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the words by which jobs are found, and hand the command a dictionary of those that were said."""

    @functools.wraps(command)
    def with_words(*args: Any, **given: Any) -> Any:
        return command(*args, words=_words(given), **given)

    found: Callable[..., Any] = with_words
    for option in reversed(FILTERS):
        found = option(found)
    return found


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add JOB..., the filters and -y, and hand the command a Selection."""

    @click.argument("jobs", metavar="[JOB]...", nargs=-1)
    @filter_options
    @click.option("-y", "--yes", is_flag=True, help="Do not ask before it is done to many.")
    @functools.wraps(command)
    def with_selection(*args: Any, jobs: tuple[str, ...], words: dict[str, Any], yes: bool, **given: Any) -> Any:
        return command(*args, chosen=Selection(jobs, words, yes), **given)

    return with_selection


def _words(given: dict[str, Any]) -> dict[str, Any]:
    older = given.pop("older_than")
    words = {
        "state": ",".join(states(given.pop("state"))),
        "name": given.pop("name") or "",
        "tag": list(given.pop("tags")),
        "project": given.pop("project") or "",
        "queue": given.pop("queue") or "",
        "user": given.pop("user") or "",
        "older_than": "" if older is None else f"{older:.3f}",
    }
    return {word: said for word, said in words.items() if said}


def states(text: str | None) -> list[str]:
    wanted = [word.strip().lower() for word in (text or "").split(",") if word.strip()]
    for word in wanted:
        if word not in STATES:
            raise BadInput(f'--state: "{word[:80]}" is not a state', "states: " + ", ".join(STATES))
    return wanted


class Deed(NamedTuple):
    """What a verb does to one job, and how that is told of one and of many."""

    verb: str
    one: Callable[[str], dict[str, Any]]
    tell: Callable[[dict[str, Any]], str]
    done: str  # Of many: `132 jobs` and this.
    more: Mapping[str, Any]  # What the server is told beside the selection.
    usual: Mapping[str, Any] | None = None  # Words for an array, where none are said.


def act(client: Any, output: Output, chosen: Selection, deed: Deed) -> int:
    """Do it to what was chosen; the exit code is that of the first refusal."""
    if chosen.refs:
        return for_each(output, chosen.refs, lambda ref: _named(client, output, ref, chosen, deed), deed.tell)
    if not chosen.words:
        raise BadInput(
            "no job is named", f"headway {deed.verb} JOB, or choose by what they are: headway {deed.verb} --state …"
        )
    found = client.selected.preview(deed.verb, chosen.words)
    if not found["count"]:
        output.show({"done": [], "refused": []}, lambda: "", list)
        output.say("no jobs are like that")
        return exits.OK
    if not chosen.yes and not _agreed(output, deed, found):
        output.say("nothing was done")
        return exits.OK
    return _many(client, output, chosen.words, deed, found)


def _named(client: Any, output: Output, ref: str, chosen: Selection, deed: Deed) -> dict[str, Any]:
    """Of an array, what the filter leaves; of a job, the job."""
    array = client.house.array_counts(ref)
    if array is None:
        if chosen.words:
            job = client.detail(ref)
            if chosen.words.keys() == {"state"} and job["state"] in chosen.words["state"].split(","):
                return deed.one(job["id"])
            if chosen.words.keys() == {"state"}:
                raise BadInput(f"{job['id']} ({job['name']}) is {job['state']}, not {chosen.words['state']}")
            said = ", ".join(word.replace("_", "-") for word in chosen.words)
            raise BadInput(f'"{ref[:80]}" is one job, and --{said} chooses among many', "leave one of the two out")
        return deed.one(ref)
    words = {**(chosen.words or deed.usual or {}), "array": array["id"]}
    ids, refused, count = _all(client, output, words, deed, array["count"], None)
    said = f"{_jobs(len(ids))} {deed.done}" if ids or not count else f"nothing {deed.done}"
    _tell_refused(output, refused, count)
    return {"id": array["id"], "name": array["name"], "sentence": said, "done": ids, "refused": refused, "many": True}


def _many(client: Any, output: Output, words: Mapping[str, Any], deed: Deed, found: Mapping[str, Any]) -> int:
    ids, refused, count = _all(client, output, words, deed, found["count"], found["before"])
    output.show({"done": ids, "refused": refused}, lambda: f"{_jobs(len(ids))} {deed.done}", lambda: ids)
    _tell_refused(output, refused, count)
    return exits.ERROR if count and not ids else exits.OK


def _all(
    client: Any, output: Output, words: Mapping[str, Any], deed: Deed, total: int, before: int | None
) -> tuple[list[str], list[dict[str, str]], int]:
    ids: list[str] = []
    refused: list[dict[str, str]] = []
    count = 0
    with output.watch.over(lambda: f"{deed.verb}: {len(ids) + count:,} of {total:,} jobs"):
        for page in client.selected.each(deed.verb, words, before, **deed.more):
            ids += page["done"]
            refused += page["refused"][: max(0, SHOWN_MOST - len(refused))]
            count += page["refused_count"]
    return ids, refused, count


def _tell_refused(output: Output, refused: Sequence[Mapping[str, str]], count: int) -> None:
    for each in refused:
        output.say(f"headway: {each['message']}")
    if count > len(refused):
        output.say(f"headway: {count - len(refused):,} more were refused")


def _agreed(output: Output, deed: Deed, found: Mapping[str, Any]) -> bool:
    """Show what would be done, and ask; where nobody can be asked, refuse."""
    counts = ", ".join(f"{found['states'][state]:,} {state}" for state in STATES if found["states"].get(state))
    said = f"{deed.verb}: {_jobs(found['count'])} ({counts})"
    if not on_terminal(sys.stdin):
        raise BadInput(f"{said}, and nobody is there to agree", "add -y to do it without being asked")
    shown = found["jobs"][:SHOWN_MOST]
    names = [f"{job['name']} [{job['count']:,}]" if "count" in job else job["name"] for job in shown]
    rows = [(job["id"], job["state"], job["user"], name) for job, name in zip(shown, names, strict=True)]
    click.echo(output.table(("ID", "STATE", "USER", "NAME"), rows), err=True)
    listed = sum(job.get("count", 1) for job in shown)
    if found["count"] > listed:
        click.echo(f"… and {found['count'] - listed:,} more", err=True)
    return click.confirm(f"{said}. Go on?", err=True)


def _jobs(count: int) -> str:
    return f"{count:,} {'job' if count == 1 else 'jobs'}"


def for_each(
    output: Output, refs: Sequence[str], act: Callable[[str], dict[str, Any]], tell: Callable[[dict[str, Any]], str]
) -> int:
    """Do it to each job, go on after an error, and show what came of it."""
    done: list[dict[str, Any]] = []
    code = exits.OK
    for ref in refs:
        try:
            job = act(ref)
        except HeadwayError as error:
            if len(refs) == 1:
                raise
            failed = exits.for_error(error)
            output.error(error, failed)
            code = code or failed
            continue
        done.append(job)
        if not output.machine:
            said = f"{job['id']} {job['sentence']}" if job.get("many") else tell(job)
            output.show(job, lambda said=said: said, lambda job=job: job.get("done", [job["id"]]))  # type: ignore[misc]
    if output.machine:
        output.show({"jobs": done}, lambda: "", list)
    return code
