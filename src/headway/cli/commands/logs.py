"""`headway logs`: what a job wrote, attempt after attempt, to the byte; or searched, with times, line by line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.moments import MOMENT
from headway.cli.frame.options import connect, job_argument, output_options
from headway.cli.frame.output import Output
from headway.core.errors import BadInput

if TYPE_CHECKING:
    from headway.client.story import Story

EXAMPLES = examples(
    "headway logs mnist",
    "headway logs -f mnist --tail 20",
    "headway logs mnist --grep 'loss=nan|Traceback' --context 5",
    "headway logs mnist --timestamps --since 14:30 --until 15:00",
    "headway logs sweep  # of an array: each line with its job before it",
    "headway logs mnist --attempt last --rank 3  # to the byte, one attempt of one rank",
)


@click.command(epilog=EXAMPLES)
@job_argument
@click.option("-f", "--follow", "following", is_flag=True, help="Follow until the job ends, across attempts.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="The last N lines (of each rank), or matches.")
@click.option("--since", type=MOMENT, metavar="TIME", help="Only what was written after: 10m ago, 14:30, a date.")
@click.option("--until", type=MOMENT, metavar="TIME", help="Only what was written before: as --since.")
@click.option("--grep", "-g", "wanted", metavar="PATTERN", help="Only lines that match a regular expression.")
@click.option("-i", "--ignore-case", is_flag=True, help="--grep takes small and large letters for the same.")
@click.option("--context", "-C", type=click.IntRange(min=0), default=0, metavar="N", help="N lines around each match.")
@click.option("--timestamps", "-t", "times", is_flag=True, help="When each line was written; see below.")
@click.option("--merge/--no-merge", default=True, help="Ranks in the order of time (default), or one after the other.")
@click.option("--attempt", metavar="N|last", help="One attempt only, byte for byte.")
@click.option("--rank", type=click.IntRange(min=0), help="One rank only.")
@click.option(
    "--raw", is_flag=True, help="On a terminal too, every byte: also what moves its cursor or sets its title."
)
@output_options
def logs(
    job: str,
    following: bool,
    wanted: str | None,
    ignore_case: bool,
    context: int,
    times: bool,
    output: Output,
    **how: Any,
) -> int:
    """Show a job's log: all attempts in order, with a marked line between them.

    With -f, the exit code says how the job ended, as with run. Lines of a gang have their rank before them, lines of an
    array their job.

    A node looks at what its jobs have written every 2 s, every 0.2 s while somebody follows. The last line of each look
    has its own time; those before it in the same look have that time too, and were written up to so much earlier.
    """
    from headway.cli.screen.follow import follow
    from headway.cli.screen.log_lines import LineView
    from headway.client.story import Story

    raw = bool(how.pop("raw"))
    pattern = pattern_of(wanted, ignore_case)
    narrow = narrowed(how, pattern is not None and not following)
    if following and narrow["until_at"] is not None:
        raise BadInput("--until and --follow exclude each other", "without -f, what is there until then is shown")
    client = connect(output)
    by_lines = LineView(output, raw, times, pattern, context, how["tail"]) if pattern or times else None
    array = client.house.array_counts(job)
    if array is not None:
        from headway.cli.screen.follow_array import tell_array

        return tell_array(client, array, output, by_lines or LineView(output, raw), narrow, following=following)
    if following:
        return follow(client, job, output, raw=raw, by_lines=by_lines, **narrow)
    if output.machine and by_lines is None:
        output.show(client.logs_index(job, fresh=True), lambda: "", list)
        return exits.OK
    story = Story(client, job, **narrow)
    count = by_lines.tell(story.lines()) if by_lines else _told(story, output, raw)
    if not count:
        _say_none(client, story, output, wanted, narrow)
    return exits.OK


def _told(story: Story, output: Output, raw: bool) -> int:
    from headway.cli.screen.follow import LogReader

    written, reader = 0, LogReader(output, raw)
    for piece in story.tell():
        written += bool(piece.data)
        reader.emit(piece)
    reader.end()
    return written


def _say_none(client: Any, story: Story, output: Output, wanted: str | None, narrow: dict[str, Any]) -> None:
    if wanted is not None:
        output.say(f'headway: no line of job {story.job} matches "{wanted[:200]}"')
    elif narrow["since_at"] is not None or narrow["until_at"] is not None:
        output.say(f"headway: job {story.job} has written nothing in that time")
    elif narrow["tail"] is None:
        answer = client.why(story.job)
        output.say(f"headway: job {answer['job']} has written nothing; it {answer['sentence']}")


def narrowed(how: dict[str, Any], matches: bool) -> dict[str, Any]:
    """What of the log is asked for. Of the last matches, all that was written is looked through."""
    since, until = how["since"], how["until"]
    if since is not None and until is not None and since > until:
        raise BadInput("--since is later than --until", "nothing can have been written between them")
    return {
        "attempt": which(how["attempt"]),
        "rank": how["rank"],
        "tail": None if matches else how["tail"],
        "since_at": since,
        "until_at": until,
        "merge": how["merge"],
    }


def pattern_of(wanted: str | None, ignore_case: bool) -> re.Pattern[bytes] | None:
    if wanted is None:
        return None
    try:
        return re.compile(wanted.encode("utf-8", "surrogateescape"), re.IGNORECASE if ignore_case else 0)
    except (re.error, OverflowError) as error:
        hint = "a dot or a bracket that is meant as such has \\ before it"
        raise BadInput(f'--grep: "{wanted[:80]}" is not a regular expression: {error}', hint) from None


def which(attempt: str | None) -> int | str | None:
    if attempt is None or attempt == "last":
        return attempt
    if not attempt.isdecimal() or int(attempt) < 1:
        raise BadInput(f'--attempt: "{attempt[:80]}" is neither a number from 1 on nor "last"')
    return int(attempt)
