"""What of an unfinished upload has arrived: a journal in the task's directory, for an agent that comes after this one.

One line for each object that storage has confirmed: the parts in it (of a checkpoint), or that it is a chunk (of a
large artifact). Each says in which storage place that was. Lines of parts go when a checkpoint is whole: from then on
only what its manifest names counts, for older parts may be collected.
"""

from __future__ import annotations

import json
import os

from headway_wire.storage_marks import is_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence

    from headway_agent.files.parts import Place

SENT = "sent.jsonl"


class SentParts:
    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, SENT)
        self._parts: list[tuple[str, dict[str, Place]]] = []
        self._chunks: dict[str, tuple[str, str]] = {}  # By key: mark of the place, and hash.
        for line in _lines(self._path):
            self._parts.append((line["storage"], {name: tuple(place) for name, place in line.get("parts", {}).items()}))
            self._chunks.update({key: (line["storage"], sha256) for key, sha256 in line.get("chunks", {}).items()})
            for key in line.get("joined", ()):
                self._chunks.pop(key, None)

    def parts_in(self, mark: str) -> dict[str, Place]:
        """Parts of an unfinished checkpoint that lie in this place."""
        found: dict[str, Place] = {}
        for storage, parts in self._parts:
            if is_here(storage, mark):
                found.update(parts)
        return found

    def stored(self, mark: str, parts: Mapping[str, Place]) -> None:
        self._parts.append((mark, dict(parts)))
        self._say({"storage": mark, "parts": parts})

    def has_chunk(self, mark: str, key: str, sha256: str) -> bool:
        storage, known = self._chunks.get(key, ("", ""))
        return known == sha256 and is_here(storage, mark)

    def chunk_stored(self, mark: str, key: str, sha256: str) -> None:
        self._chunks[key] = (mark, sha256)
        self._say({"storage": mark, "chunks": {key: sha256}})

    def drop_chunks(self, keys: Sequence[str]) -> None:
        """They were joined, and are gone; or something is wrong with them."""
        for key in keys:
            self._chunks.pop(key, None)
        self._say({"storage": "", "joined": list(keys)})

    def forget_parts(self) -> None:
        """A checkpoint is whole. Chunks that are under way are noted anew."""
        self._parts = []
        try:
            os.unlink(self._path)
        except OSError:
            return  # There was none.
        for key, (mark, sha256) in self._chunks.items():
            self._say({"storage": mark, "chunks": {key: sha256}})

    def _say(self, line: Mapping[str, Any]) -> None:
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, json.dumps(line, separators=(",", ":")).encode() + b"\n")
            finally:
                os.close(fd)
        except OSError:
            pass  # The disk is full: it would only be sent again.


def _lines(path: str) -> list[dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:
            continue  # Torn by the end of its agent, or by a full disk.
        if isinstance(said, dict) and "storage" in said:
            found.append(said)
    return found
