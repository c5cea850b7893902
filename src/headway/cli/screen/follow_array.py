"""Following an array: a line that is drawn anew on a terminal, a line for each change elsewhere, and its outcome.

What its jobs write is not shown here: headway logs shows it, each line behind the job's index.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from headway.cli.frame import exits
from headway.cli.frame.output import Output, harmless, on_terminal
from headway.cli.frame.watch import columns
from headway.cli.screen.arrays import ENDS, bar, counted
from headway.cli.screen.follow import AWAY_S_MAX, let_go
from headway.cli.screen.log_lines import LineView
from headway.core.errors import HeadwayError

LOOK_EVERY_S = 0.5
SAY_EVERY_S = 5.0  # Where lines stay, counts that change are told so often at the most.
WIDTH = 20
FAILED_SHOWN = 5


def follow_array(client: Any, id: str, output: Output) -> int:
    """Show how far it is until all its jobs have ended; return the exit code that this asks for."""
    client.link.meanwhile = "the array goes on"
    client.link.patience_s = max(client.link.patience_s, AWAY_S_MAX)
    line = _Line(output)
    try:
        while True:
            found = client.house.array_counts(id)
            if found is None:
                raise HeadwayError(f"array {id} was deleted meanwhile")
            if sum(found["states"].get(state, 0) for state in ENDS) == found["count"]:
                break
            line.tell(found)
            time.sleep(LOOK_EVERY_S)
    except KeyboardInterrupt:
        line.end()
        return _let_go(client, id, output)
    line.end()
    return _ended(client, id, output)


def tell_array(
    client: Any, array: dict[str, Any], output: Output, view: LineView, narrow: dict[str, Any], *, following: bool
) -> int:
    """Show what its jobs wrote, or write, each line behind the id of its job."""
    from headway.client.array_log import ArrayFollower, array_lines

    id = array["id"]
    if not following:
        if not view.tell(array_lines(client, id, **narrow)):
            output.say(f"headway: array {id} has written nothing of that; {array['sentence']}")
        return exits.OK
    client.link.meanwhile = "the array goes on"
    client.link.patience_s = max(client.link.patience_s, AWAY_S_MAX)
    follower = ArrayFollower(client, id, **narrow)
    try:
        view.follow(follower.lines())
    except KeyboardInterrupt:
        return _let_go(client, id, output)
    return _ended(client, id, output)


class _Line:
    def __init__(self, output: Output) -> None:
        self._output = output
        self._drawn = on_terminal(sys.stderr) and not output.machine and not output.quiet
        self._said: dict[str, int] = {}
        self._said_at = 0.0

    def tell(self, array: dict[str, Any]) -> None:
        states = array["states"]
        if self._drawn:
            said = f"{bar(states, WIDTH)} {counted(states)}"
            sys.stderr.write(f"\r\x1b[K{harmless(said)[: columns()]}")
            sys.stderr.flush()
        elif states != self._said and time.monotonic() - self._said_at >= SAY_EVERY_S:
            self._said, self._said_at = dict(states), time.monotonic()
            self._output.say(f"headway: array {array['id']}: {counted(states)}")

    def end(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _ended(client: Any, id: str, output: Output) -> int:
    array: dict[str, Any] = client.house.array(id)
    if output.machine:
        output.show(array, lambda: "", lambda: [id])
        return exits.for_job(array)
    output.say(f"headway: array {id} ({array['name']}) has ended: {counted(array['states'])}")
    failed = array["jobs"]["failed"]
    for job in failed[:FAILED_SHOWN]:
        output.say(f"headway: job {job['id']} {' '.join(str(job['sentence']).split())}")
    bad = sum(array["states"].get(state, 0) for state in ("failed", "cancelled"))
    if bad > FAILED_SHOWN:
        output.say(f"headway: and {bad - FAILED_SHOWN:,} more: headway ps --array {id} --state failed,cancelled")
    if array["states"].get("failed"):
        output.say(f"hint: headway logs {failed[0]['id']} shows why; headway retry --failed {id} tries them again")
    return exits.for_job(array)


def _let_go(client: Any, id: str, output: Output) -> int:
    def stop() -> str:
        return f"{client.house.stop_array(id)['changed']:,} jobs were asked to stop"

    return let_go(client, f"array {id}", f"headway wait {id}", output, stop)
