"""What Alembic runs around the revisions: one transaction for all of them, alone on the database.

The connection comes from migrate.py. Nothing imports this file; Alembic loads it by its path.
"""

from __future__ import annotations

from alembic import context

from headway.store.sql.schema import metadata

# SQLite cannot alter a column in place: in batch mode Alembic copies the table.
context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
