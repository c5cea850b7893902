"""What is kept of metrics: a row for each series, how far each stream was read, its chunks, and parameters.

Points themselves are in chunks (storage), and the newest in the log index: see indexer.py. A value of None is not a
number (NaN), which not every database can keep.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway.store.tables import Table


@dataclass(frozen=True, slots=True)
class Series:
    """One curve: the points of one name that one source tells of one rank of an attempt, in the order they came."""

    job: str
    attempt: int
    task: int
    rank: int
    name: str
    source: str
    count: int = 0
    nans: int = 0
    first_step: int | None = None
    last_step: int | None = None
    last: float | None = None
    min: float | None = None  # Of those that are numbers; infinities are.
    min_step: int | None = None
    max: float | None = None
    max_step: int | None = None
    first_at: float = 0.0
    at: float = 0.0  # Of the newest.
    back: int = 0  # How often a step was smaller than the one before it.


@dataclass(frozen=True, slots=True)
class PointStream:
    """How far one stream of points was read, and what in it could not be taken."""

    job: str
    attempt: int
    task: int
    rank: int
    stream: str
    seen: int = 0  # Bytes that are counted in the rows of series.
    packed: int = 0  # Bytes whose points are in chunks; those after them are read from the log index.
    points: int = 0
    unread: int = 0  # Lines, and values in them, that say no number.
    left_out: int = 0  # Points of names beyond the limit.
    lost_bytes: int = 0  # Bytes that storage did not give back.


@dataclass(frozen=True, slots=True)
class Chunk:
    """The points of bytes `start` to `end` of a stream: an object in storage, or here where they are few."""

    job: str
    attempt: int
    task: int
    rank: int
    stream: str
    start: int
    end: int
    object_key: str
    level: int = 0  # How often chunks were merged to make it.
    points: int = 0
    size: int = 0
    data: bytes = b""  # All of it, where there is no object.


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a job was told, or set, before it began to learn, as somebody found it."""

    job: str
    attempt: int
    name: str
    source: str
    value: str = ""
    at: float = 0.0


OF_STREAM = ("job", "attempt", "task", "rank", "stream")
SERIES = Table(
    "metric_series", Series, key=("job", "attempt", "task", "rank", "name", "source"), indexes=(("name", "job"),),
    of_job=True,
)  # fmt: skip
STREAMS = Table("metric_streams", PointStream, key=OF_STREAM, of_job=True)
CHUNKS = Table("metric_chunks", Chunk, key=(*OF_STREAM, "start"), of_job=True)
PARAMETERS = Table("metric_parameters", Parameter, key=("job", "attempt", "name", "source"), of_job=True)
