"""Where else a job could go that one node refuses."""

from __future__ import annotations

import pytest

from headway.core.scheduling.fit import could_go_elsewhere, need_of
from tests.builders import a_node, a_spec

HOUSE = [a_node("n1"), a_node("n2"), a_node("n3", cpus=1.0), a_node("n4", cordoned=True)]


@pytest.mark.parametrize(
    ("nodes", "cpus", "avoid", "elsewhere"),
    [
        (1, 2.0, (), True),
        (1, 2.0, ("n2",), False),
        (1, 1.0, ("n2",), True),
        (2, 1.0, (), True),
        (2, 2.0, (), False),
        (2, 1.0, ("n3",), False),
    ],
)
def test_a_job_could_go_elsewhere_while_enough_open_nodes_that_suit_it_have_not_refused_it(
    nodes: int, cpus: float, avoid: tuple[str, ...], elsewhere: bool
) -> None:
    need = need_of(a_spec(nodes=nodes, cpus=cpus), None, avoid)
    assert could_go_elsewhere(need, HOUSE, "n1") is elsewhere
