"""The tests that are known to fail at times, each with the reason: only these get a second try, and that is said.

A test belongs here only while somebody looks for the cause. Everything else that fails in the crowd fails the run.
"""

from __future__ import annotations

from dataclasses import dataclass

KNOWN_MAX = 10


@dataclass(frozen=True)
class Flaky:
    test: str  # As pytest names it: tests/real/test_visits.py::test_a_port_of_the_node_comes_to_this_machine
    reason: str  # What goes wrong, and why that is not a failure of the product.
    since: str  # The day on which it was seen, as 2026-11-18.


KNOWN: tuple[Flaky, ...] = ()
