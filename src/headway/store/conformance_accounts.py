"""The law of all stores about accounts. A part of StoreConformance in conformance.py, which says how one is opened."""

from __future__ import annotations

from headway.store.protocol import Store


class AccountConformance:
    def test_the_first_key_of_a_name_stays(self, store: Store) -> None:
        assert store.shared_key("a", "first") == "first"
        assert store.shared_key("a", "second") == "first"
        assert store.shared_key("b", "other") == "other"
