"""Of each project: the references to secrets kept elsewhere that an admin of the server has allowed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0010"
down_revision = "r0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("projects", sa.Column("allowed", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    raise NotImplementedError("restore the copy that was made before the upgrade")
