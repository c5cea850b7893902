from __future__ import annotations

import pytest

from headway.core.errors import BadInput
from headway.core.spec.metric_rules import MetricRule, read_rules


def test_rules_are_read_in_our_form_and_in_sagemakers():
    rules = read_rules([{"name": "a", "regex": "a=(.+)"}, {"Name": "b", "Regex": "b=(.*?);"}], "metrics")
    assert rules == (MetricRule("a", "a=(.+)"), MetricRule("b", "b=(.*?);"))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("loss", "expected a list"),
        ([{"name": "a"}], r"metrics\[0\]: expected name and regex"),
        ([{"name": "a", "regex": "(", "x": 1}], "nothing else"),
        ([{"name": "a", "regex": "("}], "is not a regular expression"),
        ([{"name": "", "regex": "a"}], r"metrics\[0\]\.name"),
        ([{"name": "a", "regex": 3}], r"metrics\[0\]\.regex"),
    ],
)
def test_wrong_rules_are_refused_with_their_place(raw, said):
    with pytest.raises(BadInput, match=said):
        read_rules(raw, "metrics")
