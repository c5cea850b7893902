"""The user's own rules for the log: which lines mean what. Matched on the end of each rank's output, when all is over.

In a process of its own: a pattern that takes for ever must cost a few seconds, not the agent, nor the other patterns.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

from headway_agent.node.directory import POLICIES_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping, Sequence

TAIL_BYTES = 4 << 20
LINE_CHARS_MAX = 4096
MATCH_S_MAX = 5.0
PATTERNS_S_MAX = 3.5  # Of that, for all patterns together: the rest is for reading, and for a busy machine.


class TookTooLong(Exception):
    pass


def match(
    policies: Sequence[Mapping[str, str]], lines: Sequence[str], set_alarm: Callable[[float], object] = float
) -> list[dict[str, str]]:
    """Label and action of each policy that some line matches, in the order of the policies.

    Each has its share of the time; one that uses it up is given up, and that is said as a label.
    """
    found = []
    for each in policies:
        pattern = re.compile(each["pattern"])
        try:
            set_alarm(PATTERNS_S_MAX / len(policies))
            if any(pattern.search(line[:LINE_CHARS_MAX]) for line in lines):
                found.append({"label": each["label"], "action": each["action"]})
        except TookTooLong:
            found.append({"label": f'the pattern of "{each["label"]}" takes too long', "action": "label"})
        finally:
            set_alarm(0.0)
    return found


def _give_up(number: int, frame: object) -> None:
    raise TookTooLong


def matched(directory: str) -> list[dict[str, str]]:
    """What matches in a task's directory. Nothing where it takes too long."""
    words = [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0]), "match", "--task-dir", directory]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=MATCH_S_MAX
        )
        answer: list[dict[str, str]] = json.loads(done.stdout or b"[]")
        return answer
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []


def main(directory: str) -> int:
    with open(f"{directory}/{POLICIES_FILE}") as file:
        policies = json.load(file)
    lines: list[str] = []
    for name in sorted(os.listdir(directory)):
        if name.startswith("rank") and name.endswith((".out", ".err")):
            lines += _tail(f"{directory}/{name}")
    signal.signal(signal.SIGALRM, _give_up)  # Heard in the midst of a match: the engine of `re` looks for signals.
    answer: Any = match(policies, lines, lambda after_s: signal.setitimer(signal.ITIMER_REAL, after_s))
    sys.stdout.write(json.dumps(answer))
    return 0


def _tail(path: str) -> list[str]:
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
        return file.read().decode("utf-8", "replace").splitlines()
