"""What a job lost since its newest step; the first step that an attempt said, and when it said the newest."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0007"
down_revision = "r0006"
branch_labels = None
depends_on = None

INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("losses", sa.Text(), nullable=False, server_default="{}"))
    op.add_column("attempts", sa.Column("first_step", INT, nullable=True))
    op.add_column("attempts", sa.Column("seen_at", sa.Double(), nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore the copy that was made before the upgrade")
