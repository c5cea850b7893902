"""`python -m headway.control.leader.replay FILE`: take a dumped turn again, and say what it decides, or raises.

With the code of today: so an error that a server met can be looked at with a debugger, and a change of the code be held
against turns that were taken without it. A dump is a pickle: open only your own.
"""

from __future__ import annotations

import io
import pickle
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.control.leader.cycle import Cycle, PendingCommand
from headway.control.leader.turn_dumps import IDS, STORE
from headway.store.protocol import Batch


class NotRecorded(Exception):
    """The turn went another way than the recorded one: it asks for what nobody asked then."""


@dataclass
class ReplayedStore:
    """Answers as the store did then; what would be saved is kept."""

    answers: dict[tuple[str, str], list[tuple[bytes, bytes]]] = field(default_factory=dict)
    commits: list[tuple[bytes, bytes]] = field(default_factory=list)
    saved: list[Batch] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **words: self._answer(name, args, words)

    def _answer(self, name: str, args: tuple[Any, ...], words: dict[str, Any]) -> Any:
        if name == "commit":
            self.saved.append(args[0])
            answers = self.commits
        else:
            answers = self.answers.get((name, repr((args, words))), [])
        if not answers:
            raise NotRecorded(f"{name}{args!r:.300}: nobody asked the store for that in the recorded turn")
        answer, error = answers.pop(0) if len(answers) > 1 or name == "commit" else answers[0]
        if error:
            raise pickle.loads(error)
        return pickle.loads(answer)


@dataclass
class Replay:
    """A turn that was taken again: what it saved then and now, and what its commands were answered."""

    name: str
    commands: list[str]
    then: list[Batch]
    now: list[Batch]
    raised_then: str = ""
    raised: BaseException | None = None
    answers: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        return self.then == self.now and self.raised_then == (repr(self.raised) if self.raised else "")

    def lines(self) -> list[str]:
        told = [f"{self.name}: {', '.join(self.commands) or 'no commands'}"]
        for batch in self.now:
            told += [f"  {line}" for line in _decided(batch)]
        told += [f"  {answer}" for answer in self.answers]
        told += [f"  raises {self.raised!r}"] if self.raised else []
        if self.same:
            return [*told, "the same as it was recorded"]
        was = [f"  {line}" for batch in self.then for line in _decided(batch)]
        was += [f"  raised {self.raised_then}"] if self.raised_then else []
        return [*told, "it was recorded otherwise:", *was]


def replay(path: Path) -> Replay:
    dump = pickle.loads(path.read_bytes())
    store, ids = ReplayedStore(), iter(dump["ids"])
    then: list[Batch] = []
    for name, asked, answer, error in dump["calls"]:
        if name == "commit":
            store.commits.append((answer, error))
            then.append(pickle.loads(asked))
        else:
            store.answers.setdefault((name, asked), []).append((answer, error))
    cycle, asks, now, mono, place = _thawed(dump["before"], {STORE: store, IDS: lambda: next(ids)})
    made = Replay(dump["name"], [type(ask.command).__name__ for ask in asks], then, store.saved, dump["raised"])
    for ask in asks:
        _listen(ask, made.answers)
    try:
        Cycle.turn(cycle, asks, now, mono, place)
    except Exception as error:
        made.raised = error
    return made


def _listen(ask: PendingCommand, answers: list[str]) -> None:
    name = type(ask.command).__name__
    ask.failed = lambda error: answers.append(f"{name} fails: {error!r}")


def _thawed(frozen: bytes, named: dict[str, Any]) -> Any:
    class Thawer(pickle.Unpickler):
        def persistent_load(self, name: str) -> Any:
            return named[name]

    return Thawer(io.BytesIO(frozen)).load()


def _decided(batch: Batch) -> list[str]:
    """What a commit says, in the order in which the store would number it."""
    facts = [event for change in batch.jobs for event in change.events]
    facts += [forget.event for forget in batch.forget] + list(batch.events)
    lines = [f"{each.kind} {each.job or '-'} {dict(each.data)} {each.request}".rstrip() for each in facts]
    others = [f"{change.job.id} is {change.job.state.value}" for change in batch.jobs if not change.events]
    return lines + others + [f"node {node.id} is saved" for node in batch.nodes]


def main(words: list[str]) -> int:
    if len(words) != 1:
        sys.stderr.write("usage: python -m headway.control.leader.replay FILE\n")
        return 2
    made = replay(Path(words[0]))
    sys.stdout.write("\n".join(made.lines()) + "\n")
    return 0 if made.same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
