"""Real MPIs: Debian's, installed once per machine where that may be done."""

from __future__ import annotations

import pytest

from tests.packages import missing


def have_open_mpi() -> None:
    """Install mpirun if need be; skip the test where that cannot be done."""
    _have("mpirun.openmpi", "openmpi-bin")


def have_mpich() -> None:
    """The same for MPICH, which is `mpirun.mpich` beside an Open MPI."""
    _have("mpirun.mpich", "mpich")


def _have(program: str, package: str) -> None:
    why = missing([program], package)
    if why:
        pytest.skip(why)
