"""References to secrets kept elsewhere lead where they say, and a project has only those that were allowed."""

from __future__ import annotations

import pytest

from headway.core.errors import BadInput
from headway.core.spec.secret_references import check_allowed, check_reference, is_allowed

GOOD = [
    "vault://kv/finance/prod-db#password", "vault://kv/a b/ü#k", "vault://kv/x#a/../b", "aws://eu-west-1/prod/db#user",
    "aws://us-gov-west-1/db", "gcp://my-project-1/name", "gcp://my-project-1/name/7", "azure://my-vault/name",
    "azure://my-vault/name/0123abcd",
]  # fmt: skip
BAD = [
    "s3://a/b", "aws://only", "vault://kv/path", "plain", 7, "", None, "vault://kv/../sys/seal#x", "vault://kv/./a#x",
    "vault://kv/a/..#x", "vault://kv/a?list=true#x", "vault://kv/a%2f..%2fb#x", "vault://kv//a#x", "vault:///a#x",
    "vault://kv/a\\b#x", "vault://kv/a\nb#x", "vault://k/v?/a#x", "azure://evil.example/name", "azure://a?b/name",
    "azure://evil.example#/name", "azure://user@evil/name", "gcp://p/../other/name", "gcp://project/a/b/c",
    "aws://eu-west-1/../x", "aws://EVIL.example/x", "aws://x.example:80/y", f"vault://kv/{'a' * 600}#x",
]  # fmt: skip


@pytest.mark.parametrize("reference", GOOD)
def test_a_reference_as_its_service_has_it_is_taken(reference: str) -> None:
    assert check_reference(reference) == reference


@pytest.mark.parametrize("reference", BAD, ids=repr)
def test_one_that_would_lead_elsewhere_is_refused(reference: object) -> None:
    with pytest.raises(BadInput):
        check_reference(reference)


@pytest.mark.parametrize(
    ("reference", "allowed", "expected"),
    [
        ("vault://kv/vision/hf#token", ["vault://kv/vision/"], True),
        ("vault://kv/vision#token", ["vault://kv/vision/"], False),
        ("vault://kv/vision-x/hf#token", ["vault://kv/vision/"], False),
        ("vault://kv/vision-x/hf#token", ["vault://kv/vision*"], True),
        ("vault://kv/vision#token", ["vault://kv/vision"], True),
        ("vault://kv/vision#other", ["vault://kv/vision#token"], False),
        ("vault://kv/vision/hf#token", ["vault://kv/vision"], False),
        ("aws://eu-west-1/vision-hf", ["aws://eu-west-1/vision-*", "gcp://p/x"], True),
        ("aws://eu-west-2/vision-hf", ["aws://eu-west-1/vision-*"], False),
        ("vault://kv/vision/hf#token", [], False),
    ],
)
def test_what_is_allowed_is_what_was_named(reference: str, allowed: list[str], expected: bool) -> None:
    assert is_allowed(reference, check_allowed(allowed)) is expected


@pytest.mark.parametrize(
    "raw",
    ["vault://kv/", 7, ["kv/"], ["s3://x/"], ["vault://kv/../"], ["vault://*/x"], ["vault://k v/"], [7], ["a"] * 101],
)
def test_what_cannot_be_allowed_is_refused(raw: object) -> None:
    with pytest.raises(BadInput):
        check_allowed(raw)
