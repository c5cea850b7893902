"""What real-looking ends of logs are taken for: one line of the table each."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.core.job.causes import TABLE, Again
from headway.core.model import Cause
from headway_agent.decide import symptoms
from headway_agent.decide.outcomes import Exit, name_outcome
from headway_agent.limits.rules import Sample, Watch, judge
from headway_agent.output.log_policies import match

FRAMES = 'Traceback (most recent call last):\n  File "train.py", line 12, in <module>\n    main()\n'

# Each: `=== cause | exit N or signal N | a piece of the sentence`, then what the log ends with.
TAILS = [
    (tail, *head.split(" | ")) for head, _, tail in (
        each.partition("\n") for each in Path(__file__).with_name("tails.txt").read_text().split("=== ")[1:]
    )
]  # fmt: skip


@pytest.mark.parametrize(("tail", "cause", "end", "said"), TAILS)
def test_an_end_is_named_by_how_it_looks(tail: str, cause: str, end: str, said: str) -> None:
    word, number = end.split()
    how = Exit(0, exit_code=int(number)) if word == "exit" else Exit(0, signal=int(number))
    outcome = name_outcome([how], tail)
    assert outcome.cause == cause
    assert said in outcome.detail
    assert len(outcome.detail) <= 300


def test_every_cause_of_the_table_is_the_servers_and_its_word_on_trying_again_agrees() -> None:
    for row in symptoms.ROWS:
        again = TABLE[Cause(row.cause)].again
        assert again is not Again.NEVER or not row.again, row.label
        assert row.suggestion


def test_facts_outrank_what_the_log_says() -> None:
    tail = FRAMES + "ModuleNotFoundError: No module named 'x'"
    assert name_outcome([Exit(0, None, 9, oom=True)], tail).cause == "out_of_memory"
    assert name_outcome([Exit(0, None, 9)], tail).cause == "killed"
    assert name_outcome([Exit(0, 1, None, ours="stop")], tail).cause == "cancelled"
    assert name_outcome([Exit(0, 1, oom=True, note="the kernel ended it")], tail).detail == "the kernel ended it"


def test_a_failing_gpu_asks_for_another_node() -> None:
    outcome = name_outcome([Exit(0, 1)], FRAMES + "RuntimeError: CUDA error: uncorrectable ECC error encountered")
    assert [policy.action for policy in outcome.policies] == ["exclude_node"]
    assert outcome.retry_helps is True


def test_a_limit_names_the_end_of_what_we_stopped_and_of_nothing_else() -> None:
    marks = {"limit": ("stalled", "no log line for 60 s"), "policies": [{"label": "l", "action": "label"}]}
    stopped = name_outcome([Exit(0, None, 15, ours="stop")], "", marks)
    assert (stopped.cause, stopped.detail) == ("stalled", "no log line for 60 s")
    assert [policy.show() for policy in stopped.policies] == marks["policies"]
    assert name_outcome([Exit(0, 0)], "", marks).cause == "stalled"
    assert name_outcome([Exit(0, 3)], "", marks).cause == "user_code"


def test_policies_match_lines_in_the_order_of_the_policies() -> None:
    rules = [
        {"pattern": "ECC", "label": "bad gpu", "action": "exclude_node"},
        {"pattern": "^loss", "label": "trains", "action": "label"},
        {"pattern": "never", "label": "never", "action": "label"},
    ]
    assert [each["label"] for each in match(rules, ["loss 0.3", "an ECC error"])] == ["bad gpu", "trains"]


# --- limits ---------------------------------------------------------------------------------------------------------


def test_memory_is_warned_of_once_and_then_ended_at_once() -> None:
    watch = Watch("a/1/0", {"memory_bytes": 100 << 20})
    assert judge(watch, Sample(50 << 20), 0) == []
    (warning,) = judge(watch, Sample(95 << 20), 1)
    assert (warning.do, warning.detail) == ("warn", "uses 95 MiB of its 100 MiB of memory")
    assert judge(watch, Sample(96 << 20), 2) == []
    assert judge(watch, Sample(10 << 20), 3)[0].detail == ""
    (stop,) = judge(watch, Sample(101 << 20), 4)
    assert (stop.do, stop.cause, stop.grace_s) == ("stop", "out_of_memory", 0.0)
    assert judge(watch, Sample(102 << 20), 5) == []


def test_memory_in_a_control_group_is_the_kernels_business() -> None:
    watch = Watch("a/1/0", {"memory_bytes": 100 << 20}, grouped=True)
    assert not watch.needed
    assert judge(watch, Sample(200 << 20), 0) == []


def test_too_much_output_is_stopped_with_grace() -> None:
    watch = Watch("a/1/0", {"output_bytes": 1000}, grace_s=7)
    assert judge(watch, Sample(output_bytes=950), 0)[0].do == "warn"
    (stop,) = judge(watch, Sample(output_bytes=1001), 1)
    assert (stop.cause, stop.grace_s, stop.dump) == ("output_limit", 7, False)


def test_a_stall_is_warned_of_at_half_the_time_and_dumped_before_its_end() -> None:
    watch = Watch("a/1/0", {"stalled_s": 100}, grace_s=5)
    assert judge(watch, Sample(signs=1), 1000) == []
    assert judge(watch, Sample(signs=1), 1049) == []
    assert judge(watch, Sample(signs=1), 1051)[0].do == "warn"
    (over,) = judge(watch, Sample(signs=2), 1060)
    assert (over.do, over.detail) == ("warn", "")
    assert judge(watch, Sample(signs=2), 1120)[0].do == "warn"
    (stop,) = judge(watch, Sample(signs=2), 1160)
    assert (stop.do, stop.cause, stop.dump, stop.grace_s) == ("stop", "stalled", True, 5)


@pytest.mark.parametrize(
    ("tail", "detail"),
    [
        ("starting\nValueError: bad shape\n", "ValueError: bad shape (rank 0, exit code 3)"),
        (
            "Traceback (most recent call last):\n  File x\nmy.errors.Bad: no\ncleaning up\nbye\n",
            "my.errors.Bad: no (rank 0, exit code 3)",
        ),
        ("\x1b[31;1mfatal:\x1b[0m bad \x1b]8;;http://x\x07link\x1b]8;;\x07\n", "fatal: bad link (rank 0, exit code 3)"),
        ("  3%|▎ |\r100%|███|\r\nfailed to open\x07\n\n", "failed to open (rank 0, exit code 3)"),
        ("ValueError: no\n" + "line\n" * 30 + "the end\n", "rank 0 ended with exit code 3; its last line: the end"),
        ("", "rank 0 ended with exit code 3"),
        ("ValueError: x\nheadway: rank 5 ended with exit code 3\n", "ValueError: x (rank 5, exit code 3)"),
        ("headway: rank 5 ended with exit code 3\n", "rank 5 ended with exit code 3"),
        ("error: " + "e" * 500, "error: " + "e" * 271 + " (rank 0, exit code 3)"),
        ("epoch 4", "rank 0 ended with exit code 3; its last line: epoch 4"),
    ],
)
def test_the_error_comes_first_and_without_colours(tail: str, detail: str) -> None:
    assert name_outcome([Exit(0, 3)], tail).detail == detail


def test_a_signal_is_named_with_its_rank() -> None:
    assert name_outcome([Exit(0, None, 11)], "a line").detail == "rank 0 was ended by SIGSEGV"
    assert name_outcome([Exit(1, None, 40)], "").detail == "rank 1 was ended by signal 40"
