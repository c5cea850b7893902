"""A frozen map is what a plain one would be, whatever came and went, and stays what it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway.control.state.frozen_map import FrozenMap

CHANGES = st.lists(st.dictionaries(st.text(max_size=2), st.none() | st.integers(), max_size=30), max_size=12)


@given(CHANGES)
def test_it_holds_what_a_plain_one_would_and_no_version_changes(changes: list[dict[str, int | None]]) -> None:
    plain: dict[str, int] = {}
    frozen: FrozenMap[str, int] = FrozenMap()
    versions = [(frozen, plain)]
    for each in changes:
        plain = {key: value for key, value in {**plain, **each}.items() if value is not None}
        frozen = frozen.but(each)
        versions.append((frozen, plain))
    for kept, was in versions:
        assert dict(kept) == was
        assert len(kept) == len(was)
        assert all(kept.get(key) == was.get(key) and (key in kept) == (key in was) for key in ("", "a", "b", *was))


def test_it_grows_and_shares_what_did_not_change() -> None:
    frozen: FrozenMap[int, int] = FrozenMap()
    for start in range(0, 20_000, 1000):
        frozen = frozen.but({number: number for number in range(start, start + 1000)})
    assert dict(frozen) == {number: number for number in range(20_000)}
    after = frozen.but({7: 0})
    before, now = ([bucket for row in each._rows for bucket in row] for each in (frozen, after))
    assert sum(one is other for one, other in zip(before, now, strict=True)) == len(before) - 1 > 100
    assert (frozen[7], after[7]) == (7, 0)
