"""A job's log on its way to a terminal: what would make the terminal do something is left out.

Colours, erasing within the line, tabs, carriage returns and backspaces stay: progress bars need them. Titles, the
clipboard, movements of the cursor, other screens and questions to the terminal go. Where no terminal reads, logs are
exact to the byte (follow.py).
"""

from __future__ import annotations

import codecs
import re

OPEN_CHARS_MAX = 4096  # What begins like a sequence and has no end by then is none.
C1 = "\x80-\x9f"
BEGIN = r"\x1b\[|\x9b"
STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])" + rf"[^\x07\x1b\n{C1}]{{0,{OPEN_CHARS_MAX}}}"
CONTROL = re.compile(
    rf"(?P<kept>\x1b\[[0-9;:]*m|\x1b\[[0-2]?K)|(?:{BEGIN})[0-?]*[ -/]*[@-~]?|{STRING}(?:\x07|\x1b\\|\x9c)?"
    rf"|\x1b[ -/]*[0-~]?|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f{C1}]"
)
UNFINISHED = re.compile(rf"(?:(?:{BEGIN})[0-?]*[ -/]*|{STRING}|\x1b[ -/]*)\Z")
PLAIN = "\x1b[0m"


class Tame:
    """One stream of a log. Sequences that are cut between two pieces are recognized all the same."""

    def __init__(self, colour: bool = True, encoding: str = "utf-8") -> None:
        self.colour = colour
        self.encoding = encoding
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._open = ""
        self._painted = False

    def feed(self, data: bytes) -> bytes:
        text = self._open + self._decode(data)
        unfinished = UNFINISHED.search(text, max(0, len(text) - OPEN_CHARS_MAX))
        self._open = unfinished[0] if unfinished else ""
        return self._told(text[: len(text) - len(self._open)])

    def rest(self) -> bytes:
        """The end of it: what follows in the terminal is not painted by the job."""
        painted, self._open = self._painted, ""
        return self._told(self._decode(b"", True)) + (PLAIN.encode() if painted else b"")

    def _told(self, text: str) -> bytes:
        return CONTROL.sub(self._stays, text).encode(self.encoding, "backslashreplace")

    def _stays(self, found: re.Match[str]) -> str:
        kept = found["kept"] or ""
        if kept.endswith("m"):
            self._painted = kept not in (PLAIN, "\x1b[m")
            return kept if self.colour else ""
        return kept
