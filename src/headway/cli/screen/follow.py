"""Following a job at the terminal: its log to stdout, its outcome in one sentence to stderr, Ctrl-C to let go."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from headway.cli.frame import exits
from headway.cli.frame.output import Output, on_terminal
from headway.cli.screen.terminal_filter import Tame
from headway.client.story import Story, StoryPiece
from headway.core.errors import HeadwayError
from headway.core.units import show_duration

if TYPE_CHECKING:
    from headway.client.sdk import Client

SECOND_PRESS_S = 2.0
AWAY_S_MAX = 600.0  # How long a shared server may be away before a follower gives up.
SAY_WAITING_AFTER_S = 1.0


def follow(
    client: Client, job: str, output: Output, *, exit_code_from_job: bool = False, raw: bool = False, **narrow: Any
) -> int:
    """Tell the job's story as it grows; return the exit code that its end asks for."""
    client.on_trouble(_Troubles(output).tell)
    client.link.on_wait = lambda sentence, left_s: None  # It is told as a trouble of the job's.
    client.link.patience_s = max(client.link.patience_s, AWAY_S_MAX)
    story = Story(client, job, on_wait=_WaitingLine(output).tell, **narrow)
    reader = LogReader(output, raw)
    try:
        for piece in story.follow():
            reader.emit(piece)
    except KeyboardInterrupt:
        reader.end()
        return let_go(client, story.job, output)
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
    if job.get("hint"):
        output.say(f"hint: {job['hint']}")


def let_go(client: Client, job: str, output: Output) -> int:
    """The first Ctrl-C detaches and says how to come back; a second one, pressed at once, asks the job to stop."""
    try:
        output.say(f"\nheadway: detached; job {job} goes on. Follow it again: headway logs -f {job}")
        output.say(f"headway: stop it: headway stop {job}, or press Ctrl-C again now")
        time.sleep(SECOND_PRESS_S)
    except KeyboardInterrupt:
        try:
            client.link.patience_s = 5.0
            client.stop(job)
            output.say(f"headway: job {job} was asked to stop")
        except HeadwayError as error:
            output.error(error, exits.INTERRUPTED)
    return exits.INTERRUPTED


class _WaitingLine:
    """Says why the job waits, once it has waited a little, and again when the reason changes."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.since = time.monotonic()
        self.said = ""

    def tell(self, detail: dict[str, Any]) -> None:
        # A pause that counts down changes with every look; its first words do not.
        sentence = str(detail.get("sentence") or "")
        shape = "".join(letter for letter in sentence if not letter.isdigit())
        if shape != self.said and time.monotonic() - self.since >= SAY_WAITING_AFTER_S:
            self.said = shape
            self.output.say(f"headway: job {detail['id']} {sentence}")


class _Troubles:
    """Says once per trouble that the server does not answer."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.said_at = 0.0

    def tell(self, sentence: str) -> None:
        if time.monotonic() - self.said_at > 10 or self.output.verbose:
            self.said_at = time.monotonic()
            self.output.say(f"headway: {sentence}; the job goes on, trying again")
