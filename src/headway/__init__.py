"""Headway: a managed training service. This file knows the version and where the SDK's names are."""

from typing import Any

__version__ = "0.1.0"

_SDK = ("Client", "JobHandle", "submit")


def __getattr__(name: str) -> Any:
    """`headway.submit` and its like are loaded when they are first asked for: importing headway stays cheap."""
    if name in _SDK:
        from headway.client import sdk

        return getattr(sdk, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
