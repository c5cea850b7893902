"""Whether it is tried again: one row per cause, three budgets that are never mixed."""

from __future__ import annotations

import pytest

from headway.core.job import retry
from headway.core.job.causes import TABLE, Again, Whose
from headway.core.model import Cause, Losses, Retries
from tests.builders import NOW, a_job

# Cause, whose, tried again with one retry left, tried again with none left.
ROWS = """
user_code        user      yes  no
command_missing  user      no   no
not_executable   user      no   no
syntax_error     user      no   no
crashed          user      yes  no
killed           user      yes  no
out_of_memory    user      yes  no
gpu_out_of_memory  user    no   no
not_a_number     user      no   no
import_error     user      no   no
data_missing     user      no   no
permission_denied  user    no   no
disk_full        user      no   no
shared_memory    user      no   no
collective_timeout  user   yes  no
image_refused    user      no   no
environment_failed  user   no   no
input_missing    user      no   no
bundle_missing   user      no   no
secret_missing   user      no   no
workdir_missing  user      no   no
stalled          user      yes  no
output_limit     user      no   no
time_limit       user      no   no
pending_limit    user      no   no
cancelled        user      no   no
not_needed       user      no   no
bad_spec         user      no   no
outputs_unkept   user      no   no
requeue_asked    capacity  yes  yes
preempted        capacity  yes  yes
reclaimed        capacity  yes  yes
node_lost        platform  yes  yes
never_started    platform  yes  yes
unreachable      platform  yes  yes
outcome_lost     platform  yes  yes
files_lost       platform  yes  yes
"""


def rows() -> list[tuple[Cause, str, bool, bool]]:
    split = [line.split() for line in ROWS.strip().splitlines()]
    return [(Cause(cause), whose, left == "yes", none == "yes") for cause, whose, left, none in split]


def test_the_table_has_every_cause() -> None:
    assert [cause for cause, *_ in rows()] == list(Cause) == list(TABLE)


@pytest.mark.parametrize(("cause", "whose", "with_budget", "without"), rows())
def test_each_cause_is_tried_again_or_not_and_paid_from_one_budget(
    cause: Cause, whose: str, with_budget: bool, without: bool
) -> None:
    assert TABLE[cause].whose.value == whose
    rich = retry.decide(a_job(retries_max=1), cause, NOW)
    poor = retry.decide(a_job(retries_max=0), cause, NOW)
    assert (rich.again, poor.again) == (with_budget, without)
    paid = {name: int(name == whose and with_budget) for name in ("user", "platform", "capacity")}
    assert rich.retries == Retries(**paid)
    assert poor.again or (poor.retries == Retries() and poor.reason)


def test_every_cause_has_words_and_every_users_cause_says_what_to_do() -> None:
    for cause, row in TABLE.items():
        assert row.says
        assert row.hint or row.whose is not Whose.USER or cause is Cause.CANCELLED
        assert (row.again is Again.AT_ONCE) == (row.whose is not Whose.USER)


@pytest.mark.parametrize(("used", "pause_s"), [(0, 2), (1, 4), (2, 8), (6, 128), (8, 300), (60, 300)])
def test_the_pause_grows_with_each_failure_up_to_a_limit(used: int, pause_s: float) -> None:
    job = a_job(retries_max=100, retries=Retries(user=used), losses=Losses(user=used))
    assert retry.decide(job, Cause.USER_CODE, NOW).not_before == NOW + pause_s


@pytest.mark.parametrize(("lost", "pause_s"), [(0, 0), (2, 0), (3, 5), (4, 10), (9, 300)])
def test_the_first_losses_cost_no_time_and_later_ones_do_not_spin(lost: int, pause_s: float) -> None:
    job = a_job(losses=Losses(platform=lost, hasty=lost))
    assert retry.decide(job, Cause.NODE_LOST, NOW).not_before == NOW + pause_s


@pytest.mark.parametrize(("lost", "pause_s"), [(0, 15), (1, 30), (4, 240), (9, 300)])
def test_what_cannot_be_reached_is_tried_again_with_a_pause_from_the_first_time_on(lost: int, pause_s: float) -> None:
    job = a_job(losses=Losses(platform=lost, hasty=lost))
    assert retry.decide(job, Cause.UNREACHABLE, NOW).not_before == NOW + pause_s


def test_even_the_platform_gives_up_at_last() -> None:
    job = a_job(losses=Losses(platform=retry.PLATFORM_RETRIES_MAX))
    verdict = retry.decide(job, Cause.NODE_LOST, NOW)
    assert (verdict.again, verdict.retries, verdict.losses) == (False, job.retries, job.losses)
    assert retry.decide(job, Cause.RECLAIMED, NOW).again, "another budget"
