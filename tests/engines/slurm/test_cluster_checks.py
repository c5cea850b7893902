"""A pool against what Slurm says of its cluster: the cases that the lab of real Slurm nodes does not have."""

from __future__ import annotations

import pytest

from headway.core.model import Pool, Resources
from headway.engines.slurm.cluster_checks import because, findings, plain, read_books, read_groups, reason, seconds

SINFO = """batch*|up|2-00:00:00|3|4|4096|(null)|(null)|idle
batch*|up|2-00:00:00|1|64|515072|gpu:a100:8(S:0-1)|a100,nvlink|mixed
old|up|infinite|2|4|4096|(null)|(null)|drained*
this line is of another version
"""
POOL = Pool("lab", "slurm", 0, 4, shape=Resources(1.0))
BOOKS = read_books("ada", "vision|fast,normal\nspeech|normal\n")


def found(pool: Pool = POOL, refusal: str = "", **given: object) -> list[str]:
    told = findings(pool, given, read_groups(SINFO), refusal, BOOKS)
    return [f"{each['verdict']} {each['found']}" for each in told]


def test_a_pool_that_fits_has_nothing_to_mend() -> None:
    assert found(account="vision", qos="fast", life_s=86400.0) == ["ok Slurm takes an order of one node"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"life_s": 259200.0},
            "fail options.time is 3 d 0 h, and partition batch allows 2 d 0 h: such orders wait for ever",
        ),
        ({"partition": "old"}, "warn none of the 2 nodes of partition old can be used (drained*)"),
        ({"account": "visoin"}, 'warn account "visoin" is not one that ada may use: did you mean "vision"?'),
        ({"qos": "zz"}, 'warn qos "zz" is not one that ada may use: it has fast, normal'),
    ],
)
def test_what_would_wait_for_ever_is_told(given: dict[str, object], said: str) -> None:
    assert found(**given)[1:] == [said]


def test_a_pool_wider_than_its_partition_is_told() -> None:
    wide = Pool("lab", "slurm", 0, 6, shape=Resources(1.0))
    assert found(wide)[1:] == ["warn the pool may have 6 nodes, partition batch has 4: wider gangs wait for ever"]


def test_a_refusal_is_told_with_what_there_is_instead() -> None:
    groups = read_groups(SINFO)
    assert because("Invalid partition name specified", groups, "gpu") == "it has batch, old"
    assert because("Invalid feature specification", groups, "") == "it has the features a100, nvlink"
    assert because("Requested node configuration is not available", groups, "") == (
        "of 4 nodes the largest has 64 cpus and 503.0 GiB; it has the generic resources gpu:a100:8(S:0-1)"
    )
    assert because("Access/permission denied", groups, "") == ""
    assert because("Invalid partition name specified", [], "gpu") == ""


def test_slurms_words_are_made_plain() -> None:
    assert (
        plain("sbatch: error: Batch job submission failed: Invalid qos; allocation failure: Invalid qos")
        == "Invalid qos"
    )
    assert reason("Resources") == "Resources"
    assert (
        reason("QOSMaxJobsPerUserLimit") == "QOSMaxJobsPerUserLimit, a limit of the account or the quality of service"
    )
    assert reason("PartitionTimeLimit") == "PartitionTimeLimit, longer than the partition allows"
    assert reason("ReqNodeNotAvail, UnavailableNodes:n1").startswith("ReqNodeNotAvail, UnavailableNodes:n1, nodes that")
    assert (seconds("1-02:03:04"), seconds("3:04"), seconds("UNLIMITED")) == (93784.0, 184.0, None)
