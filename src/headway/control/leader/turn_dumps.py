"""Turns of the leader, written down as they are taken, so that replay.py can take them again elsewhere.

A dump has all that a turn is made of: the leader's memory before it, the commands, the time, the ids that were drawn,
and what the store answered. It costs a copy of that memory for each turn: for finding an error, not for every day.
Keys of gangs are left out; whatever else the database has may be in it, so nobody but its owner can read the file.
"""

from __future__ import annotations

import io
import pickle
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import structlog

from headway.control.jobs.commands import NewId
from headway.control.leader.cycle import Cycle, PendingCommand
from headway.control.nodes.sessions import Parked
from headway.control.state.forecast_cache import Foresight, at_once
from headway.control.state.working_copy import WorkingCopy
from headway.store.protocol import Store
from headway.whole_files import write_whole

log = structlog.get_logger()
KEPT_MOST = 500
ENDING = ".turn"
STORE, IDS = "the store", "ids of jobs"


class TurnDumps:
    """Takes the turns of a cycle in the control thread's stead, and writes down those that changed anything."""

    def __init__(self, directory: Path, cycle: Cycle, new_id: NewId) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._store = RecordedStore(cycle.store)
        self.new_id = RecordedIds(new_id)
        cycle.store, cycle.new_id = cast(Store, self._store), self.new_id

    def turn(self, cycle: Cycle, asks: list[PendingCommand], now: float, mono: float, place: bool = True) -> bool:
        before = self._frozen((cycle, asks, now, mono, place))
        self._store.calls, self.new_id.drawn = [], []
        raised = ""
        try:
            return cycle.turn(asks, now, mono, place)
        except BaseException as error:
            raised = repr(error)
            raise
        finally:
            if before and (raised or any(name == "commit" for name, _, _, _ in self._store.calls)):
                self._write(cycle.name, before, raised)

    def _frozen(self, held: Any) -> bytes:
        try:
            named = {id(self._store): STORE, id(self._store.behind): STORE, id(self.new_id): IDS}
            return freeze(held, named)
        except Exception as error:  # Whoever looks for one error must not meet another.
            log.warning("turn not dumped", error=repr(error))
            return b""

    def _write(self, name: str, before: bytes, raised: str) -> None:
        dump = {"name": name, "before": before, "calls": self._store.calls, "ids": self.new_id.drawn, "raised": raised}
        try:
            write_whole(self.directory / f"{name.replace(':', '-')}{ENDING}", pickle.dumps(dump))
            for old in sorted(self.directory.glob(f"*{ENDING}"), key=lambda path: path.stat().st_mtime)[:-KEPT_MOST]:
                old.unlink()
        except OSError as error:
            log.warning("turn not dumped", error=repr(error))


class RecordedStore:
    """A store, and what it was asked and answered since somebody last looked."""

    def __init__(self, store: Store) -> None:
        self.behind = store
        self.calls: list[tuple[str, Any, bytes, bytes]] = []  # Name, what was asked, answer, error.

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.behind, name)
        if not callable(found):
            return found

        def ask(*args: Any, **words: Any) -> Any:
            asked = pickle.dumps(args[0]) if name == "commit" else repr((args, words))
            try:
                answer = found(*args, **words)
            except Exception as error:
                self.calls.append((name, asked, b"", _pickled(error)))
                raise
            self.calls.append((name, asked, pickle.dumps(answer), b""))
            return answer

        return ask


class RecordedIds:
    """Draws ids, and remembers them."""

    def __init__(self, new_id: NewId) -> None:
        self._new_id = new_id
        self.drawn: list[str] = []

    def __call__(self) -> str:
        self.drawn.append(self._new_id())
        return self.drawn[-1]


def _pickled(error: Exception) -> bytes:
    try:
        made = pickle.dumps(error)
        pickle.loads(made)
        return made
    except Exception:  # Of a database's driver, say.
        return pickle.dumps(RuntimeError(repr(error)))


# --- a leader's memory as bytes -------------------------------------------------------------------------------------


def nothing(*_: Any, **__: Any) -> None:
    """In the place of what a dump cannot hold: whoever waits for an answer, a thread, another server."""


def _the_nothing() -> Callable[..., None]:
    return nothing


class Fixed:
    """Answers what was answered when the dump was made."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __call__(self) -> Any:
        return self.answer


class Freezer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, named: Mapping[int, str]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._named = named

    def persistent_id(self, held: Any) -> str | None:
        return self._named.get(id(held))

    def reducer_override(self, held: Any) -> Any:
        if isinstance(held, Cycle):
            fixed = {"secret": b"", "publish": nothing, "elsewhere": at_once, "servers": Fixed(held.servers())}
            return _with(held, fixed)
        if isinstance(held, WorkingCopy):
            return _with(held, {"secret": b""})
        if isinstance(held, Foresight):
            return _with(held, {"elsewhere": at_once, "outlook": None})
        if isinstance(held, Parked):
            return _with(held, {"deliver": nothing})
        if isinstance(held, PendingCommand):
            return _with(held, {"done": nothing, "failed": nothing, "result": None})
        if isinstance(held, types.FunctionType | types.MethodType) and not _is_found_by_name(held):
            return _the_nothing, ()
        return NotImplemented


def _with(held: Any, changed: dict[str, Any]) -> tuple[Any, ...]:
    return _empty, (type(held),), {**vars(held), **changed}


def _empty(kind: Any) -> Any:
    return kind.__new__(kind)


def _is_found_by_name(function: Callable[..., Any]) -> bool:
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function or getattr(found, "__func__", None) is getattr(function, "__func__", function)


def freeze(held: Any, named: Mapping[int, str]) -> bytes:
    """What is held, as bytes, with names in the place of those objects."""
    file = io.BytesIO()
    Freezer(file, named).dump(held)
    return file.getvalue()
