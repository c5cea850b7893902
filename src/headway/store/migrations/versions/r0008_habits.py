"""Of each checkpoint: what its step counts, where it was found to be saved, and whether it is one share of several."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0008"
down_revision = "r0007"
branch_labels = None
depends_on = None

INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("checkpoints", sa.Column("unit", sa.Text(), nullable=False, server_default="step"))
    op.add_column("checkpoints", sa.Column("found", sa.Text(), nullable=False, server_default=""))
    op.add_column("checkpoints", sa.Column("sharded", INT, nullable=False, server_default="0"))


def downgrade() -> None:
    raise NotImplementedError("restore the copy that was made before the upgrade")
