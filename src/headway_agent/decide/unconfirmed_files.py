"""What a task has to keep and what the server knows of it: checkpoints, artifacts, steps, and the wait before an end.

Pure; a part of decide.py, which calls it where a sync is made, answered or lost. A task that keeps nothing has no entry
here and costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headway_wire.kinds import replace
from headway_wire.storage_marks import is_here
from headway_wire.sync import BadCheckpoint, Notice, StackDump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping

    from headway_agent.decide.decide import NodeState
    from headway_agent.decide.facts_and_acts import ArtifactStored, CheckpointBad, CheckpointStored, Dumped
    from headway_wire.reply import Reply
    from headway_wire.sync import StoredArtifact, StoredCheckpoint, SyncRequest

STEP = "step"
STEPS_EVERY_S = 2.0  # How often a task's step is looked for, to ride along with other news,
STEPS_ALONE_S = 5.0  # and when it goes without any.
SAY_AGAIN_S = 1.0  # What a reply did not answer for is said again, but not as fast as the server replies.
SAVING_S_MIN = 2.0  # What takes longer to be kept, once a task is over, is told: its place is free meanwhile.
STILL_IDLE_S = 20.0  # The tasks of a gang save together: who saves has begun so long after others were done.
LAST_WORDS_S = 2.0  # Before a machine goes, what could not be kept is told.
NOTICE_STALE_S = 60.0  # A machine that is still there so long after it should have gone, stays.


@dataclass
class UnconfirmedFiles:
    """One task's things to keep, until the server has them."""

    # By manifest key, with when it was saved: not yet answered for.
    checkpoints: dict[str, tuple[StoredCheckpoint, float | None]] = field(default_factory=dict)
    artifacts: dict[str, StoredArtifact] = field(default_factory=dict)  # By path.
    bad: list[BadCheckpoint] = field(default_factory=list)
    dumps: list[StackDump] = field(default_factory=list)
    under_way: set[str] = field(default_factory=set)  # Of these: said in a sync that has no reply yet.
    step: int | None = None
    printed_as: str = ""  # The unit in which its output tells its step; empty where something else does.
    printed: dict[str, int] = field(default_factory=dict)  # The newest in the output that went into storage, by unit.
    tells: bool = False  # It tells its steps by itself, not only by what it saves.
    step_told: int | None = None
    idle: int | None = None  # The newest step that others of its gang have saved, when it had written nothing.
    idle_told: int | None = None
    idle_s: float = 0.0  # When it heard of that.
    still_idle_told: int | None = None
    begun: bool = False  # The task is over, and what it left is being kept:
    salvaging: bool = False  # not all of it is in storage.
    saved_bytes: tuple[int, int] = (0, 0)  # Of it: in storage, and all.


@dataclass
class Told:
    """What a request under way says of progress."""

    keys: dict[str, list[str]] = field(default_factory=dict)  # By task: manifest keys and artifact paths.
    steps: dict[str, int] = field(default_factory=dict)
    idle: dict[str, int] = field(default_factory=dict)
    still_idle: dict[str, int] = field(default_factory=dict)
    bad: list[BadCheckpoint] = field(default_factory=list)
    dumps: list[StackDump] = field(default_factory=list)
    notice: bool = False

    def __bool__(self) -> bool:
        return bool(self.keys or self.steps or self.idle or self.still_idle or self.bad or self.dumps or self.notice)


def of(state: NodeState, key: str) -> UnconfirmedFiles:
    return state.progress.setdefault(key, UnconfirmedFiles())


# --- facts ----------------------------------------------------------------------------------------------------------


def checkpoint_stored(state: NodeState, fact: CheckpointStored) -> None:
    mine = of(state, fact.task)
    # A newer one of the same step replaces what was not said yet.
    same = [key for key, (each, _) in mine.checkpoints.items() if each.step == fact.checkpoint.step]
    for key in same:
        if key not in mine.under_way:
            del mine.checkpoints[key]
    if fact.task in state.tasks and not fact.checkpoint.beside:
        wrote(state, fact.task)
    mine.checkpoints[fact.checkpoint.key] = (fact.checkpoint, fact.saved_s)
    _seen_step(mine, fact.checkpoint.step)


def artifact_stored(state: NodeState, fact: ArtifactStored) -> None:
    mine = of(state, fact.task)
    path = fact.artifact.path
    mine.artifacts[path] = fact.artifact
    mine.under_way.discard(path)  # What is under way is an older version of it.


def checkpoint_bad(state: NodeState, fact: CheckpointBad) -> None:
    of(state, fact.task).bad.append(BadCheckpoint(fact.task, fact.key, fact.detail))


def dumped(state: NodeState, fact: Dumped) -> None:
    dump = StackDump(fact.task, fact.key, fact.what, fact.size, fact.sha256, fact.storage)
    of(state, fact.task).dumps.append(dump)


def stepped(state: NodeState, task: str, step: int, printed_as: str = "", by_itself: bool = True) -> None:
    mine = of(state, task)
    mine.printed_as = printed_as
    mine.tells = mine.tells or by_itself
    _seen_step(mine, step)
    _count_printed(mine)


def printed(state: NodeState, task: str, told: Mapping[str, int]) -> None:
    """Output that went into storage tells these steps. Which of them are its own may be known a moment later only."""
    if told:
        mine = of(state, task)
        mine.printed.update(told)
        _count_printed(mine)


def _count_printed(mine: UnconfirmedFiles) -> None:
    if mine.printed_as in mine.printed:
        _seen_step(mine, mine.printed[mine.printed_as])


def last_word(state: NodeState, task: str, resumed: bool) -> None:
    """Its end is told. Where it was over before anybody looked for its steps, its output has them."""
    mine = state.progress.get(task)
    if mine is not None and mine.step is None and not resumed and STEP in mine.printed:
        stepped(state, task, mine.printed[STEP], STEP)


def tells_steps(state: NodeState, task: str) -> bool:
    """Whether it has told how far it is, apart from what it saved."""
    return task in state.progress and state.progress[task].tells


def wrote(state: NodeState, task: str) -> None:
    """It is one of those who save: from here on it is not said that it has written nothing."""
    state.tasks[task].writes = True
    if task in state.progress:
        state.progress[task].idle = None


def others_saved(state: NodeState, said: Mapping[str, int], now: float) -> None:
    """The server asks: others of these tasks' gangs have saved so many steps; have these begun to write anything?"""
    for key, step in said.items():
        task = state.tasks.get(key)
        if task is not None and key in state.going and not task.writes:
            mine = of(state, key)
            mine.idle, mine.idle_s = step, mine.idle_s if mine.idle == step else now


def _seen_step(mine: UnconfirmedFiles, step: int) -> None:
    mine.step = step if mine.step is None else max(mine.step, step)


def drop_stale(state: NodeState, key: str, here: str) -> set[str]:
    """Drop what lies in another storage than the server's, also of calls under way. Returns what kinds there were."""

    def stale(entry: StoredCheckpoint | StoredArtifact | StackDump) -> bool:
        return not is_here(entry.storage, here)

    mine = state.progress[key]
    found: set[str] = set()
    for name in [name for name, (checkpoint, _) in mine.checkpoints.items() if stale(checkpoint)]:
        del mine.checkpoints[name]
        mine.under_way.discard(name)
        found.add("checkpoint")
    for name in [name for name, artifact in mine.artifacts.items() if stale(artifact)]:
        del mine.artifacts[name]
        mine.under_way.discard(name)
        found.add("artifact")
    mine.bad = []  # It was looked for elsewhere: the task is prepared again.
    mine.dumps = [entry for entry in mine.dumps if not stale(entry)]
    for flight in state.flights.values():
        flight.progress.bad = [entry for entry in flight.progress.bad if entry.task != key]
        flight.progress.dumps = [entry for entry in flight.progress.dumps if not stale(entry)]
    return found


# --- the end of a task ----------------------------------------------------------------------------------------------


def begin_salvage(state: NodeState, key: str) -> None:
    mine = of(state, key)
    mine.begun = mine.salvaging = True


def unkept(state: NodeState, key: str) -> bool:
    """Whether something that it left is not in storage, or not known to the server."""
    mine = state.progress.get(key)
    return mine is not None and mine.begun and bool(mine.salvaging or mine.checkpoints or mine.artifacts)


def settled(state: NodeState, key: str, now: float) -> bool:
    """Whether the task's end may be told: all is kept and answered for, or the machine goes.

    No clock else: what a job wrote is worth as much a day later. Its place is free meanwhile, see sync_request.py.
    """
    return not unkept(state, key) or (state.notice is not None and now >= state.notice[1] - LAST_WORDS_S)


def next_due_s(state: NodeState) -> float | None:
    """When time alone changes something: a task that saves for long, a machine that goes, a step to be told."""
    over = [state.tasks[key] for key in state.draining]
    times = [task.over_s + SAVING_S_MIN for task in over if not task.saves]
    if over and state.notice is not None:
        times.append(state.notice[1] - LAST_WORDS_S)
    if _untold_steps(state):
        times.append(state.steps_at_s + STEPS_ALONE_S)
    if any(_unsaid(mine) for mine in state.progress.values()):
        times.append(state.say_again_s)
    if state.notice is not None:
        times.append(state.notice[1] + NOTICE_STALE_S)
    return min(times) if times else None


# --- syncs ----------------------------------------------------------------------------------------------------------


def has_news(state: NodeState, now: float) -> bool:
    """Whether there is something to say for which a sync of its own is worth it."""
    if state.notice_due:
        return True
    if not state.progress or state.storage is None:
        return False
    if _untold_idle(state):
        return True
    if now >= state.say_again_s and any(_unsaid(mine) for mine in state.progress.values()):
        return True
    return now >= state.steps_at_s + STEPS_ALONE_S and bool(_untold_steps(state))


def _unsaid(mine: UnconfirmedFiles) -> bool:
    return bool(mine.bad or mine.dumps or (mine.checkpoints.keys() | mine.artifacts.keys()) - mine.under_way)


def _untold_idle(state: NodeState, again: bool = False) -> dict[str, int]:
    return {
        key: mine.idle
        for key, mine in state.progress.items()
        if mine.idle is not None and (again or mine.idle != mine.idle_told) and key in state.tasks
    }


def _untold_still_idle(state: NodeState, now: float, again: bool) -> dict[str, int]:
    """Who had written nothing a while after it heard that others have saved: a share would have been begun by then."""
    return {
        key: mine.idle
        for key, mine in state.progress.items()
        if mine.idle is not None
        and key in state.tasks
        and min(now, state.tasks[key].over_s or now) >= mine.idle_s + STILL_IDLE_S
        and (again or mine.idle != mine.still_idle_told)
    }


def _untold_steps(state: NodeState) -> dict[str, int]:
    return {
        key: mine.step
        for key, mine in state.progress.items()
        if mine.step is not None and mine.step != mine.step_told and key in state.tasks
    }


def added(request: SyncRequest, state: NodeState, now: float) -> tuple[SyncRequest, Told]:
    """A request with all that was not said yet, and that again, to be said once more if no reply comes.

    What an end waits for does not go into a call that the server may hold: it would be answered for only with that.
    """
    told = Told(notice=state.notice is not None and (state.notice_due or request.full))
    checkpoints: list[StoredCheckpoint] = []
    artifacts: list[StoredArtifact] = []
    if state.progress:
        _add_steps(told, state, now, request.full)
    for key, mine in state.progress.items() if state.storage is not None else ():
        fresh = [each for each in (*mine.checkpoints, *mine.artifacts) if each not in mine.under_way]
        fresh = [] if request.wait_s else fresh
        checkpoints += [_aged(*mine.checkpoints[each], now) for each in fresh if each in mine.checkpoints]
        artifacts += [mine.artifacts[each] for each in fresh if each in mine.artifacts]
        told.bad += mine.bad
        told.dumps += mine.dumps
        mine.bad, mine.dumps = [], []
        if fresh:
            told.keys[key] = fresh
            mine.under_way.update(fresh)
    notice, state.notice_due = _notice(state, now) if told.notice else None, False
    if not told:
        return request, told
    return replace(
        request,
        steps=tuple(told.steps.items()),
        idle=tuple(told.idle.items()),
        still_idle=tuple(told.still_idle.items()),
        checkpoints=tuple(checkpoints),
        artifacts=tuple(artifacts),
        bad_checkpoints=tuple(told.bad),
        dumps=tuple(told.dumps),
        notice=notice,
    ), told


def _add_steps(told: Told, state: NodeState, now: float, full: bool) -> None:
    told.steps = _untold_steps(state)
    if told.steps:
        state.steps_at_s = now
    for key, step in told.steps.items():
        state.progress[key].step_told = step
    told.idle = _untold_idle(state, full)
    for key, step in told.idle.items():
        state.progress[key].idle_told = step
    told.still_idle = _untold_still_idle(state, now, full)
    for key, step in told.still_idle.items():
        state.progress[key].still_idle_told = step


def _notice(state: NodeState, now: float) -> Notice | None:
    if state.notice is None:
        return None
    return Notice(state.notice[0], max(0.0, round(state.notice[1] - now, 1)), state.notice_why)


def _aged(checkpoint: StoredCheckpoint, saved_s: float | None, now: float) -> StoredCheckpoint:
    """With how long ago it was saved, instead of when: clocks differ."""
    return checkpoint if saved_s is None else replace(checkpoint, saved_ago_s=round(max(0.0, now - saved_s), 3))


def answered(state: NodeState, told: Told, reply: Reply, now: float) -> None:
    """Drop what the server has answered for; the rest is said again."""
    others_saved(state, reply.saved, now)
    for key, steps in reply.checkpoints_safe.items():
        mine = state.progress.get(key)
        for each in [one for one, (said, _) in mine.checkpoints.items() if said.step in steps] if mine else ():
            if each in told.keys.get(key, ()):
                del state.progress[key].checkpoints[each]
    for key, path in reply.artifacts_safe:
        mine = state.progress.get(key)
        if mine is not None and path in mine.under_way and path in told.keys.get(key, ()):
            mine.artifacts.pop(path, None)
    for key, names in told.keys.items():
        mine = state.progress.get(key)
        if mine is not None:
            mine.under_way.difference_update(names)
            if any(name in mine.checkpoints or name in mine.artifacts for name in names):
                state.say_again_s = now + SAY_AGAIN_S


def not_answered(state: NodeState, told: Told) -> None:
    for key, names in told.keys.items():
        if key in state.progress:
            state.progress[key].under_way.difference_update(names)
    for key in told.steps:
        if key in state.progress:
            state.progress[key].step_told = None
    for key in told.idle:
        if key in state.progress:
            state.progress[key].idle_told = None
    for key in told.still_idle:
        if key in state.progress:
            state.progress[key].still_idle_told = None
    for bad in told.bad:
        if bad.task in state.progress:
            state.progress[bad.task].bad.append(bad)
    for dump in told.dumps:
        if dump.task in state.progress:
            state.progress[dump.task].dumps.append(dump)
    state.notice_due = state.notice_due or (told.notice and state.notice is not None)
