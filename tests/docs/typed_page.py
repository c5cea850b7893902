"""A page of the documentation, typed as a reader would: its files are saved, its commands run, its samples compared.

A block that begins with a command (`$ …`) is typed; what follows each command is what it should print. A block of
Python is a file: its first line names it, or the text after it does ("Save it as `count.py`"). What differs from run to
run is passed over: ids, times, widths, the step that was reached, the machine; a line `…` stands for any lines.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.waiting import wait_until

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"\A# (\S+\.py)\n")
SAVED = re.compile(r"Save it as `([^`]+)`")
COMMAND_S_MAX = 600
LOOK_S_MAX = 60.0
# What a reader looks at again a moment later, when it has not come yet.
LOOKS = ("ps", "why", "checkpoint", "checkpoints", "describe", "artifact", "artifacts", "nodes", "node")
ID = re.compile(r"\b[0-9a-hjkmnp-tv-z]{8}\b")
# Said where it takes longer than a second.
MEANWHILE = re.compile(
    r"^headway: (starting the server|waiting for|looking for|reading the|job ID (waits|starts|runs))"
)
LITTLE = re.compile(
    r"TIME \(preempted: TIME\)"
)  # The moment between a save and the end, in the account of what was lost.
# Where an attempt goes on that was ended at some moment, and how large this machine is.
THESE = re.compile(r"(from step|pool \"local\" has|use --cpus) \d+")
TIME = re.compile(r"\b\d+(\.\d+)?( ?(ms|s|min|m|h|d)\b)( \d+ ?(s|m|min|h)\b)?")


@dataclass(frozen=True)
class Step:
    """A file to save, or a command to type and what it should print."""

    number: int  # The line on the page.
    command: str = ""
    sample: str = ""
    file: str = ""
    content: str = ""


@dataclass
class Reader:
    """Somebody with an empty directory, who follows a page."""

    place: Path
    env: dict[str, str]
    told: list[str] = field(default_factory=list)

    def follow(self, page: str) -> None:
        for step in steps(page):
            if step.file:
                (self.place / step.file).write_text(step.content)
            else:
                self.type(step)

    def type(self, step: Step) -> None:
        wanted = plain(step.sample)
        again = step.command.startswith(tuple(f"headway {word}" for word in LOOKS))

        def printed() -> bool:
            code, told = self.run(step.command)
            self.told.append(told)
            return fits(plain(told), wanted) if step.sample else code == 0

        def story() -> str:
            return f"\nprinted:\n{self.told[-1]}\nthe page says:\n{step.sample}"

        if again:
            wait_until(printed, LOOK_S_MAX, every_s=0.5, what=f"line {step.number}: $ {step.command}", story=story)
        else:
            assert printed(), f"line {step.number}: $ {step.command}{story()}"

    def run(self, command: str) -> tuple[int, str]:
        """The exit code, and what a terminal would show."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.place,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S_MAX,
        )
        return done.returncode, done.stdout.replace(self.env["HOME"], "/home/you")


def steps(page: str) -> list[Step]:
    found: list[Step] = []
    for block in BLOCK.finditer(page):
        language, content = block.groups()
        number = page.count("\n", 0, block.start()) + 2
        if language == "python":
            named = NAMED.match(content) or SAVED.search(page, block.end())
            assert named, f"line {number}: a file without a name"
            found.append(Step(number, file=named.group(1), content=content))
        elif content.startswith("$ "):
            for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
                command, _, sample = part.partition("\n")
                found.append(Step(number, command=command, sample=sample))
    return found


def plain(text: str) -> list[str]:
    """The lines without what differs from run to run."""
    lines = THESE.sub(r"\1 N", LITTLE.sub("nothing", TIME.sub("TIME", ID.sub("ID", text)))).strip().splitlines()
    narrow = [re.sub(r" {2,}", " ", line).strip() for line in lines]
    return [line for line in narrow if line and not MEANWHILE.match(line)]


def fits(printed: list[str], wanted: list[str]) -> bool:
    if not wanted:
        return not printed
    if wanted[0] == "…":
        return any(fits(printed[start:], wanted[1:]) for start in range(len(printed) + 1))
    return bool(printed) and printed[0] == wanted[0] and fits(printed[1:], wanted[1:])
