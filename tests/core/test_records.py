"""Changed copies of records: as the library's, only cheaper."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import pytest

from headway.core import model
from headway.core.records import replace
from headway.core.spec.job import read_spec


def a_job() -> model.Job:
    return model.Job("j1", read_spec({"command": ["true"]}), "mia", 1.0)


def test_a_copy_is_what_the_library_would_make() -> None:
    job = a_job()
    changed = replace(job, state=model.State.RUNNING, version=2, avoid=("n1",))
    assert changed == dataclasses.replace(job, state=model.State.RUNNING, version=2, avoid=("n1",))
    assert type(changed) is model.Job
    assert (job.state, job.version) == (model.State.QUEUED, 0)
    assert replace(job) == job
    assert replace(job) is not job


def test_a_copy_is_as_closed_as_its_original() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        replace(a_job(), version=2).version = 3  # type: ignore[misc]


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError, match="Job has no field 'verson'"):
        replace(a_job(), verson=2)  # type: ignore[call-arg]


def test_records_of_another_make_are_refused() -> None:
    @dataclass(frozen=True)
    class Loose:
        words: list[str] = field(default_factory=list)

    with pytest.raises(TypeError, match="Loose is not a plain record"):
        replace(Loose(), words=["a"])
