"""The user's own rules for the log: which lines mean what. Matched on the end of each rank's output, when all is over.

In a process of its own: a pattern that takes for ever must cost a few seconds, not the agent.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

from headway_agent.overseeing import POLICIES_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping

TAIL_BYTES = 4 << 20
LINE_CHARS_MAX = 4096
MATCH_S_MAX = 5.0


def match(policies: Iterable[Mapping[str, str]], lines: Iterable[str]) -> list[dict[str, str]]:
    """Label and action of each policy that some line matches, in the order of the policies."""
    compiled = [(re.compile(each["pattern"]), each) for each in policies]
    found: set[int] = set()
    for line in lines:
        for index, (pattern, _) in enumerate(compiled):
            if index not in found and pattern.search(line[:LINE_CHARS_MAX]):
                found.add(index)
        if len(found) == len(compiled):
            break
    return [
        {"label": each["label"], "action": each["action"]} for index, (_, each) in enumerate(compiled) if index in found
    ]


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
    answer: Any = match(policies, lines)
    sys.stdout.write(json.dumps(answer))
    return 0


def _tail(path: str) -> list[str]:
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
        return file.read().decode("utf-8", "replace").splitlines()
