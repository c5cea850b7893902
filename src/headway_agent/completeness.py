"""Which files of a checkpoint directory are finished, how that is known, and which step they are.

Pure: what was seen (events, declarations, looks at the directory) comes in with the time; checkpointing.py does the
looking. A file is known to be finished under its signature (size, mtime, inode): once that changes, nothing is known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping

    Signature = tuple[int, int, int]  # size, mtime in ns, inode
    Tree = Mapping[str, Signature]  # Regular files and links, by path relative to the directory.

DECLARED, RENAMED, MARKER, SETTLED = "declared", "renamed", "marker", "settled"
STRENGTH = {DECLARED: 0, RENAMED: 1, MARKER: 2, SETTLED: 3}
SETTLE_S = 10.0
NESTED_QUIET_S = 1.0  # A directory whose new files all came by rename is finished when nothing moves for so long.
FAILED_QUIET_S = 2.0  # What a rank wrote so shortly before it failed may be the very write that failed.
RESTLESS_S, RESTLESS_TIMES = 60.0, 10  # Newer than declared for so long, or so many times: it always will be.
HALF_WRITTEN = re.compile(r"(^\.)|(^tmp)|(~$)|(\.(tmp|temp|part|partial|incomplete|new|lock)$)", re.IGNORECASE)
NUMBER = re.compile(r"\d{1,15}")

ALIVE, ENDED_WELL, ENDED_ON_NOTICE, FAILED, KILLED = "alive", "well", "notice", "failed", "killed"


@dataclass
class Knowledge:
    """What is known about one directory. `kept` is what the last snapshot held."""

    settle_s: float = SETTLE_S
    marker: str = ""
    finished: dict[str, tuple[Signature, str]] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)  # Paths said to be finished since the last look: how.
    renamed_inside: set[str] = field(default_factory=set)  # Files that came by rename into a subdirectory.
    quiet: dict[str, tuple[tuple[Any, ...], float]] = field(default_factory=dict)  # By entry: what it was, since when.
    before: dict[str, Signature] = field(default_factory=dict)
    kept: dict[str, tuple[Signature, str]] = field(default_factory=dict)
    declared_steps: dict[str, int] = field(default_factory=dict)
    declared_ns: dict[str, int] = field(default_factory=dict)  # When the newest file of each was written.
    declared_files: dict[str, Signature] = field(default_factory=dict)  # As they were when last found as declared.
    restless: dict[str, tuple[float, int]] = field(default_factory=dict)  # Newer than declared: since when, how often.
    declares: bool = False  # The job tells of its checkpoints: of what is not told, the step would only be guessed.
    metrics: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    last_step: int = 0
    seen_step: int | None = None  # In metrics.
    looked_s: float = 0.0
    changed_s: float = 0.0  # When a look last found something changed.
    failed_s: float | None = None  # When a rank failed while others went on: what it was writing will not settle.
    habits: set[str] = field(default_factory=set)  # Entries of such names (`step-#.pt`) come by rename in this job.


@dataclass(frozen=True)
class Snapshot:
    """What to keep now: all finished files, the step that they are, and how it is known."""

    files: Mapping[str, Signature]
    step: int
    how: str
    new: tuple[str, ...]
    metrics: Mapping[str, Any] = field(default_factory=dict)


# --- what is told ---------------------------------------------------------------------------------------------------


def renamed(known: Knowledge, path: str) -> None:
    """An entry appeared under this name by a rename. Inside a subdirectory that is true of the one file only."""
    if "/" in path:
        known.renamed_inside.add(path)
    else:
        known.told[path] = RENAMED


def touched(known: Knowledge, path: str) -> None:
    """A file was written to in place: whatever was known about it is over.

    Except what a look has found as it was declared: news of a write travels more slowly than a declaration, and what is
    written after that look gives the file another signature, by which the next one knows.
    """
    if known.finished.get(path, ((0, 0, 0), ""))[1] != DECLARED:
        known.finished.pop(path, None)
    known.told.pop(path, None)
    known.renamed_inside.discard(path)
    known.habits.discard(_habit(path))


def declared(
    known: Knowledge, path: str, step: int | None, metrics: Mapping[str, Any], newest_ns: int | None = None
) -> None:
    """The SDK said that this file, directory or (".") everything is finished, as this step.

    It said so of files written until `newest_ns`: perhaps one is being written anew by the time that we hear of it.
    """
    known.told[path] = DECLARED
    if newest_ns:
        known.declared_ns[path] = newest_ns
    known.declares = True
    if step is not None:
        known.declared_steps[path] = step
        if metrics:
            known.metrics[step] = metrics


def restored(known: Knowledge, tree: Tree, step: int, how: str) -> None:
    """The directory was filled from a checkpoint: nothing in it is new."""
    known.kept = {path: (signature, how) for path, signature in tree.items()}
    known.finished = dict(known.kept)
    known.before = dict(tree)
    known.last_step = step
    known.declared_files = dict(tree) if how == DECLARED else {}
    known.declares = how == DECLARED  # So it will again: one file of the next checkpoint alone is none.


# --- a look ---------------------------------------------------------------------------------------------------------


def look(
    known: Knowledge, tree: Tree, now: float, end: str = ALIVE, still_s: Mapping[str, float] | None = None
) -> Snapshot | None:
    """Take in how the directory is now. A snapshot is due when something in it is newly finished.

    `still_s`, once the ranks have ended: how long each file had not been changed when the first of them failed.
    """
    known.looked_s = now
    _notice_moves(known, tree)
    written_anew: set[str] = set()
    known.declared_files = {file: each for file, each in known.declared_files.items() if file in tree}
    for path, how in known.told.items():
        if how == RENAMED and known.declares:
            continue  # Its declaration is on the way; without one, it settles.
        until_ns = known.declared_ns.get(path, 0) if how == DECLARED else 0
        if until_ns and _written_anew(known, tree, path, until_ns, now):
            written_anew.add(path)
            continue
        for file in _under(tree, path):
            if until_ns and tree[file][1] > until_ns:
                continue
            known.finished[file] = (tree[file], how)
            if how == DECLARED:
                known.declared_files[file] = tree[file]
            if how == RENAMED:
                known.habits.add(_habit(path))
    declared_now = [path for path, how in known.told.items() if how == DECLARED and path not in written_anew]
    known.told, known.declared_ns = {}, {}
    if known.marker:
        _find_markers(known, tree)
    known.finished = {path: each for path, each in known.finished.items() if tree.get(path) == each[0]}
    if dict(tree) != known.before:
        known.changed_s = now
        known.before = dict(tree)
    if end != ALIVE:
        _recognise(known, tree)
        _settle_by_times(known, tree, still_s or {})
    if end in (KILLED, ALIVE):
        _settle(known, tree, now)
    else:
        _close(known, tree, now, end, still_s or {})
    known.renamed_inside &= set(tree)
    return _due(known, declared_now)


def next_look_s(known: Knowledge) -> float | None:
    """When time alone may finish something; None when nothing is half-way.

    A moment that has passed is not named again: what it did not finish (a name that looks half-written) waits for more.
    """
    times = []
    for entry, (files, since_s) in known.quiet.items():
        nested = all(f"{entry}/{file[0]}" in known.renamed_inside for file in files) and "" not in files
        if nested:
            times.append(since_s + min(NESTED_QUIET_S, known.settle_s))
        if not known.marker:
            times.append(since_s + known.settle_s)
    return min((at for at in times if at > known.looked_s), default=None)


def _written_anew(known: Knowledge, tree: Tree, path: str, until_ns: int, now: float) -> bool:
    """Whether the job has begun to overwrite what it declared: the rest of that step is no checkpoint.

    A file that merely grows (a log) does not count, nor one that is newer whenever we look (the state of the moment).
    """
    found = False
    for file in _under(tree, path):
        size, changed_ns, inode = tree[file]
        was = known.declared_files.get(file)
        emptied = was is not None and size == 0 < was[0]  # Perhaps in the same tick of the kernel's clock.
        if was is None or (changed_ns <= until_ns and not emptied) or (inode == was[2] and size > was[0]):
            known.restless.pop(file, None)
            continue
        since_s, times = known.restless.get(file, (now, 0))
        known.restless[file] = (since_s, times + 1)
        found = found or (times < RESTLESS_TIMES and now - since_s < RESTLESS_S)
    return found


def _notice_moves(known: Knowledge, tree: Tree) -> None:
    """A file that has another name than at the last look, and is otherwise the same, was renamed."""
    if not known.before:
        return
    gone = {signature: path for path, signature in known.before.items() if path not in tree}
    for path, signature in tree.items() if gone else ():
        if path not in known.before and signature in gone and not HALF_WRITTEN.search(_name(path)):
            old = gone[signature].split("/")
            new = path.split("/")
            while len(old) > 1 and len(new) > 1 and old[-1] == new[-1]:  # The directory above was renamed.
                old, new = old[:-1], new[:-1]
            if not _covered(known.told, "/".join(new)):
                renamed(known, "/".join(new))


def _covered(told: Mapping[str, str], path: str) -> bool:
    return path in told or "." in told or path.split("/")[0] in told


def _under(tree: Tree, path: str) -> Iterable[str]:
    if path in tree:
        return [path]
    if path == ".":
        return [file for file in tree if not HALF_WRITTEN.search(_name(file))]
    inside = path + "/"
    return [file for file in tree if file.startswith(inside)]


def _find_markers(known: Knowledge, tree: Tree) -> None:
    """The marker stands inside a directory, beside a file (`model.pt.DONE`), or at the top, for all that is older."""
    for path in list(tree):
        if _name(path) != known.marker and not path.endswith("." + known.marker):
            continue
        marked_ns = tree[path][1]
        above = path.rpartition("/")[0]
        if path.endswith("." + known.marker):
            files: Iterable[str] = [path[: -len(known.marker) - 1], path]
        else:
            files = _under(tree, above or ".")
        for file in files:
            strong = known.finished.get(file, ((0, 0, 0), ""))
            if file in tree and tree[file][1] <= marked_ns and strong[1] not in (DECLARED, RENAMED):
                known.finished[file] = (tree[file], MARKER)


def _recognise(known: Knowledge, tree: Tree) -> None:
    """What is named like all that came by rename came so too, though nobody watched: the agent was dead just then."""
    for path, signature in tree.items():
        if path not in known.finished and _habit(path) in known.habits and not known.declares:
            known.finished[path] = (signature, RENAMED)


def _settle(known: Knowledge, tree: Tree, now: float) -> None:
    """Entries in which nothing has changed for long enough. A directory settles as a whole."""
    entries: dict[str, list[tuple[str, Signature]]] = {}
    for path, signature in tree.items():
        if path not in known.finished:
            entry, _, rest = path.partition("/")
            entries.setdefault(entry, []).append((rest, signature))
    quiet: dict[str, tuple[tuple[Any, ...], float]] = {}
    for entry, files in entries.items():
        now_is = tuple(sorted(files))
        was, since_s = known.quiet.get(entry, ((), now))
        quiet[entry] = (now_is, since_s if was == now_is else now)
        for_s = now - quiet[entry][1]
        settled_s = (now if known.failed_s is None else min(now, known.failed_s)) - quiet[entry][1]
        nested = all(rest and f"{entry}/{rest}" in known.renamed_inside for rest, _ in files)
        if nested and for_s >= min(NESTED_QUIET_S, known.settle_s):
            how = RENAMED
        elif settled_s >= known.settle_s and not known.marker and not HALF_WRITTEN.search(entry):
            how = SETTLED
        else:
            continue
        for rest, signature in files:
            if not HALF_WRITTEN.search(_name(rest)) or not rest:
                known.finished[f"{entry}/{rest}" if rest else entry] = (signature, how)
    known.quiet = quiet


def _settle_by_times(known: Knowledge, tree: Tree, still_s: Mapping[str, float]) -> None:
    """Entries that had not changed for long enough when the first rank failed, though the agent was dead meanwhile."""
    if known.marker:
        return
    entries: dict[str, list[str]] = {}
    for path in tree:
        if path not in known.finished:
            entries.setdefault(path.partition("/")[0], []).append(path)
    for entry, files in entries.items():
        if HALF_WRITTEN.search(entry) or any(still_s.get(path, 0.0) < known.settle_s for path in files):
            continue
        for path in files:
            if not HALF_WRITTEN.search(_name(path)):
                known.finished[path] = (tree[path], SETTLED)


def _fresh(known: Knowledge, tree: Tree, now: float, still_s: Mapping[str, float]) -> bool:
    """Whether something changed so shortly before the end that it may be the very write that failed."""
    if not still_s:
        return now - known.changed_s < FAILED_QUIET_S
    return any(still_s.get(path, 0.0) < FAILED_QUIET_S for path in tree)


def _close(known: Knowledge, tree: Tree, now: float, end: str, still_s: Mapping[str, float]) -> None:
    """The ranks have exited by themselves. What they left is closed; after a failure only if it is not too fresh."""
    if known.marker or (end == FAILED and _fresh(known, tree, now, still_s)):
        _settle(known, tree, now)
        return
    for path, signature in tree.items():
        half = any(HALF_WRITTEN.search(part) for part in path.split("/"))
        if path not in known.finished and not half:
            known.finished[path] = (signature, SETTLED)


def _due(known: Knowledge, declared_now: Iterable[str]) -> Snapshot | None:
    new = [path for path, each in known.finished.items() if known.kept.get(path, ((), ""))[0] != each[0]]
    for path in declared_now:
        # Kept already, but what it is was only guessed: say it again as it was declared.
        files = [file for file in _under(known.before, path) if file in known.finished]
        new += [file for file in files if file not in new and known.kept[file][1] != DECLARED]
    if not new:
        return None
    how = min((known.finished[path][1] for path in new), key=STRENGTH.__getitem__)
    leading = [path for path in new if known.finished[path][1] == how]
    step = _step(known, leading)
    files_now = {path: each[0] for path, each in known.finished.items()}
    return Snapshot(files_now, step, how, tuple(new), known.metrics.get(step, {}))


def kept(known: Knowledge, snapshot: Snapshot) -> None:
    """The snapshot is in storage: from here on only what differs from it is new."""
    known.kept = {
        path: (signature, known.finished.get(path, ((), snapshot.how))[1]) for path, signature in snapshot.files.items()
    }
    known.last_step = max(known.last_step, snapshot.step)
    known.declared_steps = {path: step for path, step in known.declared_steps.items() if step > snapshot.step}
    known.metrics = {step: said for step, said in known.metrics.items() if step > snapshot.step}


def _step(known: Knowledge, new: Iterable[str]) -> int:
    """Declared; else the largest number in a name; else the step seen in metrics; else one more than the last."""
    new = list(new)
    said = [step for path, step in known.declared_steps.items() if any(_is_under(file, path) for file in new)]
    if said:
        return max(said)
    # A name that was there before (resnet50.pt, written anew each time) has a number, but it is not the step's.
    numbered = {path: _numbers(path) for path in new if path not in known.kept}
    numbers = [number for found in numbered.values() for number in found]
    if numbers:
        return known.last_step if _left_over(known, numbered, max(numbers)) else max(numbers)
    if known.seen_step is not None:
        return known.seen_step
    if any(_numbers(path) for path in known.finished) and all(path not in known.kept for path in new):
        return known.last_step  # Something beside the numbered files: the same step, more of it.
    return known.last_step + 1


def _left_over(known: Knowledge, numbered: Mapping[str, list[int]], largest: int) -> bool:
    """Whether these are older than what was kept, and only known later to be finished: the newest step, more of it."""
    newest_ns = max((each[0][1] for path, each in known.kept.items() if _numbers(path)), default=0)
    return largest < known.last_step and all(known.finished[path][0][1] <= newest_ns for path in numbered)


def _habit(path: str) -> str:
    """The name of the entry at the top, whatever its numbers are."""
    return NUMBER.sub("#", path.partition("/")[0])


def _numbers(path: str) -> list[int]:
    """The numbers in an entry's name; where it has none, in those of the files inside."""
    for part in path.split("/"):
        found = [int(number) for number in NUMBER.findall(part)]
        if found:
            return found
    return []


def _is_under(file: str, path: str) -> bool:
    return path == "." or file == path or file.startswith(path + "/")


def _name(path: str) -> str:
    return path.rpartition("/")[2]
