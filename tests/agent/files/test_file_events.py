"""What is heard of a task's files, with the kernel's own events: how much was printed when they were saved."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headway_agent.files.file_events import SILENT_S, Caught, FileEvents, Printed
from headway_agent.files.inotify import SeenFile, Watcher
from headway_agent.node.directory import FactLog
from tests.waiting import wait_until

KEY = "j1/1/0"


class Task:
    def __init__(self, place: Path) -> None:
        self.place = place
        self.told: list[SeenFile | Caught | Printed] = []
        (place / "checkpoints").mkdir()
        self.print("")
        watcher = Watcher()
        watcher.watch(KEY, "checkpoints", str(place / "checkpoints"))
        log = FactLog(str(place / "log"))
        file_of = lambda task, where, path: str(place / where / path)  # noqa: E731
        self.events = FileEvents(watcher, file_of, lambda task: str(place), self.told.extend, log)
        self.events.wake()

    def print(self, text: str) -> None:
        with open(self.place / "rank0.out", "a") as file:
            file.write(text)

    def silent_for(self, seconds: float) -> None:
        """As if it had last printed something so long ago."""
        at = time.time() - seconds
        os.utime(self.place / "rank0.out", (at, at))

    def save(self, name: str) -> None:
        (self.place / "checkpoints" / name).write_bytes(b"weights")

    def rename(self, name: str) -> None:
        self.save(f"{name}.tmp")
        (self.place / "checkpoints" / f"{name}.tmp").rename(self.place / "checkpoints" / name)

    def printed(self) -> list[int]:
        """What was told of it, the newest last."""
        self.events.flush(10)
        return [each.printed_bytes for each in self.told if isinstance(each, Caught | Printed)]


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path)


@pytest.mark.parametrize("way", [Task.save, Task.rename])
def test_a_save_is_told_with_what_was_printed_before_it(task: Task, way: Callable[[Task, str], None]) -> None:
    task.print("step 1\n")
    way(task, "model.bin")
    assert wait_until(task.printed)[-1] == 7


@pytest.mark.parametrize("way", [Task.save, Task.rename])
def test_a_line_right_after_a_save_that_came_out_of_silence_belongs_to_it(
    task: Task, way: Callable[[Task, str], None]
) -> None:
    task.print("step 1\n")
    task.silent_for(2 * SILENT_S)
    way(task, "model.bin")
    task.print("step 2\n")
    wait_until(lambda: task.printed()[-1:] == [14], what="the line after it")


def test_a_line_after_a_save_that_followed_another_at_once_is_the_next_steps(task: Task) -> None:
    task.print("step 1\n")
    task.silent_for(-60)  # However slow this machine is just now.
    task.save("model.bin")
    before = wait_until(task.printed)
    task.print("step 2\n")
    assert task.printed() == before
