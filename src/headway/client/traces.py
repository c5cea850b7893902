"""What a running job has written, and whether it has opened what was put back for it: looked at from where it runs.

A shell and `find` beside the job, through its agent, as `headway exec` does it. Where that is not possible nothing is
known, which is not an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from headway.core.errors import HeadwayError
from headway.core.rehearsal.verdict import FileSeen
from headway.features.visits.client import Visit
from headway_wire.frames import DATA, END, EXIT

if TYPE_CHECKING:
    from headway.client.sdk import Client

SEEN_MAX = 200
ANSWER_BYTES_MAX = 1 << 20
PUT_BACK_S = 0.2  # Between writing a file and putting it back lies more than this: an end, and a start.

# $1: how long ago the attempt began; the rest: directories that the command names. Directories that tools fill by
# themselves are passed over. A look may not take longer than a moment, however large the tree is.
WRITTEN = r"""
export LC_ALL=C
ref=$(mktemp) || exit 1
touch -d "@$(( $(date +%s) - $1 ))" "$ref" || exit 1
shift
limit=; command -v timeout >/dev/null && limit="timeout 10"
for place in "$HEADWAY_CHECKPOINT_DIR" "$PWD" "$@"; do
  [ -d "$place" ] || continue
  echo "in $place"
  $limit find "$place" -xdev \( -name .git -o -name __pycache__ -o -name .venv -o -name node_modules \) -prune \
    -o -type f -newer "$ref" ! -name '*.py' ! -name '*.pyc' -exec ls -dln {} + 2>/dev/null
done
rm -f "$ref"
"""

# Says first whether reading a file is noted here at all: some file systems are mounted without it. Paths that begin
# with .headway-workdir/ are those of a checkpoint's files that lie in the working directory.
OPENED = r"""
work=$PWD
cd "$HEADWAY_CHECKPOINT_DIR" || exit 1
probe=$(mktemp ../rehearsal.XXXXXX) || exit 1
echo x >"$probe"; touch -a -d @1 "$probe"; cat "$probe" >/dev/null; stat -c 'noted %X' "$probe" || exit 1
rm -f "$probe"
for file; do
  case $file in .headway-workdir/*) file="$work/${file#.headway-workdir/}" ;; esac
  stat -c '%x|%z|%y|%n' "$file"
done 2>/dev/null
"""


def written(client: Client, job: str, since_s: float, words: Sequence[str]) -> tuple[FileSeen, ...]:
    """The files that the job has written since it began, checkpoints first; none where nobody can look."""
    places = {word.partition("=")[2] if word.startswith("--") else word for word in words}
    absolute = sorted(place for place in places if place.startswith("/"))
    said = _ask(client, job, ["sh", "-c", WRITTEN, "sh", str(int(since_s)), *absolute])
    return tuple(_read_written(said or "", set(words))[:SEEN_MAX])


def _read_written(said: str, words: set[str]) -> list[FileSeen]:
    found: dict[str, FileSeen] = {}
    places: list[str] = []
    for line in said.splitlines():
        if line.startswith("in "):
            places.append(line[3:])
            continue
        columns = line.split(None, 8)
        if len(columns) < 9 or not columns[4].isdecimal() or not places:
            continue
        path, kept = columns[8], len(places) == 1
        inside = path.removeprefix(places[-1] + "/")
        if path not in words and inside not in words and not inside.startswith(".nfs"):
            shown = inside if len(places) <= 2 else path
            found.setdefault(path, FileSeen(shown, int(columns[4]), kept))
    return list(found.values())


@dataclass
class Opened:
    """Whether files of a restored checkpoint have been read since they were put back, look by look."""

    paths: Sequence[str]
    put_back: dict[str, str] = field(default_factory=dict)  # When each was changed last, as first seen.
    read: bool | None = None  # None as long as nobody can tell.
    untouched_s: float = 0.0  # The last look at which some were as they had been put back, and none was read.

    def look(self, client: Client, job: str, now_s: float) -> None:
        said = _ask(client, job, ["sh", "-c", OPENED, "sh", *self.paths[:SEEN_MAX]])
        self.take_in(said or "", now_s)

    def take_in(self, said: str, now_s: float) -> None:
        first, _, rest = said.partition("\n")
        if not first.startswith("noted ") or first == "noted 1":
            return
        seen = [line.split("|", 3) for line in rest.splitlines()]
        # What the job has written anew was read by those who store it, and says nothing. It may have done so before the
        # first look; what was put back has the time of its first writing still.
        old = [(read, put, path) for read, put, written, path in seen if _is_earlier(written, put)]
        same = [(read, put) for read, put, path in old if self.put_back.setdefault(path, put) == put]
        if any(read > put for read, put in same):
            self.read = True
        elif same and not self.read:
            self.read, self.untouched_s = False, now_s


def _is_earlier(written: str, put: str) -> bool:
    """Whether a file was written before it was put where it is, by what `stat` says."""
    try:
        begin, end = (datetime.fromisoformat(re.sub(" ([+-])", r"\1", said)) for said in (written, put))
    except ValueError:
        return True  # Another stat: nobody can tell.
    return (end - begin).total_seconds() > PUT_BACK_S


def _ask(client: Client, job: str, command: list[str]) -> str | None:
    """What a command says that runs beside the job; None if it could not be run."""
    try:
        there = Visit(client.link, job, {"command": command})
    except (HeadwayError, OSError):
        return None
    said = b""
    try:
        there.send(END)
        for kind, content in there.frames():
            if kind == EXIT:
                return said.decode("utf-8", "replace") if content == b"0" else None
            if kind == DATA and len(said) < ANSWER_BYTES_MAX:
                said += content
    except (HeadwayError, OSError):
        pass
    finally:
        there.close()
    return None
