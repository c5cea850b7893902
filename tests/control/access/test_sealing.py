"""Sealed secrets open only with their key, in their own place; keys rotate; the file is private."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headway.control.access.sealing import KeyRing, new_key_line, read_keys
from headway.core.errors import BadInput, OperatorError
from headway.core.spec.secrets import Secret, check_value, read_uses, show_uses

PLAIN = Secret("vision", "hf-token", 1)


def test_a_sealed_value_opens_again_and_shows_nothing(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path / "keys")
    sealed = ring.seal(PLAIN, "hf_abcdefgh")
    assert b"hf_abcdefgh" not in sealed.ciphertext
    assert ring.seal(PLAIN, "hf_abcdefgh").ciphertext != sealed.ciphertext
    assert ring.open(sealed) == "hf_abcdefgh"
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600
    assert KeyRing(tmp_path / "keys").open(sealed) == "hf_abcdefgh"


def test_it_opens_nowhere_else(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path / "keys")
    sealed = ring.seal(PLAIN, "hf_abcdefgh")
    wrong = [
        replace(sealed, name="other"),
        replace(sealed, project="other"),
        replace(sealed, version=2),
        replace(sealed, ciphertext=sealed.ciphertext[:-1] + bytes([sealed.ciphertext[-1] ^ 1])),
    ]
    for each in wrong:
        with pytest.raises(OperatorError, match="does not open"):
            ring.open(each)


def test_a_new_key_on_top_seals_what_is_new_and_the_old_one_opens_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    ring = KeyRing(path)
    old = ring.seal(PLAIN, "hf_abcdefgh")
    before = path.read_text()
    path.write_text(new_key_line() + before)
    fresh = ring.seal(PLAIN, "hf_abcdefgh")
    assert fresh.key_id != old.key_id
    assert {ring.open(old), ring.open(fresh)} == {"hf_abcdefgh"}
    path.write_text(path.read_text().splitlines()[0] + "\n")
    assert ring.open(fresh) == "hf_abcdefgh"
    with pytest.raises(OperatorError, match="does not have"):
        ring.open(old)


def test_a_key_file_that_others_may_read_or_that_is_not_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    with pytest.raises(OperatorError, match="no key file"):
        KeyRing(path, make=False).seal(PLAIN, "hf_abcdefgh")
    path.write_text(new_key_line())
    path.chmod(0o644)
    with pytest.raises(OperatorError, match="others may read"):
        KeyRing(path).seal(PLAIN, "hf_abcdefgh")
    for text in ("", "a b c\n", "id notbase64!\n", "id c2hvcnQ=\n"):
        with pytest.raises(OperatorError):
            read_keys(text, "keys")


def test_words_of_a_job_about_secrets_read_back() -> None:
    uses = read_uses({"HF_TOKEN": "hf-token", "KEY": {"name": "gcp.key", "file": True}}, "secrets")
    assert read_uses(show_uses(uses), "secrets") == uses
    assert [use.variable for use in read_uses(["hf-token"], "secrets")] == ["HF_TOKEN"]
    for raw in ({"HEADWAY_X": "a"}, {"A B": "a"}, {"A": "a/b"}, "a", {"A": {"nam": "x"}}, ["../x"], {"A": 3}):
        with pytest.raises(BadInput):
            read_uses(raw, "secrets")
    for value in (b"short", b"x" * 70_000, b"\xff\xfe\xfd\xfc\xfb\xfa", b"nul\0byte"):
        with pytest.raises(BadInput):
            check_value(value)
