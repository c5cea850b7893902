"""The metrics that a rank prints, from its output as it comes: which figures count, and at which step.

Pure. A figure counts if its name has a word that metrics have, or if it came three times with different values; what
names processes and places never does. To go on after a restart, feed what was read before once more: points whose end
is not behind the old offset were taken already.
"""

from __future__ import annotations

import re

from headway_agent.collect import parameters
from headway_agent.collect.printed_lines import read_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Sequence

    from headway_agent.collect.parameters import Params
    from headway_agent.collect.points import Picked, Point
    from headway_agent.collect.printed_lines import Said

    Pick = Callable[[Sequence[bytes]], Picked]

LINE_BYTES_MAX = 4096
NAMES_MAX = 1000  # Of one rank. A name for each file or address that is printed is no metric.
REPEATS = 3
KNOWN_WORDS = """
    loss losses acc accuracy precision recall f1 fbeta auc auroc auprc aucpr ap map mape mae mse rmse rmsle logloss
    mlogloss merror error err bleu rouge meteor cider chrf wer cer perplexity ppl bpc bpb reward rewards return returns
    iou miou dice jaccard psnr ssim lpips fid lr learning rate norm r2 score kl entropy elbo nll l1 l2 huber ndcg mrr
    hit top1 top5 top mfu throughput cost objective mcc kappa spearmanr pearson accuracies
    deviance quantile poisson gamma tweedie cross crossentropy hinge margin grad gradient temperature momentum
"""
NEVER_WORDS = """
    pid ppid tid port seed v_num version rank local_rank world_size node gpu gpus device cuda id job job_id run_id
    task attempt line lineno year month day hour minute second date time timestamp exit code exit_code status errno
    size file files worker workers num_workers thread threads eta elapsed remaining total address host uid gid mode
"""
KNOWN, NEVER = frozenset(KNOWN_WORDS.split()), frozenset(NEVER_WORDS.split())
_TOKENS = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])")
_MAY_SAY = re.compile(rb"[=:%}\]]|(?i:loss|acc|ppl|lr |epoch|step|iter)|\xe2\x94\x82")


class _Name:
    """A name that may become a metric: how often it came, and what waits until that is known."""

    __slots__ = ("counts", "held", "last", "seen", "unit")

    def __init__(self, counts: bool) -> None:
        self.counts = counts
        self.seen = 0
        self.held: list[tuple[float, int | None, float]] = []
        self.last: float | None = None
        self.unit = ""


class PrintedMetrics:
    def __init__(self) -> None:
        self.offset = 0
        self.params: Params = {}
        self.picked: list[Point] = []  # Of the last `feed`.
        self.names_refused = 0  # So many were there already.
        self._names: dict[str, _Name] = {}
        self._counts: dict[str, int] = {}  # The newest step and the newest epoch.
        self._unit = ""  # Which of them was told last.
        self._fractions = False  # Epochs are told in parts: `0.25`, and then `1` is no count either.
        self._laps: dict[tuple[str, int], list[int]] = {}  # By bar: how often it began again, and how far it is.
        self._drawn: tuple[str, int, list[tuple[str, float, int | None, float]]] = ("", 0, [])

    def feed(self, data: bytes, at: float, final: bool = False, pick: Pick | None = None) -> list[Point]:
        """Take output that begins at `offset`. A line without an end is to be fed again, unless nothing follows.

        `pick` says which values of the user's own metrics are in which line: they come to be in `picked`.
        """
        end = len(data) if final else max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1
        if not end and len(data) > LINE_BYTES_MAX:
            end = len(data)  # No line at all.
        points: list[Point] = []
        self.picked = []
        lines = data[:end].splitlines(keepends=True)
        own = pick(lines) if pick is not None else {}
        for number, line in enumerate(lines):
            self.offset += len(line)
            if b"Namespace(" in line:
                self.params.update(parameters.of_line(line))
            elif len(line) <= LINE_BYTES_MAX and _MAY_SAY.search(line):
                said = read_line(line, not line.endswith(b"\r"))
                if said is not None:
                    self._take(said, at, points)
            for name, value in own.get(number, ()):
                self.picked.append((name, value, self._counts.get(self._unit), at, self.offset))
        if final:
            self._flush(points)
        return points

    def _take(self, said: Said, at: float, points: list[Point]) -> None:
        label, number, drawn = self._drawn
        if drawn and (said.bar, said.number) != (label, number):
            self._flush(points)
        step, unit = self._step_of(said)
        if said.bar:
            self._drawn = (said.bar, said.number, [(name, value, step, at) for name, value in said.figures])
            return
        for name, value in said.figures:
            self._figure(name, value, step, unit, at, points)

    def _flush(self, points: list[Point]) -> None:
        """A bar is drawn many times for one step; what it showed last is what it says."""
        drawn, self._drawn = self._drawn[2], ("", 0, [])
        for name, value, step, at in drawn:
            known = self._names.get(name)
            if known is None or known.last != value:
                self._figure(name, value, step, "step", at, points)

    def _step_of(self, said: Said) -> tuple[int | None, str]:
        """The step of a line, and what it counts."""
        self._fractions = self._fractions or said.fraction
        if said.epoch is not None and not self._fractions:
            self._counts["epoch"], self._unit = said.epoch, "epoch"
        if said.step is not None:
            self._counts["step"], self._unit = said.step, "step"
            return said.step, "step"
        if said.lap:
            epoch = self._counts.get("epoch") if said.epoch is not None or not said.bar else None
            return (self._lap(said) if epoch is None else epoch * said.total + said.number), "lap"
        if said.epoch is not None or said.fraction:
            return None if self._fractions else said.epoch, "epoch"
        return None, ""

    def _lap(self, said: Said) -> int:
        lap = self._laps.setdefault((said.bar, said.total), [0, 0])
        if said.number < lap[1]:
            lap[0] += 1
        lap[1] = said.number
        return lap[0] * said.total + said.number

    def _figure(self, name: str, value: float, step: int | None, unit: str, at: float, points: list[Point]) -> None:
        known = self._names.get(name)
        if known is None:
            known = self._meet(name)
            if known is None:
                return
        if not unit:  # The line tells no step: that of a line before it, of the kind that this name goes by.
            unit = known.unit if known.unit in self._counts else self._unit
            step = self._counts.get(unit)
        known.unit = known.unit or unit
        if known.counts:
            known.last = value
            points.append((name, value, step, at, self.offset))
            return
        known.seen += 1
        known.held = [*known.held[1 - REPEATS :], (value, step, at)]
        if known.seen >= REPEATS and len({each[0] for each in known.held}) > 1:
            known.counts, known.last = True, value
            points += [(name, earlier, when, moment, self.offset) for earlier, when, moment in known.held]
            known.held = []

    def _meet(self, name: str) -> _Name | None:
        if is_refused(name):
            return None
        if len(self._names) >= NAMES_MAX:
            self.names_refused += 1
            return None
        known = self._names[name] = _Name(is_known(name))
        return known


def is_known(name: str) -> bool:
    """Whether a name has a word that metrics have."""
    return any(token in KNOWN for token in _TOKENS.sub(" ", name).lower().split())


def is_refused(name: str) -> bool:
    return name.lower() in NEVER or name.lower().rpartition("/")[2] in NEVER
