"""Two pools that could name the same node: found whichever of them comes first."""

from __future__ import annotations

import pytest

from headway.core.errors import BadInput
from headway.core.growth.node_names import check_node_names
from headway.core.model import Pool
from tests.builders import ENGINES


def ssh(name: str, *hosts: str, former: tuple[str, ...] = ()) -> Pool:
    return Pool(name, "ssh", len(hosts), len(hosts), options={"hosts": list(hosts), "former_hosts": list(former)})


@pytest.mark.parametrize(
    ("one", "other", "node"),
    [
        (ssh("lab", "2-1"), Pool("lab-2", "local", 0, 0), "lab-2-1"),
        (ssh("lab", "ada@2.a:22"), ssh("lab-2", "A"), "lab-2-a"),
        (ssh("lab", "x", former=("2-7",)), Pool("lab-2", "local"), "lab-2-7"),
        (ssh("lab", "00112233aa-0-r1"), Pool("lab", "slurm"), ""),
        (ssh("lab", "2-00112233aa-0-r1"), Pool("lab-2", "slurm"), "lab-2-00112233aa-0-r1"),
        (Pool("lab", "slurm"), Pool("lab-00112233aa", "local"), "lab-00112233aa-1"),
        (Pool("lab", "local"), Pool("lab-2", "local"), ""),
        (Pool("lab", "slurm"), Pool("lab-00112233aa", "slurm"), ""),
        (ssh("lab", "2-b"), Pool("lab-2", "local"), ""),
        (ssh("lab", "a"), ssh("lab-2", "a"), ""),
    ],
)
def test_pools_that_can_name_the_same_node_are_refused(one: Pool, other: Pool, node: str) -> None:
    for first, second in ((one, other), (other, one)):
        if node:
            with pytest.raises(BadInput, match=f'would both call a node "{node}"'):
                check_node_names(first, [second], ENGINES)
        else:
            check_node_names(first, [second], ENGINES)
