"""The newest step that a job has printed."""

from __future__ import annotations

import re

STEP = re.compile(rb"\b(step|epoch)[ :=]{1,6}(\d{1,12})\b(?!\.\d)", re.IGNORECASE)


class PrintedSteps:
    def __init__(self) -> None:
        self.latest: dict[str, int] = {}

    def feed(self, data: bytes) -> None:
        for word, number in STEP.findall(data):
            self.latest[word.decode().lower()] = int(number)
