"""What the Hugging Face Trainer posts about itself, where it finds an address to post to: read, and answered.

Pure: bytes of one HTTP request go in, an answer and points come out. The address is in a variable that Kubeflow has
introduced; the Trainer's own callback does the rest, at most every five seconds.
"""

from __future__ import annotations

import json

from headway_agent.collect import points

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway_agent.collect.points import Point

REQUEST_BYTES_MAX = 256 << 10
FIGURES_MAX = 200
COUNTS = ("current_step", "total_steps", "current_epoch", "epoch")
OK, REFUSED, BAD, LARGE = "200 OK", "401 Unauthorized", "400 Bad Request", "413 Content Too Large"


class StatusPost:
    """One request, while it comes in."""

    def __init__(self) -> None:
        self._data = b""
        self.task = self.token = ""
        self.body: bytes | None = None  # Once all of it is there.
        self.status = ""  # Once it is known that it cannot be read.

    def feed(self, data: bytes) -> bool:
        """Take what has come; whether that is enough to answer."""
        self._data += data
        head, blank, rest = self._data.partition(b"\r\n\r\n")
        if not blank:
            self.status = LARGE if len(self._data) > REQUEST_BYTES_MAX else ""
            return bool(self.status)
        first, *lines = head.decode("latin-1").split("\r\n")
        words, fields = first.split(" "), dict(_field(line) for line in lines)
        length = fields.get("content-length", "")
        if len(words) != 3 or words[0] != "POST" or not words[1].startswith("/status/") or not length.isdigit():
            self.status = BAD
        elif int(length) > REQUEST_BYTES_MAX:
            self.status = LARGE
        elif len(rest) >= int(length):
            self.task, self.body = words[1][len("/status/") :], rest[: int(length)]
            self.token = fields.get("authorization", "")[len("Bearer ") :]
        return bool(self.status) or self.body is not None


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()


def answer(status: str) -> bytes:
    fields = ("Content-Type: application/json", "Content-Length: 2", "Connection: close")
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", "{}"]).encode()


def read_status(body: bytes, at: float, last_step: int | None) -> tuple[list[Point], int | None]:
    """The points that a body tells, and their step. The last post of a training tells none: it has that before it."""
    try:
        told = json.loads(body)["trainerStatus"].get("metrics") or []
        figures = {str(each["name"]): float(each["value"]) for each in told[:FIGURES_MAX]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return [], last_step
    said = figures.get("current_step")
    step = int(said) if said is not None and said == said and abs(said) < 2**62 else last_step
    return [(name, value, step, at, 0) for name, value in figures.items() if name not in COUNTS], step


def fresh(found: list[Point], known: dict[str, float]) -> list[Point]:
    """Those that are not what was told last: between two logs the Trainer posts the same figures again."""
    new = [point for point in found if known.get(point[0]) != point[1]]
    known.update({name: value for name, value, _, _, _ in new})
    return new


KIND = points.HUGGINGFACE
