"""Of a piece of a log that was joined of many: when each of them was written."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0012"
down_revision = "r0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("log_ranges", sa.Column("times", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    raise NotImplementedError("restore the copy that was made before the upgrade")
