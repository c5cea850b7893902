"""Fetching what a job has kept: chosen by path, resumed where it broke off, checked by its hash, never half a file.

A file appears under its name only when it is whole and right; until then it is `NAME.part`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headway.client.code.hash_cache import hash_file
from headway.core.errors import BadInput, HeadwayError, NotFound, Unavailable

if TYPE_CHECKING:
    from headway.client.sdk import Client

Artifact = Mapping[str, Any]
Pieces = Callable[[int], Iterator[tuple[int, bytes]]]
"""The bytes of a file from an offset on, each piece with its place."""
PAUSE_S = 0.5


def choose(found: Sequence[Artifact], paths: Sequence[str], attempt: int | None = None) -> list[Artifact]:
    """Of each path the newest attempt's file. A path may be a directory or a pattern; one that fits none is wrong."""
    newest: dict[tuple[int, str], Artifact] = {}
    for each in found:
        key = (int(each.get("task") or 0), str(each["path"]))
        if attempt is not None and each["attempt"] != attempt:
            continue
        if key not in newest or newest[key]["attempt"] < each["attempt"]:
            newest[key] = each
    all_of_them = [newest[key] for key in sorted(newest)]
    if attempt is not None and found and not all_of_them:
        kept = ", ".join(map(str, sorted({each["attempt"] for each in found})))
        raise NotFound(f"attempt {attempt} has kept nothing", f"there are artifacts of attempt {kept}")
    if not paths:
        return all_of_them
    chosen: list[Artifact] = []
    for wanted in paths:
        plain = wanted.strip("/")
        fits = pattern(plain).fullmatch if any(sign in plain for sign in "*?[") else None
        matching = [
            each for each in all_of_them if _below(str(each["path"]), plain) or (fits and fits(str(each["path"])))
        ]
        if not matching:
            near = nearest([str(each["path"]) for each in all_of_them], plain)
            raise NotFound(
                f'no artifact "{wanted[:200]}"', f'did you mean "{near}"?' if near else "headway artifact ls JOB"
            )
        chosen += [each for each in matching if each not in chosen]
    return chosen


def nearest(paths: Sequence[str], wanted: str) -> str:
    """The path that may have been meant: of the same name elsewhere, else one that is spelt much like it."""
    import difflib

    name = wanted.rsplit("/", 1)[-1]
    named_so = [path for path in paths if path.rsplit("/", 1)[-1] == name]
    return next(iter(named_so or difflib.get_close_matches(wanted, paths, n=1)), "")


def in_the_way(chosen: Sequence[Artifact], places: Sequence[str]) -> list[str]:
    """Those of the places at which something else stands already than the artifact that would go there."""
    pairs = zip(chosen, places, strict=True)
    return [place for artifact, place in pairs if os.path.lexists(place) and not _is_here(artifact, place)]


def _is_here(artifact: Artifact, place: str) -> bool:
    wanted = str(artifact.get("sha256") or "")
    same_size = os.path.isfile(place) and os.path.getsize(place) == artifact["size"]
    return bool(wanted) and same_size and hash_file(place) == wanted


def pattern(words: str) -> re.Pattern[str]:
    """`*` and `?` stop at a slash, `**` does not. One without a slash is for names in every directory."""
    parts = []
    for sign in re.findall(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", words, re.DOTALL):
        if sign.startswith("[") and len(sign) > 1:
            inner = sign[1:-1].replace("\\", r"\\")
            parts.append(f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]")
        else:
            parts.append({"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(sign) or re.escape(sign))
    return re.compile(("" if "/" in words else "(?:.*/)?") + "".join(parts), re.DOTALL)


def _below(path: str, wanted: str) -> bool:
    return wanted in ("", ".") or path == wanted or path.startswith(wanted + "/")


def place_of(artifact: Artifact, directory: str, several_tasks: bool = False) -> str:
    """Where an artifact goes below a directory; a gang's are kept apart by their task."""
    path = str(artifact["path"])
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "" in parts or "\0" in path:
        raise BadInput(f"the server names an artifact {path!r}, which would leave the directory")
    task = [f"task-{artifact.get('task') or 0}"] if several_tasks else []
    return os.path.join(directory, *task, *parts)


def fetch(
    client: Client,
    job: str,
    artifact: Artifact,
    directory: str,
    *,
    to: str | None = None,
    on_bytes: Callable[[int], None] = lambda count: None,
) -> str:
    """Bring one artifact here and return its path. What is here already, whole and right, is not fetched again."""
    place = to or place_of(artifact, directory)
    if os.path.isdir(place):
        raise BadInput(f"{place} is a directory", "choose another place")
    wanted = str(artifact.get("sha256") or "")
    if _is_here(artifact, place):
        on_bytes(int(artifact["size"]))
        return place
    part = place + ".part"

    def pieces(start: int) -> Iterator[tuple[int, bytes]]:
        return client.artifact_pieces(job, artifact, start)

    try:
        os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
        receive(client, pieces, artifact, part, on_bytes)
        if wanted and hash_file(part) != wanted:
            # The beginning may be left from another file of this name: once more, from nothing.
            os.unlink(part)
            receive(client, pieces, artifact, part, on_bytes)
            if hash_file(part) != wanted:
                os.unlink(part)
                raise HeadwayError(f'"{artifact["path"]}" came with another content than its hash says')
        os.replace(part, place)
    except OSError as error:
        raise BadInput(f"{place} cannot be written: {(error.strerror or str(error)).lower()}") from None
    return place


def receive(client: Client, pieces: Pieces, artifact: Artifact, part: str, on_bytes: Callable[[int], None]) -> None:
    """Bring all bytes of a file, from where an earlier try broke off; a server that is away is waited for."""
    give_up_at = time.monotonic() + client.link.patience_s
    with open(part, "ab") as file:
        if file.tell() > artifact["size"]:
            file.truncate(0)
        on_bytes(file.tell())
        while file.tell() < artifact["size"]:
            try:
                for at, piece in pieces(file.tell()):
                    if at != file.tell():
                        file.truncate(at)
                        file.seek(at)
                    file.write(piece)
                    on_bytes(len(piece))
                    give_up_at = time.monotonic() + client.link.patience_s
            except Unavailable as broken:
                if time.monotonic() >= give_up_at or client.link.abandoned:
                    raise
                client.link.on_trouble(broken.message)
                time.sleep(PAUSE_S)
            else:
                if file.tell() < artifact["size"]:
                    raise HeadwayError(f'"{artifact["path"]}" is shorter on the server than its record says')
