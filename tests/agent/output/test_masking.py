"""Secrets never leave the node in a log: whole or in pieces, whatever the pieces are."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_agent.output import masking, packs
from headway_agent.output.masking import Mask

SECRET = b"s3cr3t-value-42"


def shipped_in_pieces(text: bytes, sizes: list[int], mask: Mask) -> bytes:
    """What arrives when the output grows by these sizes and is shipped after each."""
    have, sent = 0, b""
    for size in [*sizes, len(text)]:
        have = min(len(text), have + size)
        start = len(sent)
        back = min(start, mask.longest)
        sent += mask.cover_between(text[start - back : start], text[start:have], have == len(text))
    return sent


@given(st.lists(st.integers(0, 9), max_size=30), st.binary(max_size=20), st.binary(max_size=20))
def test_no_cut_lets_a_value_through_and_every_offset_stays(sizes: list[int], before: bytes, after: bytes) -> None:
    text = before + SECRET + after + SECRET[:5] + b" " + SECRET + SECRET[:-1]
    sent = shipped_in_pieces(text, sizes, Mask([SECRET]))
    assert len(sent) == len(text)
    assert SECRET not in sent
    assert sent == Mask([SECRET]).cover(text)


def test_the_beginning_of_a_value_is_held_back_until_it_is_known() -> None:
    mask = Mask([SECRET])
    assert mask.cover_between(b"", b"token " + SECRET[:7], False) == b"token "
    assert mask.cover_between(b"token ", SECRET[:7] + b" was not it", False) == SECRET[:7] + b" was not it"
    assert mask.cover_between(b"", b"token " + SECRET[:7], True) == b"token " + SECRET[:7]


def test_one_value_may_begin_with_another_and_have_lines_and_be_encoded() -> None:
    mask = Mask([b"abcdefgh", b"abcdefghijkl", b"-----BEGIN\nline-one\nline-two\n"])
    assert mask.cover(b"abcdefghijkl abcdefgh line-one") == b"************ ******** ********"
    assert base64.b64encode(b"abcdefghijkl") not in mask.cover(base64.b64encode(b"abcdefghijkl"))
    assert Mask([b"short"]).cover(b"short words stay short") == b"short words stay short"
    assert not Mask()


@pytest.mark.parametrize("value", [b"hunter", b"hunter2", b"hf_AbCdEfGh?~>>>", b"k" + bytes(range(33, 126)) * 2])
@pytest.mark.parametrize("before", [b"", b"u:", b"me:", b"ana:", b"a longer user name:"])
@pytest.mark.parametrize("after", [b"", b"\n", b"\r\n", b" and more"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_value_is_covered_wherever_it_stands_in_a_text_in_base64(
    value: bytes, before: bytes, after: bytes, encode: Callable[[bytes], bytes]
) -> None:
    said = encode(before + value + after)
    covered = Mask([value]).cover(said)
    assert len(covered) == len(said)
    plain = base64.b64decode(covered.replace(b"*", b"A"), b"-_" if encode is base64.urlsafe_b64encode else None)
    pairs = [(value[at : at + 2], plain[len(before) + at :][:2]) for at in range(len(value) - 1)]
    assert not [left for left, seen in pairs if left == seen]


@pytest.mark.parametrize("width", [76, 64])
def test_a_long_value_is_covered_in_the_lines_of_base64(width: int) -> None:
    value = bytes(range(33, 126)) * 2
    whole = base64.b64encode(value)
    lines = [whole[at : at + width] for at in range(0, len(whole), width)]
    assert set(Mask([value]).cover(b"\n".join(lines))) == set(b"*\n")


def test_packs_and_tails_of_a_task_with_secrets_are_masked(tmp_path: Path) -> None:
    masking.keep(str(tmp_path), {"a": SECRET.decode()})
    assert (tmp_path / "secrets/values.json").stat().st_mode & 0o777 == 0o600
    log = tmp_path / "rank0.out"
    log.write_bytes(b"before " + SECRET[:6])
    wanted = packs.WantedOutput("j/1/0", str(tmp_path), {})
    assert b"".join(packs.make_pack([wanted], "k").pieces) == b"before "
    log.write_bytes(b"before " + SECRET + b" after " + SECRET[:4])
    over = packs.WantedOutput("j/1/0", str(tmp_path), {"0/out": 7}, packs.output_sizes(str(tmp_path)))
    pack = packs.make_pack([over], "k")
    assert b"".join(pack.pieces) == b"*" * len(SECRET) + b" after " + SECRET[:4]
    assert not pack.shrunk
    assert SECRET.decode() not in packs.output_tail(str(tmp_path), 0)
