"""Front doors: other systems' APIs, spoken by this server. Each is a folder here, and one line below.

A front door has a `ROUTES` in its routes.py (api/web/feature_routes.py): it stands on the web's plumbing and on the
commands and views of spine and features; nothing of these knows it.
"""

from __future__ import annotations

NAMES: tuple[str, ...] = ()
