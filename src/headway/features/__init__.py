"""Features stand on the spine: each is one folder that holds all of it, and one line here.

docs/how-to/add-something.md shows how one is made. What the spine asks of a feature is in control/state/feature.py;
its commands, which every command line has to know quickly, are named in the folder's `__init__.py`, with the command
after which they are listed.
"""

from __future__ import annotations

NAMES = (
    "bundles",
    "schedules",
    "visits",
    "usage",
    "secrets",
    "prometheus",
    "metrics",
)
