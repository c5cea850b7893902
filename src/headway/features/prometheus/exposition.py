"""The text format of Prometheus (version 0.0.4): families of samples, each with what it says and its type. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]


@dataclass(frozen=True)
class Family:
    """One metric by name; each sample has labels and a value."""

    name: str
    kind: str  # gauge or counter
    says: str
    samples: Sequence[tuple[Labels, float]]


@dataclass(frozen=True)
class HistogramFamily:
    """How many took how long: counts per bucket, not yet summed up, the last one for all that took longer."""

    name: str
    says: str
    bounds: Sequence[float]
    counts: Sequence[int]
    sum_s: float
    labels: Labels = field(default_factory=dict)


def written(families: Iterable[Family | HistogramFamily]) -> str:
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _lines(family: Family | HistogramFamily) -> Iterator[str]:
    yield f"# HELP {family.name} {_escaped(family.says, quotes=False)}"
    if isinstance(family, Family):
        yield f"# TYPE {family.name} {family.kind}"
        yield from (_sample(family.name, labels, value) for labels, value in family.samples)
        return
    yield f"# TYPE {family.name} histogram"
    total = 0
    for bound, count in zip((*family.bounds, float("inf")), family.counts, strict=True):
        total += count
        yield _sample(f"{family.name}_bucket", {**family.labels, "le": _number(bound)}, total)
    yield _sample(f"{family.name}_sum", family.labels, family.sum_s)
    yield _sample(f"{family.name}_count", family.labels, total)


def _sample(name: str, labels: Labels, value: float) -> str:
    pairs = ",".join(f'{key}="{_escaped(str(each))}"' for key, each in labels.items())
    return f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}"


def _escaped(text: str, quotes: bool = True) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


def _number(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
