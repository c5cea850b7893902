"""Values of metrics that a job names itself: which lines of the output say them, by its regular expressions.

In a process of its own, one for each task that has such rules: a pattern that takes for ever must cost the other
metrics of that job, not the agent. Lines go in as JSON, one list at a time, and what was found comes back.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

    from headway_agent.collect.points import Picked

RULES = "metric_rules.json"
LINE_CHARS_MAX = 4096
LINES_S_MAX = 2.0  # For all lines of a piece and one pattern; it is given up then.
ANSWER_S_MAX = 20.0


class TookTooLong(Exception):
    pass


def value_in(pattern: re.Pattern[str], line: str) -> float | None:
    """The number that a line says, by the first group of a pattern, or by all of it where it has no group."""
    found = pattern.search(line)
    if found is None:
        return None
    try:
        return float(found.group(1 if pattern.groups else 0) or "")
    except ValueError:
        return None


def pick(
    rules: dict[str, re.Pattern[str]], lines: Sequence[str], set_alarm: Callable[[float], object] = float
) -> tuple[list[tuple[int, str, float]], list[str]]:
    """What the rules find, and the names of those that took too long, which are not asked again."""
    found: list[tuple[int, str, float]] = []
    slow = []
    for name, pattern in list(rules.items()):
        try:
            set_alarm(LINES_S_MAX)
            for number, line in enumerate(lines):
                value = value_in(pattern, line[:LINE_CHARS_MAX])
                if value is not None:
                    found.append((number, name, value))
        except TookTooLong:
            slow.append(name)
            del rules[name]
        finally:
            set_alarm(0.0)
    return found, slow


def _give_up(number: int, frame: object) -> None:
    raise TookTooLong


def main(directory: str) -> int:
    with open(f"{directory}/{RULES}") as file:
        rules = {str(rule["name"]): re.compile(rule["regex"]) for rule in json.load(file)}
    signal.signal(signal.SIGALRM, _give_up)  # Heard in the midst of a match: the engine of `re` looks for signals.
    for said in sys.stdin:
        found, slow = pick(rules, json.loads(said), lambda after_s: signal.setitimer(signal.ITIMER_REAL, after_s))
        sys.stdout.write(json.dumps([found, slow]) + "\n")
        sys.stdout.flush()
    return 0


def program() -> list[str]:
    """How this program is started again."""
    return [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0])]


class Picker:
    """The process of one task, as the agent sees it. Once it fails it is not asked again."""

    def __init__(self, directory: str) -> None:
        words, pipe = [*program(), "pick", "--task-dir", directory], subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self.trouble = ""

    def pick(self, lines: Sequence[bytes]) -> Picked:
        if self._process.poll() is not None or not lines:
            return {}
        answer: Any = None
        try:
            asked = json.dumps([line.decode("utf-8", "replace").rstrip("\r\n") for line in lines]) + "\n"
            stdin, stdout = self._process.stdin, self._process.stdout
            assert stdin is not None
            assert stdout is not None
            stdin.write(asked.encode())
            stdin.flush()
            if select.select([stdout], [], [], ANSWER_S_MAX)[0]:
                answer = json.loads(stdout.readline())
        except (OSError, ValueError) as error:
            self.trouble = str(error)
        if answer is None:
            self.trouble = self.trouble or "the rules for metrics took too long"
            self.close()
            return {}
        found, slow = answer
        if slow:
            self.trouble = f"rules for metrics took too long, and are not used any more: {', '.join(slow)}"
        picked: Picked = {}
        for number, name, value in found:
            picked.setdefault(number, []).append((name, value))
        return picked

    def close(self) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass  # It is gone, with what was on its way to it.
        self._process.wait()
