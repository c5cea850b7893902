"""One task whose files are kept: what was asked for, what is known of its directories, and what lies in storage.

`progress.json` in the task's directory says what was asked for, `kept.json` what was kept last, so an agent that starts
anew goes on where the dead one was. Only uploader.py and the restore use this.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass

from headway_agent.checkpoints import completeness, rounds
from headway_agent.checkpoints.completeness import Inspector, Knowledge, Snapshot
from headway_agent.checkpoints.roots import PREFIX, WORKDIR
from headway_agent.checkpoints.step_names import shard_of, step_in
from headway_agent.decide.facts_and_acts import Stepped
from headway_agent.files import sdk_lines, staged_files, workdir_notes
from headway_agent.files.file_events import STAGED
from headway_agent.files.parts import Known
from headway_agent.files.upload_journal import SentParts
from headway_agent.files.watch import ASKED, NOTICE, first_output
from headway_agent.node.directory import write_whole
from headway_wire.kinds import Wrong, replace
from headway_wire.storage_marks import is_here
from headway_wire.sync import StoredCheckpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping, Sequence

    from headway_agent.checkpoints.completeness import Signature, Tree
    from headway_agent.checkpoints.rounds import Closed
    from headway_agent.checkpoints.step_names import NamedStep
    from headway_agent.files.restore import Restored
    from headway_agent.files.workdir import Workdir
    from headway_wire.claim import Resume

KEPT = "kept.json"
ARTIFACTS_EVERY_S = 30.0
ARTIFACT_QUIET_S = 5.0
PRINTED_BYTES_MAX = 1 << 20  # How much of an output is looked through for a step at a time: its end.


@dataclass
class LeftFiles:
    """How far the files have come that a task left when it was over: the last checkpoint, and its outputs."""

    checkpoint_bytes: int = 0
    output_bytes: int = 0
    stored_bytes: int = 0
    said_s: float = 0.0

    def next_try(self, stored: int, checkpoint: int | None = None, outputs: int | None = None) -> None:
        """Begin anew with what is in storage already, and so much in all."""
        self.checkpoint_bytes = self.checkpoint_bytes if checkpoint is None else checkpoint
        self.output_bytes = self.output_bytes if outputs is None else outputs
        self.stored_bytes = stored

    @property
    def total(self) -> int:
        return self.checkpoint_bytes + self.output_bytes


class TaskFiles:
    def __init__(self, key: str, directory: str, epoch: int) -> None:
        job, attempt, index = key.split("/")
        self.key, self.directory = key, directory
        self.job, self.attempt, self.index = job, int(attempt), int(index)
        self.epoch = epoch
        self.serial = 0
        asked = _read(os.path.join(directory, ASKED))
        keeping = asked.get("checkpoint") or {}
        settle_s = float(keeping.get("settle_s") or completeness.SETTLE_S)
        self.knowledge = Knowledge(settle_s=settle_s, marker=str(keeping.get("marker") or ""))
        self.known = Known()
        self.storage = ""  # The mark of the place in which those parts lie; see decide/storage_moved.py.
        self.sent = SentParts(directory)
        self.again = False  # What was kept last is to be kept again: storage is elsewhere.
        self.report: StoredCheckpoint | None = None
        self.saved_s: float | None = None  # When what it tells of was written.
        self.foreign: dict[str, Signature] = {}  # What was restored from other tasks of the gang, as it came.
        self.writes = False  # It has begun to write something that is kept.
        self._take_kept(_read(os.path.join(directory, KEPT)))
        self.outputs: list[str] = list(asked.get("outputs") or ())
        self.cwd = str(asked.get("cwd") or "")
        self.workdir: Workdir | None = None
        self.artifacts_every_s = float(asked.get("artifacts_every_s") or ARTIFACTS_EVERY_S)
        self.artifacts: dict[str, Signature] = {}  # What was stored of each, by path.
        self.read_to: dict[str, int] = {}  # How far the SDK's files were read.
        self.polled = False
        self.unheard = True  # Files may have been closed without our hearing of it.
        self.end = ""  # How its ranks ended, once they have.
        self.first_failure_at = 0.0  # And when the first of them failed, where it is known.
        self.noticed = False
        self.look_at_s: float | None = 0.0
        self.sdk_at_s: float | None = None
        self.artifacts_at_s: float | None = 0.0
        self.backoff_s = 0.0
        self.left = LeftFiles()
        self.step_said: Stepped | None = None
        self.step_said_s = 0.0
        self.inspector = _FileInspector(self)
        self.copies: set[str] = set()  # What was put by for us.
        self.rewrites = False  # It writes to files that it has closed before.
        self._printed: Any = None
        self._printed_to = 0
        self.forget_copies(left_over=True)

    @property
    def checkpoints(self) -> str:
        return f"{self.directory}/checkpoints"

    def file_of(self, path: str) -> str:
        if self.workdir is not None and path.startswith(PREFIX):
            return self.workdir.source(path)
        return f"{self.directory}/checkpoints/{path}"

    def open_workdir(self) -> None:
        """Take up the working directory too, once it is noted where that is."""
        note = workdir_notes.read(self.directory) if self.workdir is None else None
        if note is not None:
            from headway_agent.files.workdir import Workdir  # Here: many tasks are over before it is of any use.

            self.workdir = Workdir(self.key, self.directory, note)
            if not self.end:
                self.workdir.enter()

    def has_in_workdir(self, path: str) -> bool:
        """Whether this file of the working directory, of which something was heard, is kept."""
        return self.workdir is not None and not self.workdir.off and self.workdir.heard(path)

    @property
    def urgency(self) -> tuple[bool, bool]:
        """Lower goes first: what is over, then what has notice."""
        return (not self.end, not self.noticed)

    def due_s(self) -> float | None:
        times = [at for at in (self.look_at_s, self.sdk_at_s, self.artifacts_at_s) if at is not None]
        return min(times) if times else None

    def look_by(self, at_s: float | None) -> None:
        if at_s is not None and (self.look_at_s is None or at_s < self.look_at_s):
            self.look_at_s = at_s

    def still_s(self, tree: Tree) -> dict[str, float]:
        """How long each file had not been changed when the first rank failed; nothing where that time is unknown.

        By the kernel's own time of the last change, which no copying program sets back.
        """
        still: dict[str, float] = {}
        for path in tree if self.first_failure_at else ():
            try:
                seen = os.lstat(self.file_of(path))
            except OSError:
                continue  # Without a time it counts as fresh.
            still[path] = self.first_failure_at - max(seen.st_ctime, seen.st_mtime)
        return still

    def inside(self, path: str, source: str) -> NamedStep | None:
        """The step that a file says inside; asked only of fresh names that say none."""
        if path in self.knowledge.kept or step_in(path) is not None:
            return None
        from headway_agent.formats import saved_steps  # Here: most names are written over, or say their step.

        return saved_steps.step_of(source or self.file_of(path))

    # --- what is its own ---

    def own(self, tree: Tree) -> Tree:
        """Without what came from other tasks: that is theirs to keep, as long as this one does not change it."""
        if not self.foreign:
            return tree
        return {path: signature for path, signature in tree.items() if self.foreign.get(path) != signature}

    def covers(self, paths: Iterable[str]) -> list[int]:
        """Which other tasks save in the same directory: all that there is of them is among these files.

        Where names tell of shares, there must be one for each task at least: else some are not written yet.
        """
        paths = list(paths)
        if self.workdir is None or not all(path.startswith(PREFIX) for path in paths):
            return []
        shares = {shard_of(path) for path in paths} - {None}
        return self.workdir.covers if not shares or len(shares) > len(self.workdir.covers) else []

    def is_late(self, paths: Iterable[str]) -> bool:
        """Whether one of these was written when the ranks had been told to end, or one of them had failed."""
        noticed_at = float(_read(os.path.join(self.directory, NOTICE)).get("at") or 0.0)
        since = min([at for at in (noticed_at, self.first_failure_at) if at], default=None)
        if since is None:
            return False
        try:
            return any(os.lstat(self.file_of(path)).st_ctime > since for path in paths)
        except OSError:
            return True

    def has_begun(self, place: str, path: str) -> bool:
        """Whether what was heard there is of a file that is kept. May be asked by any thread."""
        workdir = self.workdir
        return place == "checkpoints" or (workdir is not None and place == WORKDIR and workdir.keeps(path))

    def begins_to_write(self, paths: Iterable[str]) -> bool:
        """Whether one of these, of which something was heard, is the first that it writes. Logs do not count."""
        if self.writes or not any(self._is_written(path) for path in paths):
            return False
        self.writes = True
        return True

    def _is_written(self, path: str) -> bool:
        file = self.file_of(path)
        if completeness.BESIDE.search(path) or os.path.isdir(file):
            return False  # All ranks make the folder in which one of them saves.
        try:
            return path not in self.foreign or self.foreign[path] != staged_files.signature_at(file)
        except OSError:
            return path not in self.foreign  # Already gone: a draft that was renamed, or what others had.

    # --- what it prints ---

    def read_printed(self, until: int | None = None) -> None:
        """Look for the job's step in what its first rank has printed since the last time, up to a position."""
        try:
            path = first_output(self.directory)
            end = os.stat(path).st_size if until is None else until
            begin = max(self._printed_to, end - PRINTED_BYTES_MAX)
            if end <= begin:
                return
            with open(path, "rb") as file:
                file.seek(begin)
                data = file.read(end - begin)
        except OSError:
            return
        if self._printed is None:
            from headway_agent.output.printed_steps import PrintedSteps  # Here: an idle node need not carry it.

            self._printed = PrintedSteps()
        self._printed_to = begin + len(data)
        self._printed.feed(data)
        self.knowledge.steps.printed = dict(self._printed.latest)

    def step_news(self) -> Stepped | None:
        """How far the job is, where it was not said yet."""
        self.read_printed()
        sdk_lines.read_reached(self)
        steps = self.knowledge.steps
        news = None if steps.seen is None else Stepped(self.key, steps.seen, steps.printed_as, steps.tells)
        if news == self.step_said:
            return None
        self.step_said = news
        return news

    def told_by(self, printed_bytes: int) -> dict[str, int]:
        """How far the job had told it was, by unit, when it had printed so much."""
        sdk_lines.read_metrics(self)
        self.read_printed(printed_bytes)
        return dict(self.knowledge.steps.told())

    # --- copies ---

    def is_as_it_was(self, path: str, closed: Closed) -> bool:
        """Whether a file, or what was put by of it, is still what was closed."""
        try:
            if closed.source:
                return staged_files.signature_at(closed.source) == closed.source_signature
            return staged_files.signature_at(self.file_of(path)) == closed.signature
        except OSError:
            return False

    def forget_copies(self, left_over: bool = False) -> None:
        """Remove the copies that are of no use any more; `left_over`: all that an agent before us made."""
        if left_over:
            staged = f"{self.directory}/{STAGED}"
            names = os.listdir(staged) if os.path.isdir(staged) else ()
            self.copies = {f"{staged}/{name}" for name in names if not name.startswith(f"{os.getpid()}-")}
        unneeded = self.copies - completeness.sources_needed(self.knowledge)
        for copy in unneeded:
            staged_files.drop(copy)
        self.copies -= unneeded

    # --- keys ---

    def next_names(self, step: int) -> tuple[str, str]:
        """Where the next snapshot's parts and manifest go: never where an earlier agent's are."""
        self.serial += 1
        place, mark = f"jobs/{self.job}/{self.attempt}", f"{self.index}-{self.epoch}.{self.serial}"
        return f"{place}/parts/{mark}.", f"{place}/checkpoints/{step}-{mark}.json"

    def manifest(self, snapshot: Snapshot, entries: list[dict[str, Any]], at: float) -> dict[str, Any]:
        head = {"version": 1, "job": self.job, "attempt": self.attempt, "task": self.index}
        usual, bar = dict(self.knowledge.rounds.usual), self.knowledge.steps.bar
        more = {"workdir": self.workdir.origin} if self.workdir is not None else {}
        return dict(
            head,
            step=snapshot.step,
            how=snapshot.how,
            at=at,
            unit=snapshot.unit,
            usual=usual,
            bar=bar,
            **more,
            files=entries,
        )

    def report_of(self, snapshot: Snapshot, key: str, files: int, size: int, at: float, mark: str) -> StoredCheckpoint:
        """What the server is told of a snapshot that is in storage."""
        elsewhere = self.workdir is not None and any(path.startswith(PREFIX) for path in snapshot.files)
        return StoredCheckpoint(
            self.key,
            snapshot.step,
            key,
            snapshot.how,
            size,
            files,
            at,
            metrics=dict(snapshot.metrics),
            unit=snapshot.unit,
            sharded=any(shard_of(path) is not None for path in snapshot.files),
            beside=all(completeness.BESIDE.search(path) for path in snapshot.files),
            covers=tuple(self.covers(snapshot.files)),
            late=self.is_late(snapshot.new),
            found=self.workdir.said if self.workdir is not None and elsewhere else "",
            storage=mark,
        )

    # --- memory on disk ---

    def known_in(self, mark: str) -> Known:
        """The parts that lie in this storage place."""
        if not is_here(self.storage, mark):
            self.known, self.storage = Known(), mark
        self.known.places.update(self.sent.parts_in(mark))
        self.known.on_stored = lambda parts: self.sent.stored(mark, parts)
        return self.known

    def kept_last(self, tree: Tree) -> Snapshot | None:
        """What was kept last, if all of it is still there as it was."""
        files = {path: each[0] for path, each in self.knowledge.kept.items()}
        if self.report is None or any(tree.get(path) != signature for path, signature in files.items()):
            return None
        return Snapshot(files, self.report.step, self.report.how, tuple(files), self.report.metrics)

    def keep(
        self, snapshot: Snapshot, entries: list[dict[str, Any]], report: StoredCheckpoint, saved_s: float | None
    ) -> None:
        """Take note of what is in storage now."""
        self.storage, self.again = report.storage, False
        self.sent.forget_parts()
        completeness.kept(self.knowledge, snapshot)
        files = {entry["path"]: (snapshot.files[entry["path"]], entry["parts"]) for entry in entries}
        self.known.take(files)
        self.report, self.saved_s = report, saved_s
        noted = dict(report.show(), **({} if saved_s is None else {"saved_s": saved_s}))
        try:
            write_kept(
                self.directory, snapshot.step, snapshot.how, files, noted, report.storage,
                habits=sorted(self.knowledge.habits), unit=self.knowledge.steps.unit,
                usual=self.knowledge.rounds.usual, bar=self.knowledge.steps.bar, foreign=self.foreign,
            )  # fmt: skip
        except OSError:
            pass  # A full disk of the node: it is in storage all the same; only an agent after us would not know it.

    def _take_kept(self, kept: Mapping[str, Any]) -> None:
        if not kept:
            return
        files = {path: (_signature(each[0]), each[1]) for path, each in kept["files"].items()}
        self.known.take(files)
        tree = {path: each[0] for path, each in files.items()}
        completeness.restored(self.knowledge, tree, int(kept["step"]), kept["how"])
        self._take_report(kept["report"])
        self.foreign = {str(path): _signature(each) for path, each in (kept.get("foreign") or {}).items()}
        self.knowledge.habits = set(kept.get("habits") or ())
        self.knowledge.rounds.usual = Counter({str(shape): int(n) for shape, n in (kept.get("usual") or {}).items()})
        rounds.starts_after(self.knowledge.rounds, dict.fromkeys(tree))
        self.knowledge.steps.unit, self.knowledge.steps.bar = str(kept.get("unit") or ""), str(kept.get("bar") or "")
        if self.report is not None:
            self.knowledge.steps.own = int(kept["step"])
        self.storage = str(kept.get("storage", ""))
        if self.report is not None:
            self.report = replace(self.report, storage=self.storage)

    def _take_report(self, noted: Any) -> None:
        if isinstance(noted, dict):
            try:
                self.report = StoredCheckpoint.read(dict(noted, task=self.key))
                self.saved_s = noted.get("saved_s")
            except Wrong:
                pass  # Of another version: it was told by whoever wrote it, or is stored once more.


def write_kept(
    directory: str,
    step: int,
    how: str,
    files: Mapping[str, tuple[Signature, Any]],
    report: Mapping[str, Any] | None,
    mark: str,
    habits: Sequence[str] = (),
    unit: str = "",
    usual: Mapping[str, int] | None = None,
    bar: str = "",
    foreign: Mapping[str, Signature] | None = None,
) -> None:
    kept = {"step": step, "how": how, "files": files, "report": report, "storage": mark, "habits": list(habits)}
    more = {"foreign": dict(foreign)} if foreign else {}
    write_whole(os.path.join(directory, KEPT), dict(kept, unit=unit, usual=dict(usual or {}), bar=bar, **more))


def write_restored(directory: str, resume: Resume, restored: Restored, tree: Tree, mark: str) -> None:
    """Note what a task begins with. What others have saved tells nothing of how this one saves."""
    manifest = restored.manifest
    own = resume.own
    parts = {file["path"]: file["parts"] for file in manifest["files"] if own and file["path"] not in restored.theirs}
    files = {path: (signature, parts[path]) for path, signature in tree.items() if path in parts}
    foreign = {path: signature for path, signature in tree.items() if path not in parts}
    usual = manifest.get("usual") if own and isinstance(manifest.get("usual"), dict) else {}
    how = manifest["how"] if own else completeness.SETTLED
    unit, bar = str(manifest.get("unit") or ""), str(manifest.get("bar") or "")
    write_kept(directory, resume.step, how, files, None, mark, unit=unit, usual=usual, bar=bar, foreign=foreign)


class _FileInspector(Inspector):
    """Looks into the files of a task; where one was put by, into its copy."""

    def __init__(self, charge: TaskFiles) -> None:
        self._charge = charge

    def format(self, path: str) -> str:
        from headway_agent.formats import file_formats  # Here: most files are known to be whole without a look.

        return file_formats.check(self._charge.file_of(path)).verdict

    def folder(self, path: str, files: Mapping[str, int]) -> str:
        from headway_agent.formats import file_formats

        read = lambda name: _content(self._charge.file_of(f"{path}/{name}"))  # noqa: E731
        found = file_formats.check_directory(files, read)
        missing = found.verdict == file_formats.WHOLE and found.detail  # Shards, which other nodes may have: or not.
        return file_formats.UNKNOWN if missing else found.verdict

    def step(self, path: str) -> NamedStep | None:
        from headway_agent.formats import saved_steps

        closed: Closed | None = self._charge.knowledge.due.get(path)
        return saved_steps.step_of(closed.source if closed and closed.source else self._charge.file_of(path))


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _signature(raw: Any) -> Signature:
    return (int(raw[0]), int(raw[1]), int(raw[2]))


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path) as file:
            content = json.load(file)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
