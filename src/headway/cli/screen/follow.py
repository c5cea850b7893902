"""Following a job at the terminal: its log to stdout, its outcome in one sentence to stderr, Ctrl-C to let go."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from headway.cli.frame import exits
from headway.cli.frame.output import Output, on_terminal
from headway.cli.screen.terminal_filter import Tame
from headway.client.log_lines import StoryPiece
from headway.client.story import Story
from headway.core.errors import HeadwayError
from headway.core.units import show_duration

if TYPE_CHECKING:
    from headway.cli.screen.log_lines import LineView
    from headway.client.sdk import Client

Told = TypeVar("Told")
SECOND_PRESS_S = 2.0
AWAY_S_MAX = 600.0  # How long a shared server may be away before a follower gives up.


def follow(
    client: Client,
    job: str,
    output: Output,
    *,
    exit_code_from_job: bool = False,
    raw: bool = False,
    silent: bool = False,
    by_lines: LineView | None = None,
    **narrow: Any,
) -> int:
    """Tell the job's story as it grows (silent: only how it ends); return the exit code that its end asks for."""
    client.link.meanwhile = "the job goes on"
    client.link.patience_s = max(client.link.patience_s, AWAY_S_MAX)
    stage = Stage(output)
    story = Story(client, job, on_wait=stage.tell, **narrow)
    reader = LogReader(output, raw)
    try:
        if silent:
            story.ended = client.wait(job)[0]
        elif by_lines is not None:
            if not by_lines.follow(stage.until(story.lines(follow=True))):
                output.say(f"headway: no line of job {story.job} was to be shown")
        else:
            for piece in stage.until(story.follow()):
                reader.emit(piece)
    except KeyboardInterrupt:
        stage.end()
        reader.end()
        return _let_go_of_job(client, story.job, output)
    finally:
        stage.end()
    reader.end()
    assert story.ended is not None
    if output.machine:
        output.show(story.ended, lambda: "", lambda: [story.job])
    else:
        say_outcome(story.ended, output)
    return exits.for_job(story.ended, exit_code_from_job)


class LogReader:
    """Where a log goes: bytes as they are, at once; on a terminal only what it may be shown (terminal_filter.py),
    unless raw.
    """

    def __init__(self, output: Output, raw: bool = False) -> None:
        self._out = sys.stderr if output.machine else sys.stdout
        streams = [] if raw else [each for each in {self._out, sys.stderr} if on_terminal(each)]
        self._tame = {each: Tame(output.colour, each.encoding or "utf-8") for each in streams}

    def emit(self, piece: StoryPiece) -> None:
        stream = self._out if piece.stream == "out" else sys.stderr
        tame = self._tame.get(stream)
        if tame and piece.rank is not None and tame.colour:
            from headway.cli.screen.log_lines import paint_ranks

            self._write(stream, tame.feed(paint_ranks(piece.data)))
            return
        self._write(stream, tame.feed(piece.data) if tame else piece.data)

    def end(self) -> None:
        for stream, tame in self._tame.items():
            self._write(stream, tame.rest())

    def _write(self, stream: Any, data: bytes) -> None:
        if data:
            stream.buffer.write(data)
            stream.buffer.flush()


def say_outcome(job: dict[str, Any], output: Output) -> None:
    over_at = job.get("over_at") or job.get("ended_at")
    ran = over_at - job["started_at"] if job.get("ended_at") and job.get("started_at") else None
    after = f" after {show_duration(ran)}" if ran is not None and job["state"] == "succeeded" else ""
    output.say(f"headway: job {job['id']} ({job['name']}) {job['sentence']}{after}")
    for said in lost_files(job):
        output.say(f"warning: not kept: {said}")
    if job.get("hint"):
        output.say(f"hint: {job['hint']}")


def lost_files(job: dict[str, Any]) -> list[str]:
    """What the newest attempt was to leave and did not: a misspelt output, a file that could not be stored."""
    if job["state"] != "succeeded":
        return []  # Its own end says more.
    tasks = [task for each in (job.get("attempts") or ())[-1:] for task in each.get("tasks") or ()]
    return list(dict.fromkeys(told["unkept"] for task in tasks if (told := task.get("outcome")) and told.get("unkept")))


def let_go(client: Client, what: str, back: str, output: Output, stop: Callable[[], str]) -> int:
    """The first Ctrl-C detaches and says how to come back; a second one, pressed at once, asks for an end.

    `what` is `job x8q3` or `array x8q3`; `back` the command that comes back; `stop` asks, and says what was asked.
    """
    try:
        output.say(f"\nheadway: detached; {what} goes on. Come back to it: {back}")
        output.say(f"headway: stop it: headway stop {what.split()[1]}, or press Ctrl-C again now")
        time.sleep(SECOND_PRESS_S)
    except KeyboardInterrupt:
        try:
            client.link.patience_s = 5.0
            output.say(f"headway: {stop()}")
        except HeadwayError as error:
            output.error(error, exits.INTERRUPTED)
    return exits.INTERRUPTED


class Stage:
    """How far a job has come whose output is not there yet: it waits, a machine is ordered, an environment is built,
    it runs.
    """

    def __init__(self, output: Output) -> None:
        self._watch = output.watch
        self._sentence = "waiting for the job"
        self._shown = True
        self._watch.begin(lambda: self._sentence)

    def tell(self, detail: dict[str, Any]) -> None:
        self._sentence = f"job {detail['id']} {detail.get('sentence') or detail['state']}"
        if not self._shown:
            self._shown = True
            self._watch.begin(lambda: self._sentence)

    def until(self, told: Iterable[Told]) -> Iterator[Told]:
        """Pass on what is told; with each of it, nothing has to be said any more."""
        for each in told:
            self.end()
            yield each

    def end(self) -> None:
        if self._shown:
            self._shown = False
            self._watch.end()


def _let_go_of_job(client: Client, job: str, output: Output) -> int:
    def stop() -> str:
        client.stop(job)
        return f"job {job} was asked to stop"

    return let_go(client, f"job {job}", f"headway logs -f {job}", output, stop)
