"""Which files of a checkpoint directory are finished, and how that is known.

Pure: what was seen (events, declarations, looks at the directory) comes in with the time; files/uploader.py does the
looking. A file is known to be finished under its signature (size, mtime, inode): once that changes, nothing is known,
unless its bytes were put by. What is saved together is rounds.py's to know, which step it is own_steps.py's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from headway_agent.checkpoints import own_steps, rounds, saved_directories, stillness
from headway_agent.checkpoints.own_steps import Steps
from headway_agent.checkpoints.roots import entry_of, inner
from headway_agent.checkpoints.rounds import Closed, Rounds
from headway_agent.checkpoints.step_names import half_written, shape_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Mapping

    from headway_agent.checkpoints.step_names import NamedStep

    Signature = tuple[int, int, int]  # size, mtime in ns, inode
    Tree = Mapping[str, Signature]  # Regular files and links, by path relative to the directory.

DECLARED, RENAMED, MARKER, CLOSED, SETTLED = "declared", "renamed", "marker", "closed", "settled"
STRENGTH = {DECLARED: 0, RENAMED: 1, MARKER: 2, CLOSED: 3, SETTLED: 4}
SETTLE_S = 10.0
NESTED_QUIET_S = 1.0  # A directory whose new files all came by rename is finished when nothing moves for so long.
HELD_OPEN_S = 2.0
RESTLESS_S, RESTLESS_TIMES = 60.0, 10  # Newer than declared for so long, or so many times: it always will be.
BESIDE = re.compile(r"\.(log|csv|tsv|jsonl|txt|out|err|md|html|png|svg)$|tfevents", re.IGNORECASE)
NUMBER = re.compile(r"\d{1,15}")
WRITTEN_LAST = ("trainer_state.json", ".metadata", "_CHECKPOINT_METADATA", "commit_success.txt")
WHOLE, CUT, UNKNOWN = "whole", "cut", "unknown"  # What a file's own format says of it.

ALIVE, ENDED_WELL, ENDED_ON_NOTICE, FAILED, KILLED = "alive", "well", "notice", "failed", "killed"
ABRUPT = "abrupt"  # Killed, and none had failed by itself before that.


class Inspector:
    """What a look into a file tells. This one never looks; files/task_files.py has the one that does."""

    def format(self, path: str) -> str:
        return UNKNOWN

    def step(self, path: str) -> NamedStep | None:
        return None

    def folder(self, path: str, files: Mapping[str, int]) -> str:
        """What the framework that wrote it would say of a folder with one checkpoint."""
        return UNKNOWN


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
    declared_ns: dict[str, int] = field(default_factory=dict)  # When the newest file of each was written.
    declared_files: dict[str, Signature] = field(default_factory=dict)  # As they were when last found as declared.
    restless: dict[str, tuple[float, int]] = field(default_factory=dict)  # Newer than declared: since when, how often.
    declares: bool = False  # The job tells of its checkpoints: of what is not told, the step would only be guessed.
    metrics: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    steps: Steps = field(default_factory=Steps)
    rounds: Rounds = field(default_factory=Rounds)
    told_at: dict[str, Mapping[str, int]] = field(default_factory=dict)  # How far the job was, as each came to be.
    due: dict[str, Closed] = field(default_factory=dict)  # The round that is to be kept now, until it is.
    apart: dict[str, int] = field(default_factory=dict)  # By how much the steps inside the last round's files differed.
    overtaken: bool = False  # A round was overwritten before it could be read: its files must be put by.
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
    unit: str = own_steps.STEP
    sources: Mapping[str, Closed] = field(default_factory=dict)  # Of these the bytes were put by.
    before: frozenset[str] = frozenset()  # These are being written anew: as they were kept last.

    @property
    def written_ns(self) -> int:
        """When the newest of its files that are new was written; of what is kept once more, of all."""
        new = [self.files[path] for path in self.new if path in self.files]
        return max((changed_ns for _, changed_ns, _ in new or self.files.values()), default=0)


# --- what is told ---------------------------------------------------------------------------------------------------


def renamed(known: Knowledge, path: str) -> None:
    """An entry appeared under this name by a rename. Inside a subdirectory that is true of the one file only."""
    if "/" in inner(path):
        known.renamed_inside.add(path)
    else:
        known.told[path] = RENAMED


def told_at(known: Knowledge, path: str, told: Mapping[str, int]) -> None:
    """How far the job had told it was when this entry was saved."""
    if is_half_written(path):
        return
    known.told_at[path] = told
    for held in (known.rounds.now, known.rounds.full, known.due):
        if path in held:
            held[path] = replace(held[path], seen=told)


def closed(known: Knowledge, path: str, what: Closed) -> None:
    """A file was closed after writing, nobody has it open for writing, and its own format does not say it is cut."""
    if counts(known, path):
        rounds.closed(known.rounds, path, what, what.at_s)


def closed_in_vain(known: Knowledge, path: str, now: float) -> None:
    """A file was closed, and is cut, or is written to again already: what was saved with it is not a checkpoint."""
    if counts(known, path):
        rounds.closed(known.rounds, path, Closed((0, 0, 0), now, CLOSED, lost=True), now)


def is_known(known: Knowledge, path: str, signature: Signature) -> bool:
    """Whether anything was heard of this file as it is now, or it does not count."""
    heard = known.rounds.now.get(path)
    finished = known.finished.get(path, ((), ""))[0]
    if finished == signature or (heard is not None and heard.signature == signature):
        return True
    return _covered(known.told, path) or not counts(known, path)


def counts(known: Knowledge, path: str) -> bool:
    """Whether a file makes a checkpoint. A log or a table of figures does only where the job writes nothing else."""
    if is_half_written(path):
        return False
    if not BESIDE.search(path):
        return True
    return all(BESIDE.search(each) for held in (known.kept, known.rounds.before, known.rounds.now) for each in held)


def held_open(known: Knowledge, tree: Tree, now: float) -> list[str]:
    """Files that were written to, and not closed, for a while: perhaps they only ever grow."""
    since = known.rounds.writing
    return [path for path in tree if path in since and now - since[path] >= HELD_OPEN_S]


def left_open(known: Knowledge, path: str, now: float) -> None:
    """Its writer is gone, and nobody heard it close the file."""
    known.rounds.writing.setdefault(path, now)


def touched(known: Knowledge, path: str, now: float = 0.0) -> None:
    """A file was written to in place: whatever was known about it is over.

    Except what a look has found as it was declared: news of a write travels more slowly than a declaration, and what is
    written after that look gives the file another signature, by which the next one knows.
    """
    if known.finished.get(path, ((0, 0, 0), ""))[1] != DECLARED:
        known.finished.pop(path, None)
    known.told.pop(path, None)
    known.told_at.pop(path, None)
    known.renamed_inside.discard(path)
    known.habits.discard(_habit(path))
    if counts(known, path):
        rounds.wrote(known.rounds, path, now)


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
        known.steps.declared[path] = step
        if metrics:
            known.metrics[step] = metrics


def restored(known: Knowledge, tree: Tree, step: int, how: str) -> None:
    """The directory was filled from a checkpoint: nothing in it is new."""
    known.kept = {path: (signature, how) for path, signature in tree.items()}
    known.finished = dict(known.kept)
    known.before = dict(tree)
    known.steps.last = step
    known.declared_files = dict(tree) if how == DECLARED else {}
    known.declares = how == DECLARED  # So it will again: one file of the next checkpoint alone is none.


# --- a look ---------------------------------------------------------------------------------------------------------


def look(
    known: Knowledge,
    tree: Tree,
    now: float,
    end: str = ALIVE,
    still_s: Mapping[str, float] | None = None,
    inspector: Inspector | None = None,
) -> Snapshot | None:
    """Take in how the directory is now. A snapshot is due when something in it is newly finished.

    `still_s`, once the ranks have ended: how long each file had not been changed when the first of them failed.
    """
    inspector = inspector or Inspector()
    known.looked_s = now
    _notice_moves(known, tree)
    declared_now = _take_told(known, tree, now)
    if known.marker:
        _find_markers(known, tree)
    known.finished = {path: each for path, each in known.finished.items() if tree.get(path) == each[0]}
    _take_round(known, tree, now, end, inspector)
    if dict(tree) != known.before:
        known.changed_s = now
        known.before = dict(tree)
    if end != ALIVE:
        _recognise(known, tree)
        _settle_by_times(known, tree, still_s or {}, inspector)
    if end in (KILLED, ALIVE):
        _settle(known, tree, now, inspector)
    else:
        _close(known, tree, now, end, still_s or {}, inspector)
    known.renamed_inside &= set(tree)
    if not known.declares and not known.marker:  # These say what belongs together.
        _fit_directories(known, tree, end, inspector)
    return _due(known, tree, declared_now, inspector, end in (ENDED_WELL, ENDED_ON_NOTICE))


def _fit_directories(known: Knowledge, tree: Tree, end: str, inspector: Inspector) -> None:
    """Take what is missing of a directory where its task is over, and was written before the rest; else let it wait."""
    new = {path for path, each in known.finished.items() if known.kept.get(path, ((), ""))[0] != each[0]}
    for above, missing in saved_directories.unfit(set(known.finished), new, tree, inspector.folder).items():
        inside = {path: each[0] for path, each in known.finished.items() if path.startswith(above + "/")}
        if end != ALIVE and saved_directories.written_before(missing, inside, tree):
            known.finished.update((path, (tree[path], CLOSED)) for path in missing if inspector.format(path) != CUT)
        else:
            for path in inside:
                del known.finished[path]


def _take_told(known: Knowledge, tree: Tree, now: float) -> list[str]:
    """Take in what was renamed and declared since the last look; returns what was declared."""
    written_anew: set[str] = set()
    known.declared_files = {file: each for file, each in known.declared_files.items() if file in tree}
    for path, how in known.told.items():
        if how == RENAMED and (known.declares or _in_a_round(known, tree, path, now)):
            continue  # Its declaration, or what else is saved with it, is on the way; without one, it settles.
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
    return declared_now


def _in_a_round(known: Knowledge, tree: Tree, path: str, now: float) -> bool:
    """Note a renamed file as a part of its round. Whether the rest of that round is still to come."""
    if path not in tree:
        return False  # A directory: whole by itself.
    seen = known.told_at.get(path)
    rounds.closed(known.rounds, path, Closed(tree[path], now, RENAMED, whole=True, seen=seen), now)
    known.habits.add(_habit(path))
    return rounds.awaits_more(known.rounds, path)


def _take_round(known: Knowledge, tree: Tree, now: float, end: str, inspector: Inspector) -> None:
    """What was saved together is finished together, or not at all."""
    for path in known.renamed_inside:
        if path in tree and tree[path] not in _signatures(known, path):
            seen = known.told_at.get(path)
            rounds.closed(known.rounds, path, Closed(tree[path], now, RENAMED, whole=True, seen=seen), now)
    rounds.forget_missing(known.rounds, tree)
    _seal(known, tree, inspector)
    known.rounds.failed_s = known.failed_s
    if end == ALIVE:
        found = {} if _strangers(known, tree) else rounds.take(known.rounds, now)
    else:
        if end in (FAILED, KILLED) and known.failed_s is None:
            known.rounds.failed_s = known.rounds.event_s  # Nobody knows when: not before what was heard last.
        found = rounds.take_at_the_end(known.rounds, end in (ENDED_WELL, ENDED_ON_NOTICE))
    if known.declares or known.marker:
        return  # These say when.
    if found and any(not each.source and tree.get(path) != each.signature for path, each in found.items()):
        known.overtaken = True
        found = {}
    before, known.due = known.due, {**known.due, **found}
    if found and not _of_one_step(known, found, inspector):
        known.due = before
    known.due = {path: each for path, each in known.due.items() if path in tree}
    if end == ENDED_WELL and all(inspector.format(path) != CUT for path in rounds.older(known.due, tree)):
        known.due = {path: each for path, each in known.due.items() if tree[path] == each.signature}
    if any(not each.source and tree[path] != each.signature for path, each in known.due.items()):
        # Written over before it was stored: it never will be, nor what was saved with it.
        known.finished = {path: each for path, each in known.finished.items() if path not in known.due}
        known.due, known.overtaken = {}, True
    for path, each in known.due.items():
        if path not in known.finished or known.finished[path][0] == each.signature:
            known.finished[path] = (each.signature, min(each.how, _how(known, path), key=STRENGTH.__getitem__))


def _signatures(known: Knowledge, path: str) -> set[Signature]:
    """As this file was whenever it was taken in."""
    heard = [held.get(path) for held in (known.rounds.now, known.rounds.full, known.rounds.before, known.due)]
    taken = [held[path][0] for held in (known.kept, known.finished) if path in held]
    return {each.signature for each in heard if each is not None} | set(taken)


def _seal(known: Knowledge, tree: Tree, inspector: Inspector) -> None:
    """Where a framework writes one file last, or lists the others in it, all of that folder may be there already."""
    for path in [path for path in known.rounds.now if _name(path).endswith(WRITTEN_LAST)]:
        folder = path.rpartition("/")[0]
        inside = {file[len(folder) + 1 :]: tree[file][0] for file in tree if file.startswith(folder + "/")}
        if folder and folder not in known.rounds.sealed and inspector.folder(folder, inside) == WHOLE:
            rounds.seal(known.rounds, folder)


def _of_one_step(known: Knowledge, found: Mapping[str, Closed], inspector: Inspector) -> bool:
    """Whether no two files that were saved together say that they are of different steps.

    Unless they always do so by one: a model that says the epoch it was saved in, and a file that says the next.
    """
    if len(found) < 2:
        return True
    said = {path: step for path in list(found)[: own_steps.CONTENTS_READ_MAX] if (step := inspector.step(path))}
    least = {unit: min(step.number for step in said.values() if step.unit == unit) for unit, _ in said.values()}
    apart = {shape_of(path): step.number - least[step.unit] for path, step in said.items()}
    before, known.apart = known.apart, apart
    return not any(apart.values()) or (apart == before and max(apart.values()) <= 1)


def _strangers(known: Knowledge, tree: Tree) -> bool:
    """Whether beside files of the round, in their directories, others were written of which nothing was heard."""
    since_ns: dict[str, int] = {}
    for path, each in known.rounds.now.items():
        above = path.rpartition("/")[0]
        if above:
            since_ns[above] = min(since_ns.get(above, each.signature[1]), each.signature[1])
    for path in tree if since_ns else ():
        begin_ns = since_ns.get(path.rpartition("/")[0])
        if begin_ns is None or tree[path][1] < begin_ns or path in known.rounds.now or path in known.finished:
            continue
        if path not in known.rounds.writing and not is_half_written(path) and not BESIDE.search(path):
            return True
    return False


def _how(known: Knowledge, path: str) -> str:
    return known.finished[path][1] if path in known.finished else SETTLED


def next_look_s(known: Knowledge) -> float | None:
    """When time alone may finish something; None when nothing is half-way.

    A moment that has passed is not named again: what it did not finish (a name that looks half-written) waits for more.
    """
    at_s = rounds.next_s(known.rounds)
    times = [] if at_s is None or known.marker or known.declares else [at_s]
    times += [since_s + HELD_OPEN_S for since_s in known.rounds.writing.values()]
    for entry, (files, since_s) in known.quiet.items():
        nested = all(f"{entry}/{file[0]}" in known.renamed_inside for file in files) and "" not in files
        if nested:
            times.append(since_s + min(NESTED_QUIET_S, known.settle_s))
        if not known.marker:
            times.append(since_s + known.settle_s)
    return min((at for at in times if at > known.looked_s), default=None)


def _written_anew(known: Knowledge, tree: Tree, path: str, until_ns: int, now: float) -> bool:
    """Whether the job has begun to overwrite what it declared: the rest of that step is not a checkpoint.

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
    for path in saved_directories.moved(known.before, tree):
        if not is_half_written(path[0]) and not _covered(known.told, path[1]):
            renamed(known, path[1])


def _covered(told: Mapping[str, str], path: str) -> bool:
    return path in told or "." in told or entry_of(path)[0] in told


def _under(tree: Tree, path: str) -> Iterable[str]:
    if path in tree:
        return [path]
    if path == ".":
        return [file for file in tree if not is_half_written(file)]
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


def _settle(known: Knowledge, tree: Tree, now: float, inspector: Inspector) -> None:
    """Entries in which nothing has changed for long enough. A directory settles as a whole."""
    entries: dict[str, list[tuple[str, Signature]]] = {}
    for path, signature in tree.items():
        if path not in known.finished:
            entry, rest = entry_of(path)
            entries.setdefault(entry, []).append((rest, signature))
    quiet: dict[str, tuple[tuple[Any, ...], float]] = {}
    still: dict[str, Signature] = {}
    for entry, files in entries.items():
        now_is = tuple(sorted(files))
        was, since_s = known.quiet.get(entry, ((), now))
        quiet[entry] = (now_is, since_s if was == now_is else now)
        for_s = now - quiet[entry][1]
        settled_s = (now if known.failed_s is None else min(now, known.failed_s)) - quiet[entry][1]
        nested = all(rest and f"{entry}/{rest}" in known.renamed_inside for rest, _ in files)
        if nested and for_s >= min(NESTED_QUIET_S, known.settle_s):
            how = RENAMED
        elif settled_s >= known.settle_s and not known.marker and not is_half_written(entry):
            how = SETTLED
        else:
            continue
        found = [(f"{entry}/{rest}" if rest else entry, signature) for rest, signature in files]
        found = [(path, signature) for path, signature in found if not is_half_written(path)]
        if how == RENAMED:
            known.finished.update((path, (signature, how)) for path, signature in found)
        elif not any(inspector.format(path) == CUT for path, _ in found):  # Nobody waits in the middle of it, or died.
            still.update(found)
    old = {path: each[0] for path, each in known.kept.items() if path not in known.finished}
    whole = stillness.without_halves(still, tree, old)
    known.finished.update((path, (signature, SETTLED)) for path, signature in whole.items())
    known.quiet = quiet


def _settle_by_times(known: Knowledge, tree: Tree, still_s: Mapping[str, float], inspector: Inspector) -> None:
    """Entries that had not changed for long enough when the first rank failed, though the agent was dead meanwhile."""
    if known.marker:
        return
    entries: dict[str, list[str]] = {}
    for path in tree:
        if path not in known.finished:
            entries.setdefault(entry_of(path)[0], []).append(path)
    for entry, files in entries.items():
        if is_half_written(entry) or any(still_s.get(path, 0.0) < known.settle_s for path in files):
            continue
        found = [path for path in files if not is_half_written(path)]
        if not any(inspector.format(path) == CUT for path in found):
            known.finished.update((path, (tree[path], SETTLED)) for path in found)


def _close(
    known: Knowledge, tree: Tree, now: float, end: str, still_s: Mapping[str, float], inspector: Inspector
) -> None:
    """The ranks have exited by themselves. What they left is closed; after a failure only if it is not too fresh."""
    if known.marker or (end == FAILED and stillness.is_fresh(tree, still_s, now - known.changed_s)):
        _settle(known, tree, now, inspector)
        return
    for path, signature in tree.items():
        if path not in known.finished and not is_half_written(path) and inspector.format(path) != CUT:
            known.finished[path] = (signature, SETTLED)


def _due(
    known: Knowledge, tree: Tree, declared_now: Iterable[str], inspector: Inspector, done: bool
) -> Snapshot | None:
    new = [path for path, each in known.finished.items() if known.kept.get(path, ((), ""))[0] != each[0]]
    for path in declared_now:
        # Kept already, but what it is was only guessed: say it again as it was declared.
        files = [file for file in _under(known.before, path) if file in known.finished]
        new += [file for file in files if file not in new and known.kept[file][1] != DECLARED]
    if not new:
        return None
    how = min((known.finished[path][1] for path in new), key=STRENGTH.__getitem__)
    # What settled by itself, or was not declared where others were, does not say how far the job is: unless it is done.
    weakest = DECLARED if how == DECLARED else SETTLED if done or how == SETTLED else CLOSED
    leading = [path for path in new if STRENGTH[known.finished[path][1]] <= STRENGTH[weakest]]
    seen = known.steps.seen_at(_told_at(known, path) for path in leading)
    step, unit = own_steps.choose(known.steps, leading, known.finished, known.kept, inspector.step, seen)
    own_steps.learn(known.steps, step, seen)
    files_now = {path: each[0] for path, each in known.finished.items()}
    # What is being written anew is kept as it was: without it, the snapshot would be less than the one before.
    before = {path: each[0] for path, each in known.kept.items() if path in tree and path not in files_now}
    sources = {path: each for path, each in known.due.items() if each.source and files_now.get(path) == each.signature}
    metrics = known.metrics.get(step, {})
    return Snapshot({**before, **files_now}, step, how, tuple(new), metrics, unit, sources, frozenset(before))


def _told_at(known: Knowledge, path: str) -> Mapping[str, int] | None:
    """How far the job was when this file, or the directory around it, was saved; None when nobody noted it."""
    due = known.due.get(path)
    if due is not None and due.signature == known.finished[path][0]:
        return due.seen
    while path and path not in known.told_at:
        path = path.rpartition("/")[0]
    return known.told_at.get(path)


def kept(known: Knowledge, snapshot: Snapshot) -> None:
    """The snapshot is in storage: from here on only what differs from it is new."""
    known.kept = {
        path: (signature, known.finished.get(path, ((), snapshot.how))[1]) for path, signature in snapshot.files.items()
    }
    known.due = {path: each for path, each in known.due.items() if snapshot.files.get(path) != each.signature}
    known.told_at = {path: told for path, told in known.told_at.items() if path in known.told}
    own_steps.taken(known.steps, snapshot.step, snapshot.unit)
    known.metrics = {step: said for step, said in known.metrics.items() if step > snapshot.step}


def overtaken(known: Knowledge, is_as_it_was: Callable[[str, Closed], bool]) -> None:
    """What was to be kept was written to while it was read. A round of which a part is gone is not tried again."""
    known.overtaken = True
    if not all(is_as_it_was(path, each) for path, each in known.due.items()):
        # Nor is any of its files kept by itself: the rest of an older save would be put beside it.
        known.finished = {path: each for path, each in known.finished.items() if path not in known.due}
        known.due = {}


def sources_needed(known: Knowledge) -> set[str]:
    """The copies that are still of use."""
    held = (known.rounds.now, known.rounds.full, known.due)
    return {each.source for files in held for each in files.values() if each.source}


def is_half_written(path: str) -> bool:
    return any(map(half_written, path.split("/")))


def _habit(path: str) -> str:
    """The name of the entry at the top, whatever its numbers are."""
    return NUMBER.sub("#", entry_of(path)[0])


def _name(path: str) -> str:
    return path.rpartition("/")[2]
