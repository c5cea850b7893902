"""Of each share of a gang's checkpoint: who saves beside its task, whom it covers, and what it is worth as a proof."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0009"
down_revision = "r0008"
branch_labels = None
depends_on = None

INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("checkpoints", sa.Column("savers", sa.Text(), nullable=False, server_default="[]"))
    op.add_column("checkpoints", sa.Column("covers", sa.Text(), nullable=False, server_default="[]"))
    op.add_column("checkpoints", sa.Column("late", INT, nullable=False, server_default="0"))
    op.add_column("checkpoints", sa.Column("beside", INT, nullable=False, server_default="0"))


def downgrade() -> None:
    raise NotImplementedError("restore the copy that was made before the upgrade")
