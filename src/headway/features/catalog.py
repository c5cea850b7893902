"""From the names of features to what servers and command lines work with. Nothing here knows any of them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from headway import features
from headway.control.state.feature import Feature, Features


def load(names: Iterable[str] = features.NAMES) -> Features:
    """The features of these names: of each, the `FEATURE` in its feature.py."""
    found: list[Feature] = [import_module(f"headway.features.{name}.feature").FEATURE for name in names]
    return Features(tuple(found))
