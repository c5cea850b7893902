"""Signed names: which key signs, which are accepted, and what is revoked."""

from __future__ import annotations

import hmac

from headway.core.access.tokens import Signer
from headway_agent.server_link.seals import Seal

OLD, NEW, BEFORE = b"o" * 32, b"n" * 32, b"b" * 32


def test_the_first_key_signs_and_all_are_accepted() -> None:
    old, both = Signer([OLD]), Signer([NEW, OLD])
    assert both.token_for("n1") == Signer([NEW]).token_for("n1")
    assert both.bearer(old.token_for("n1")) == ("hwn", "n1", False)
    assert both.bearer(both.token_for("n1")) == ("hwn", "n1", True)
    assert Signer([NEW]).bearer(old.token_for("n1")) is None


def test_each_use_has_a_key_of_its_own() -> None:
    signer = Signer([NEW])
    seals = {signer.token_for("n1").partition(".")[2], signer.code_for("n1").partition(".")[2]}
    assert len(seals) == 2
    assert len({*signer.addresses, signer.gangs, NEW}) == 3


def test_a_revoked_token_is_none_and_the_next_one_is_good() -> None:
    signer, then = Signer([NEW], [BEFORE]), Signer([NEW], [BEFORE], {"n1": 1})
    assert then.bearer(signer.token_for("n1")) is None
    assert then.bearer(then.token_for("n1")) == ("hwn", "n1", True)
    assert then.bearer(signer.token_for("n2")) == ("hwn", "n2", True)
    assert Signer([NEW], [BEFORE], {"n1": 2}).bearer(then.token_for("n1")) is None
    assert len(signer.tokens_of("hwn_bjE")) == 2
    assert len(then.tokens_of("hwn_bjE")) == 1, "what the old database signed is revoked with it"


def test_the_agents_own_hmac_is_the_one_that_everybody_knows() -> None:
    for token in ("hwn_bjE.short", "hwn_bjE." + "x" * 100):
        expected = hmac.digest(token.encode(), "request\nü\n1".encode(), "sha256")
        assert Seal(token).mark("request", "ü", 1) == expected
