"""What a rehearsal says: whether a training resumes, how that is known, and what to change if it does not.

A rehearsal runs a job briefly, preempts it once and looks at the next attempt. Observations in, a verdict out; what is
done to observe is in client/rehearsal.py, the words for frameworks in advice.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from headway.core.rehearsal import advice
from headway.core.rehearsal.log_counters import Count
from headway.core.units import show_duration, show_size

OK, WARN, FAIL = "ok", "warn", "fail"
COUNTED = "save"  # The unit of steps that are nothing but the number of saves.
NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SaveSeen:
    """One checkpoint that an attempt has kept."""

    step: int
    at_s: float  # Since the attempt began.
    bytes: int = 0
    how: str = "settled"
    unit: str = ""
    names: tuple[str, ...] = ()
    found: str = ""
    on_notice: bool = False
    tasks: tuple[int, ...] = ()  # Which nodes of a gang have a share in it.
    sharded: bool = False


@dataclass(frozen=True, slots=True)
class FileSeen:
    """A file that the job wrote, by its path from the working directory, or whole where it lies elsewhere."""

    path: str
    bytes: int = 0
    kept: bool = False  # It lies where checkpoints are looked for.


@dataclass(frozen=True, slots=True)
class Half:
    """One attempt of the rehearsal."""

    ran_s: float = 0.0
    saves: tuple[SaveSeen, ...] = ()
    ended: str = ""  # Its cause, or "succeeded"; nothing while it runs.
    sentence: str = ""
    last_lines: tuple[str, ...] = ()
    number: int = 1
    partial: tuple[SaveSeen, ...] = ()  # Saves that not every node has that must.


@dataclass(frozen=True, slots=True)
class Observations:
    within_s: float
    before: Half
    after: Half | None = None
    nodes: int = 1
    resumed_step: int | None = None
    resumed_unit: str = ""
    count: Count | None = None
    counts: bool = True  # Whether the log of the first attempt counts anything at all.
    read: bool | None = None  # Whether the second attempt has opened what was put back; None where nobody can tell.
    files: tuple[FileSeen, ...] = ()
    grace_s: float = 30.0
    notice_s: float = 0.0  # From the notice to the end.
    killed: bool = False
    caught: bool = True  # The notice's signal did not end it there and then.
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that was found, how good it is, and what would fix it."""

    what: str
    grade: str
    found: str
    advice: tuple[str, ...] = ()
    quote: tuple[str, ...] = ()  # The job's own last words.


@dataclass(frozen=True, slots=True)
class RehearsalVerdict:
    kind: str
    resumes: bool | None  # None: it could not be told.
    remarks: tuple[Remark, ...]


KINDS: dict[str, bool | None] = {
    "resumes": True,
    "starts_over": False,
    "fails_on_resume": False,
    "not_restored": False,
    "saves_nothing": False,
    "failed_before": None,
    "ended_before": None,
    "unclear": None,
}


def rehearsal_verdict(seen: Observations) -> RehearsalVerdict:
    kind, main = _main(seen)
    remarks = [main]
    if _saves(seen):
        remarks += [_saving(seen), _completeness(seen), *_gang(seen)]
    if seen.after is not None and kind not in ("saves_nothing", "not_restored"):
        remarks.append(_notice(seen))
    remarks += _left(seen) if kind != "saves_nothing" else []
    return RehearsalVerdict(kind, KINDS[kind], tuple(remarks))


# --- the one question -----------------------------------------------------------------------------------------------


def _main(seen: Observations) -> tuple[str, Remark]:
    if seen.after is None:
        return _ended_before(seen)
    if seen.resumed_step is None:
        return _nothing_to_resume(seen)
    if seen.after.ended not in ("", "succeeded"):
        return _failed_after(seen, seen.after)
    if _went_on(seen):
        return "resumes", Remark("resumes", OK, f"from {_from(seen)}; {_evidence(seen)}")
    if _went_on(seen) is False:
        return "starts_over", _started_over(seen)
    return "unclear", _unclear(seen)


def _went_on(seen: Observations) -> bool | None:
    """What the job itself counts comes first; then the steps of its saves; then that it opened what was put back."""
    if seen.count is not None:
        return seen.count.goes_on
    by_saves = _went_on_by_saves(seen)
    if by_saves is not None:
        return by_saves
    # Who has done nothing yet may still be about to open it.
    idle = seen.after is not None and not seen.after.saves and seen.after.ended != "succeeded"
    return None if idle and not seen.read else seen.read


def _went_on_by_saves(seen: Observations) -> bool | None:
    """A number of saves goes on by itself and says nothing; a step that a name or the job gives does."""
    steps = [save.step for save in (seen.after.saves if seen.after else ()) if save.unit != COUNTED]
    if not steps or seen.resumed_step is None:
        return None
    if steps[0] <= seen.resumed_step:
        return False
    # One more than before may only be counted: names that were there before, written again, say no step.
    told = seen.after is not None and seen.after.saves[0].how == "declared"
    return True if told or steps[0] > seen.resumed_step + 1 else None


def _from(seen: Observations) -> str:
    return show_step(seen.resumed_step or 0, seen.resumed_unit)


def _second(seen: Observations) -> str:
    return f"attempt {seen.after.number}" if seen.after else "the next attempt"


def _evidence(seen: Observations) -> str:
    if seen.count is not None:
        began = f'attempt {seen.before.number} began with "{seen.count.began_said}"'
        return f'{_second(seen)} went on with "{seen.count.taken_up_said}" ({began})'
    if seen.after and _went_on_by_saves(seen):
        return f"its next save was {_step_of(seen.after.saves[0])}"
    opened = f"{_second(seen)} opened {_names(_restored(seen))}"
    return f"{opened}, but prints no steps: that it goes on from there is not seen"


def _started_over(seen: Observations) -> Remark:
    put_back = f"{_from(seen)} was put back"
    if seen.count is not None:
        found = f'no: {put_back}, but {_second(seen)} began with "{seen.count.taken_up_said}" again'
    elif _went_on_by_saves(seen) is False and seen.after:
        found = f"no: {put_back}, but the next save of {_second(seen)} was {_step_of(seen.after.saves[0])}"
    else:
        found = f"no: {put_back}, but {_second(seen)} did not open it"
    if seen.read:
        found += f", though it opened {_names(_restored(seen))}"
        return Remark("resumes", FAIL, found, advice.LOAD_THE_STEP)
    return Remark("resumes", FAIL, found, advice.look_for_it(_restored(seen)))


def _unclear(seen: Observations) -> Remark:
    to_the_end = " to its end" if seen.after and seen.after.ended == "succeeded" else ""
    ran = f"{_second(seen)} ran{to_the_end} for {show_duration(seen.after.ran_s if seen.after else 0.0)}"
    found = f"perhaps: {_from(seen)} was put back and {ran}, but nothing shows whether it went on from there"
    return Remark("resumes", WARN, found, advice.PRINT_STEPS)


def _failed_after(seen: Observations, after: Half) -> tuple[str, Remark]:
    found = f"no: {_from(seen)} was put back, and after {show_duration(after.ran_s)} {after.sentence}"
    remark = Remark("resumes", FAIL, found, advice.fails_on(_names(_restored(seen))), after.last_lines)
    return "fails_on_resume", remark


def _ended_before(seen: Observations) -> tuple[str, Remark]:
    first = seen.before
    saved = f"after {len(first.saves)} save{'s' if len(first.saves) != 1 else ''}"
    if first.ended == "succeeded":
        how = f"{saved}, before it could be preempted" if first.saves else "without saving"
        found = f"not tried: it succeeded after {show_duration(first.ran_s)}, {how}"
        return "ended_before", Remark("resumes", WARN, found, advice.TOO_SHORT if first.saves else advice.SHORT)
    found = f"not tried: {first.sentence}" + (f", {saved}" if first.saves else "")
    asked = any("EOFError" in line for line in first.last_lines)
    return "failed_before", Remark("resumes", WARN, found, advice.NO_INPUT if asked else (), first.last_lines)


def _nothing_to_resume(seen: Observations) -> tuple[str, Remark]:
    if seen.before.saves:
        found = f"no: {_second(seen)} began with nothing, though {_step_of(seen.before.saves[-1])} was saved"
        return "not_restored", Remark("resumes", FAIL, found, advice.NOT_RESTORED)
    if seen.before.partial:
        last = seen.before.partial[-1]
        had = f"only {len(last.tasks)} of the {seen.nodes} nodes" if last.tasks else "not all nodes"
        found = f"no: {had} saved {_step_of(last)}, and each that saves must have saved it"
        return "not_restored", Remark("resumes", FAIL, found, advice.SAVED_BY)
    within = f"within {show_duration(seen.within_s)}"
    half = [file for file in seen.files if file.kept]
    if half:
        found = f"no: it wrote {_files(half)}, which was never known to be complete"
        return "not_restored", Remark("resumes", FAIL, found, advice.STRONGER)
    models = [file for file in seen.files if advice.MODEL.search(file.path)]
    if models:
        found = f"no: it wrote {_files(models)}, which is not where checkpoints are kept"
        if seen.count is not None and seen.count.goes_on:
            found += (
                f'; {_second(seen)} went on with "{seen.count.taken_up_said}" only because it ran in the same place'
            )
        return "saves_nothing", Remark("resumes", FAIL, found, advice.elsewhere([file.path for file in models]))
    wrote = f"; all that it wrote is {_files(seen.files)}" if seen.files else ""
    return "saves_nothing", Remark("resumes", FAIL, f"no: it saved nothing {within}{wrote}", advice.SAVE)


# --- what else was seen ---------------------------------------------------------------------------------------------


def _saves(seen: Observations) -> tuple[SaveSeen, ...]:
    return seen.before.saves


def _saving(seen: Observations) -> Remark:
    saves = seen.before.saves
    last = saves[-1]
    found = f"{_names(last.names)}, {show_size(last.bytes)}" if last.names else show_size(last.bytes)
    if last.found:
        found += f" ({last.found})"
    every_s = interval_s(saves)
    often = f", then about every {show_duration(every_s)}" if every_s else ""
    if saves[0].on_notice:
        return Remark("saves", WARN, f"{found}, only when it was told that the end is near", advice.SAVE_BETWEEN)
    return Remark("saves", OK, f"{found}, first after {show_duration(saves[0].at_s)}{often}")


def _completeness(seen: Observations) -> Remark:
    how = seen.before.saves[-1].how
    found, remedies = advice.COMPLETE.get(how, (f"known as {how}", ()))
    return Remark("complete", WARN if remedies else OK, found, remedies)


def _gang(seen: Observations) -> list[Remark]:
    """Who saves, where there are several nodes."""
    last = seen.before.saves[-1]
    if seen.nodes < 2 or not last.tasks:
        return []
    if len(last.tasks) == 1:
        found = f"node {last.tasks[0]} saves for all {seen.nodes}; the others get its files when the job resumes"
    elif last.sharded:
        found = f"each of the {len(last.tasks)} nodes saves its own part"
    else:
        found = f"{len(last.tasks)} of the {seen.nodes} nodes save"
    return [Remark("nodes", OK, found)]


def _notice(seen: Observations) -> Remark:
    saves = seen.before.saves
    redone = seen.count.redone if seen.count is not None and seen.count.goes_on else None
    if seen.killed:
        found = f"it did not end within its {show_duration(seen.grace_s)} of grace and was killed"
        return Remark("notice", WARN, found, advice.END_ON_NOTICE)
    # Whom the signal ended at once has saved nothing more, though its last save may have arrived after it.
    if saves and saves[-1].on_notice and seen.caught and not redone:
        return Remark("notice", OK, "it saved when it was told to end: a preemption loses nothing")
    every_s = interval_s(saves)
    most = f", up to {show_duration(every_s)} of work" if every_s else ""
    found = f"it did not save when it was told to end: a preemption loses what came after its last save{most}"
    if redone and seen.count and seen.count.label:
        done = "begun" if seen.count.label in ("epoch", "ep") else "done"
        found += f" ({redone:,} {advice.plural(seen.count.label, redone)} {done} twice this time)"
    return Remark("notice", WARN, found, advice.SAVE_ON_NOTICE)


def _left(seen: Observations) -> list[Remark]:
    """A job that runs in place leaves what it wrote in the caller's directory."""
    left = [file for file in seen.files if not file.kept and not file.path.startswith("/")]
    return [Remark("left", OK, f"in the working directory: {_files(left)}")] if left and seen.in_place else []


def interval_s(saves: tuple[SaveSeen, ...]) -> float:
    """The usual time between two saves that nobody asked for; 0 where there are no two."""
    times = [save.at_s for save in saves if not save.on_notice]
    gaps = sorted(later - earlier for earlier, later in pairwise(times))
    return gaps[len(gaps) // 2] if gaps else 0.0


# --- words ----------------------------------------------------------------------------------------------------------


def show_step(step: int, unit: str) -> str:
    return f"{unit or 'step'} {step:,}"


def _step_of(save: SaveSeen) -> str:
    return show_step(save.step, save.unit)


def _restored(seen: Observations) -> tuple[str, ...]:
    same = [save.names for save in seen.before.saves if save.step == seen.resumed_step and save.names]
    return same[-1] if same else next((save.names for save in reversed(seen.before.saves) if save.names), ())


def as_people_know_it(path: str) -> str:
    """A file's path as the script has it: what lies in the working directory is marked so in manifests."""
    return path.removeprefix(advice.IN_WORKDIR)


def _names(names: tuple[str, ...]) -> str:
    return _listed([as_people_know_it(name) for name in names]) or "its checkpoint"


def _files(files: tuple[FileSeen, ...] | list[FileSeen]) -> str:
    return _listed([f"{file.path} ({show_size(file.bytes)})" for file in files])


def _listed(words: list[str]) -> str:
    more = len(words) - NAMES_SHOWN
    return ", ".join(words[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
